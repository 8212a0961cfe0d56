"""Top-k against torch.topk on one GPU.

    python -m benchmarks.topk                 the table: fp16 rows of the published sizes, then fp32 rows up to 524288
    python -m benchmarks.topk 64x1024:32      some of them
    python -m benchmarks.topk --tune          every candidate configuration of every size

Inputs are uniform in [0, 1) (fp16) or standard normal (fp32). Each side is a CUDA graph of 20 calls, replayed in turn with the
other one (`mimw.testing.benchmark.alternate`), so that host time does not count; the time is that of one call. torch.topk sorts its
result, ours is in any order; very long rows are streamed by mimw.kernels.topk_selector, where mimw.ops.topk does so.
Every timed result is checked: the same values, each where its index says, no index twice.
"""

from __future__ import annotations

from itertools import product

from mimw.kernels import topk, topk_selector
from mimw.kernels.topk import Configuration
from mimw.testing.benchmark import Row, alternate
from mimw.tuning.graphs import graphed

from .driver import command, some_of
from .gpu import keep, parsed, row_of, summary, torch, tried
from .progress import each

CALLS = 20
SIZES = {("fp16", 64, 128, 8): 2.09, ("fp16", 64, 1024, 32): 2.27, ("fp16", 64, 8192, 128): 1.91, ("fp16", 128, 32768, 256): 1.28,
         ("fp32", 64, 128, 8): None, ("fp32", 64, 1024, 32): None, ("fp32", 64, 8192, 128): None, ("fp32", 128, 32768, 256): None,
         ("fp32", 1, 131072, 2048): None, ("fp32", 1, 524288, 2048): None, ("fp32", 64, 131072, 2048): None,
         ("fp32", 64, 524288, 2048): None}  # -> published ratio to torch on an H800


def inputs(dtype: str, m: int, n: int) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.rand(m, n, device="cuda", dtype=torch.float16) if dtype == "fp16" else torch.randn(m, n, device="cuda")


def check(x, values, indices) -> None:
    """An error unless these are the largest of each row and where they are."""
    at = indices.long()
    expected = torch.topk(x, values.shape[1]).values
    if not (values.sort(descending=True).values.equal(expected) and x.gather(1, at).equal(values)
            and (at.sort().values.diff() > 0).all()):
        raise AssertionError(f"wrong top {values.shape[1]} of {tuple(x.shape)} {x.dtype}")


def measure(size, chosen: Configuration | None = None, at_least_ms: float = 200.0) -> Row:
    """One row, checked."""
    dtype, m, n, k = size
    x = inputs(dtype, m, n)
    values, indices = torch.empty(m, k, dtype=x.dtype, device="cuda"), torch.empty(m, k, dtype=torch.int32, device="cuda")
    sorted_values, sorted_indices = torch.empty_like(values), indices.long()
    streamed = chosen is None and topk_selector.streamed(m, n)
    if streamed:
        kernel, (grid, args, meta) = topk_selector.kernel, topk_selector.arguments(x, None, None, indices, values)
    else:
        kernel, (grid, args, meta) = topk.kernel, topk.arguments(x, values, indices, chosen)
    launch = kernel[grid]
    ours = graphed(lambda: launch(*args, **meta), CALLS)
    baseline = graphed(lambda: torch.topk(x, k, out=(sorted_values, sorted_indices)), CALLS)
    values.fill_(float("nan")), indices.fill_(-1)
    ours()
    check(x, values, indices)
    times = {name: time / CALLS for name, time in alternate({"mimw": ours, "torch": baseline}, at_least_ms).items()}
    used = topk_selector.configuration(m, n, k) if streamed else chosen or topk.configuration(n)
    return row_of(f"topk-{dtype}", dict(M=m, N=n, K=k), vars(used), times, 0.0, "uniform" if dtype == "fp16" else "standard normal")


def candidates(size) -> list[Configuration]:
    """What may be good for a size."""
    _, _, n, _ = size
    found = [Configuration(ctas, warps, copies, digit)
             for ctas, warps, copies, digit in product((1, 2, 4, 8, 16), (1, 2, 4, 8, 16, 32), (1, 4, 16), (4, 8))]
    return [one for one in found if 32 * one.warps * one.ctas <= max(n, 64) and n <= one.ctas * 32 * one.warps * 32
            and (one.ctas == 1 or n >= 8192) and (n // one.ctas >= 2048 or one.ctas == 1)
            and (one.digit == 8 or n <= 1024) and (n <= 32768 or one.warps == 32)
            and (n <= 8192 or one.warps >= 16) and (n != 8192 or one.warps >= 8)]


def line(row: Row, published: float | None) -> str:
    """A row for people."""
    size = "{M}x{N}:{K}".format(**row.shape)
    used = " ".join(f"{name} {value}" for name, value in row.configuration.items())
    beat = f"  (H800, published: {published:.2f})" if published else ""
    return (f"{row.name} {size:<16} {row.microseconds:8.2f} us  torch {row.baselines['torch']:8.2f}  "
            f"ratio {row.ratios()['torch']:5.2f}{beat}  {used}")


def main() -> None:
    parser = command(__doc__, tune=True)
    some_of(parser, "sizes", list(dict.fromkeys(map("{0[1]}x{0[2]}:{0[3]}".format, SIZES))))
    options = parsed(parser)
    ratios = []
    for size in each(size for size in SIZES if not options.sizes or "{1}x{2}:{3}".format(*size) in options.sizes):
        rows, published = [], SIZES[size]
        for row in tried(str(size), candidates(size) if options.tune else [None],
                         lambda chosen: measure(size, chosen, 15.0 if options.tune else 200.0), options.tune):
            rows.append(row)
            keep(row, options.results / "topk.jsonl")
            if not options.tune:
                print(line(row, published), flush=True)
        for row in sorted(rows, key=lambda row: -row.ratios()["torch"])[:3 if options.tune else 0]:
            print(line(row, published), flush=True)
        ratios.append(max((row.ratios()["torch"] for row in rows), default=0.0))
    print(summary(ratios, "torch.topk", digits=2))


if __name__ == "__main__":
    main()
