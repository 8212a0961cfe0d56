"""What the GEMM does to its sums on their way out: what it costs, and how torch's own does, on one GPU.

    python -m benchmarks.gemm_epilogue                    bias, activation and residual in bf16; scales in fp8
    python -m benchmarks.gemm_epilogue fp8-row --ms 50    one of them
    python -m benchmarks.gemm_epilogue bias-gelu-kept     the activation, and what it was applied to, as gradients want it
    python -m benchmarks.gemm_epilogue fp8-row --tune     with every candidate configuration

Baselines in the same run: `plain` is our GEMM without it, `torch` the call that computes the same (`addmm`, `_addmm_activation`,
`_scaled_mm`). Inputs are standard normal; results are checked against fp64 on some rows.
"""

from __future__ import annotations

from functools import partial
from math import prod

from mimw.kernels import gemm
from mimw.kernels.gemm import Configuration
from mimw.testing.benchmark import Row, alternate

from .driver import command, some_of
from .gemm_error import allowed
from .gpu import compiled_before, keep, multiprocessors, parsed, row_of, summary, torch, tried
from .progress import each

KINDS = ("bias", "bias-gelu", "bias-gelu-kept", "residual", "fp8-tensor", "fp8-row", "fp8-tensor-fast", "fp8-row-fast")
BF16 = ((8192, 8192, 2048), (8192, 8192, 8192))
FP8 = ((8192, 8192, 8192), (4096, 4096, 4096), (8192, 8192, 2048), (2304, 12800, 32768))


TURNS = [Configuration(bm=128, bn=128, stages=stages, staging=staging, ping_pong=True, group_m=group)
         for stages, staging, group in ((6, 1, 8), (6, 1, 16), (5, 2, 8))]
TOGETHER = [Configuration(bm=128, bn=256, stages=4, staging=2, group_m=group) for group in (4, 8, 16)] + [
    Configuration(bm=256, bn=128, stages=4, staging=1, group_m=8)]
SMALL = [Configuration(bm=128, bn=128, stages=6, staging=2, group_m=group, together=together)
         for group, together in ((4, 2), (8, 1), (8, 2), (8, 4), (16, 2))] + [
    Configuration(bm=256, bn=128, stages=4, staging=1, group_m=group) for group in (4, 8, 16)]      # for promoted sums


def candidates(kind: str) -> list[Configuration]:
    """Those that can do it."""
    return SMALL if kind.startswith("fp8") and not kind.endswith("fast") else TURNS + TOGETHER


def problem(kind: str, shape: tuple[int, int, int]):
    """(a, b, c, our keywords, torch's call, the same in fp64 of some rows)."""
    (m, n, k), cuda = shape, dict(device="cuda")
    torch.manual_seed(0)
    if kind.startswith("fp8"):
        a, b = (torch.randn(rows, k, **cuda).to(torch.float8_e4m3fn) for rows in (m, n))
        rows, columns = torch.rand(m, 1, **cuda) + 0.5, torch.rand(1, n, **cuda) + 0.5
        if "tensor" in kind:
            rows, columns = rows[:1], columns[:, :1]
        fast, b = kind.endswith("fast"), b.T
        keywords = dict(row_scale=rows.reshape(-1), column_scale=columns.reshape(-1), promoted=not fast)
        given = (rows.reshape(()), columns.reshape(())) if "tensor" in kind else (rows.contiguous(), columns.contiguous())
        return (a, b, torch.empty(m, n, dtype=torch.bfloat16, **cuda), keywords,
                lambda: torch._scaled_mm(a, b, *given, out_dtype=torch.bfloat16, use_fast_accum=fast),
                lambda some: a[some].double() @ b.double() * (rows if "tensor" in kind else rows[some]).double() * columns.double())
    a, b = torch.randn(m, k, **cuda).bfloat16(), torch.randn(k, n, **cuda).bfloat16()
    c, bias = torch.empty(m, n, dtype=torch.bfloat16, **cuda), torch.randn(n, **cuda).bfloat16()
    if kind == "residual":
        more = torch.randn(m, n, **cuda).bfloat16()
        return (a, b, c, dict(residual=more), lambda: torch.addmm(more, a, b),
                lambda some: a[some].double() @ b.double() + more[some].double())
    if kind == "bias":
        return a, b, c, dict(bias=bias), lambda: torch.addmm(bias, a, b), lambda some: a[some].double() @ b.double() + bias.double()
    if kind == "bias-gelu-kept":
        gelu = partial(torch.nn.functional.gelu, approximate="tanh")
        return (a, b, c, dict(bias=bias, activation="gelu_tanh", kept=torch.empty_like(c)), lambda: gelu(torch.addmm(bias, a, b)),
                lambda some: gelu((a[some].double() @ b.double() + bias.double()).bfloat16().double()))
    return (a, b, c, dict(bias=bias, activation="gelu_tanh"), lambda: torch._addmm_activation(bias, a, b, use_gelu=True),
            lambda some: torch.nn.functional.gelu(a[some].double() @ b.double() + bias.double(), approximate="tanh"))


