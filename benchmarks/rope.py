"""Rotary position embedding of queries and keys against torch, torch.compile and a copy of as many bytes, on one GPU.

    python -m benchmarks.rope                       six shapes, bf16, both in one launch
    python -m benchmarks.rope 4096x32x8x128 --ms 50     batch 1, length 4096, 32 heads and 8 of keys, head dim 128

Inputs are standard normal; heads lie side by side (length, heads, dim) unless the name ends in `:heads`, where positions do. torch
and torch.compile turn halves, as Hugging Face's models do. Ours and the baselines take turns with a cold L2
(`mimw.testing.benchmark.alternate`); results are compared with fp64.
"""

from __future__ import annotations

from mimw.kernels import rope
from mimw.testing.benchmark import Row, alternate

from .driver import command, some_of
from .gpu import parsed, row_of, table, torch
from .progress import each

CASES = {"4096x32x8x128": (1, 4096, 32, 8, 128, 128), "16384x32x8x128": (1, 16384, 32, 8, 128, 128),
         "8x4096x64x8x128": (8, 4096, 64, 8, 128, 128), "16384x16x16x64": (1, 16384, 16, 16, 64, 64),
         "16384x32x2x128:64": (1, 16384, 32, 2, 128, 64), "16384x32x8x128:heads": (1, 16384, 32, 8, 128, 128)}


def turned(x, cos, sin):
    """By torch, in the types of its arguments: columns i and i + half of the first 2 x half columns are a pair."""
    half = cos.shape[-1]
    a, b = x[..., :half], x[..., half:2 * half]
    return torch.cat((a * cos - b * sin, b * cos + a * sin, x[..., 2 * half:]), -1)


def by_torch(q, k, cos, sin):
    """Both."""
    return turned(q, cos, sin), turned(k, cos, sin)


def measure(name: str, at_least_ms: float = 200.0) -> Row:
    """One row, checked."""
    batch, length, heads, kv_heads, dim, turning = CASES[name]
    torch.manual_seed(0)

    def random(heads):
        if name.endswith("heads"):
            return torch.randn(batch, heads, length, dim, device="cuda", dtype=torch.bfloat16)
        return torch.randn(batch, length, heads, dim, device="cuda", dtype=torch.bfloat16).transpose(1, 2)

    xs = random(heads), random(kv_heads)
    angle = torch.outer(torch.arange(length, device="cuda"), 1e4**-torch.linspace(0, 1, turning // 2, device="cuda"))
    cos, sin = angle.cos(), angle.sin()
    low = cos.bfloat16(), sin.bfloat16()
    outs = tuple(torch.full_like(x, float("nan")) for x in xs)

    def frozen(outs):
        kernel, grid, args, meta = rope.arguments(xs, outs, cos[None], sin[None])
        return kernel.freeze(grid, *args, **meta)

    run = frozen(outs)
    run()
    error = max(((y.double() - exact).norm() / exact.norm()).item() for y, exact in zip(outs, by_torch(
        *(x.double() for x in xs), cos.double(), sin.double())))
    if not error < 3e-3:
        raise AssertionError(f"{name}: error {error:.2e}")
    whole = torch.cat([x.transpose(1, 2).reshape(-1) for x in xs])
    copied, compiled = torch.empty_like(whole), torch.compile(by_torch, dynamic=False)
    times = alternate({"mimw": run, "copy": lambda: copied.copy_(whole), "torch": lambda: by_torch(*xs, *low),
                       "torch.compile": lambda: compiled(*xs, cos, sin), "in place": frozen(xs)}, at_least_ms)
    shape = dict(batch=batch, length=length, heads=heads, kv_heads=kv_heads, dim=dim, turning=turning)
    return row_of(f"rope-{name}", shape, {}, times, error, "standard normal")


def line(row: Row) -> str:
    """A row for people."""
    shape = row.shape
    moved = 4 * shape["batch"] * shape["length"] * (shape["heads"] + shape["kv_heads"]) * shape["dim"] / row.microseconds / 1e3
    others = "  ".join(f"{name} {row.baselines[name]:.1f} ({ratio:.3f})" for name, ratio in row.ratios().items())
    return f"{row.name:<26} {row.microseconds:8.1f} us {moved:5.0f} GB/s  {others}  error {row.error:.1e}"


def main() -> None:
    parser = command(__doc__, ms=200.0)
    some_of(parser, "cases", CASES)
    options = parsed(parser)
    rows = (measure(name, options.ms) for name in each(options.cases or CASES))
    table(rows, options.results / "rope.jsonl", line, lambda row: "copy", "the copy")


if __name__ == "__main__":
    main()