def measure(kind: str, shape, chosen: Configuration | None, at_least_ms: float) -> Row:
    """One row, checked."""
    a, b, c, keywords, baseline, exact = problem(kind, shape)
    runs = {}
    for name, more in (("mimw", keywords), ("plain", {"promoted": keywords.get("promoted", False)})):
        out = c if name == "mimw" else torch.empty_like(c)
        numbers, flags = gemm.room_for(*shape, a.itemsize, multiprocessors(), chosen, promoted=more.get("promoted", False),
                                       residual="residual" in more)
        rooms = dict(room=torch.empty(numbers, device="cuda"), flags=torch.zeros(flags, device="cuda", dtype=torch.int32))
        grid, args, meta = gemm.arguments(a, b, out, multiprocessors(), chosen, **more, **rooms if flags else {})
        runs[name] = gemm.kernel.freeze(grid, *args, **meta)     # ordinary launches of so many arguments show in the figures
        runs[name]()
    some = torch.randperm(a.shape[0], device="cuda")[:64]
    wanted = exact(some)
    error = ((c[some].double() - wanted).norm() / wanted.norm()).item()
    most = allowed(a.dtype.itemsize, 2, 128 if keywords.get("promoted") else a.shape[1])
    if not error < 1.5 * most:
        raise AssertionError(f"{kind}: error {error:.2e} against fp64 on rows, allowed {1.5 * most:.2e}")
    times = alternate({**runs, "torch": baseline}, at_least_ms)
    used = chosen or gemm.chosen_for(*shape, a.dtype.itemsize, keywords.get("promoted", False), multiprocessors()).fitted(
        a.dtype.itemsize, 2, a.dtype.itemsize == 1, "residual" in keywords)
    return row_of(f"gemm_epilogue-{kind}", dict(zip("MNK", shape)), vars(used), times, error, "standard normal")


def line(row: Row) -> str:
    """A row for people."""
    rate = 2 * prod(row.shape.values()) / row.microseconds / 1e6
    shape = "x".join(map(str, row.shape.values()))
    used = row.configuration
    how = f"{'ping-pong' if used['ping_pong'] else 'cooperative'} {used['bm']}x{used['bn']}, {used['stages']} stages, " \
          f"{used['staging']} to stage, band {used['group_m']}"
    return (f"{row.name:<30} {shape:<18} {row.microseconds:8.1f} us {rate:5.0f} TFLOP/s  plain {row.ratios()['plain']:.3f}  "
            f"torch {row.ratios()['torch']:.3f}  error {row.error:.1e}  {how}")


def main() -> None:
    parser = command(__doc__, tune=True, ms=200.0, jobs=True)
    some_of(parser, "kinds", KINDS)
    options = parsed(parser)
    ratios = []
    every = [(kind, shape) for kind in options.kinds or KINDS for shape in (FP8 if kind.startswith("fp8") else BF16)]
    compiled_before(options.jobs, measure, [(kind, shape, chosen, options.ms) for kind, shape in every
                                            for chosen in (candidates(kind) if options.tune else [None])])
    for kind, shape in each(every):
        rows = []
        for row in tried(kind, candidates(kind) if options.tune else [None],
                         lambda chosen: measure(kind, shape, chosen, options.ms), options.tune):
            rows.append(row)
            keep(row, options.results / "gemm_epilogue.jsonl")
            print(line(row), flush=True)
        ratios.append(max(row.ratios()["torch"] for row in rows))
    print(summary(ratios, "torch"))


if __name__ == "__main__":
    main()
