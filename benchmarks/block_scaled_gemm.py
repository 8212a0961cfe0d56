"""fp8 products with scales of blocks, 1 x 128 by 128 x 128, on one GPU.

    python -m benchmarks.block_scaled_gemm                          one matrix, and groups in both layouts
    python -m benchmarks.block_scaled_gemm 4096x7168x16384 --ms 50  one of them
    python -m benchmarks.block_scaled_gemm --tune                   every candidate configuration

Baselines in the same run: `fp8` is our GEMM with one scale for all and sums in the tensor cores, where there is one matrix; `torch`
is `torch._scaled_mm` with the same scales of blocks, where torch has it. Beside them stands what DeepGEMM publishes of an H800.
Inputs are standard normal, divided by their scales; results are checked against fp64 on some rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mimw.kernels import block_scaled_gemm, gemm
from mimw.kernels.block_scaled_gemm import TALL, WIDE, Configuration
from mimw.testing.benchmark import Row, alternate

from .driver import command, some_of
from .gemm_error import allowed
from .gpu import compiled_before, keep, multiprocessors, parsed, row_of, summary, torch, tried
from .progress import each


@dataclass(frozen=True)
class Case:
    """`groups` of `m` rows each, `layout` as the kernel has it, and the published TFLOP/s, if any."""

    m: int
    n: int
    k: int
    groups: int = 1
    layout: str = "plain"
    published: int | None = None


CASES = {"4096x7168x16384": Case(4096, 7168, 16384, published=1484), "4096x4096x7168": Case(4096, 4096, 7168, published=1424),
         "4096x2112x7168": Case(4096, 2112, 7168, published=1296),
         "4x8192x4096x7168": Case(8192, 4096, 7168, 4, "contiguous", 1381), "32x256x4096x7168": Case(256, 4096, 7168, 32, "masked")}
CANDIDATES = [Configuration(), *(replace(chosen, group_m=group) for chosen in (TALL, WIDE) for group in (4, 8))]


def published(name: str) -> dict[str, float]:
    """Microseconds that DeepGEMM publishes for the case of that name, on an H800, whose tensor cores are an H200's."""
    case = CASES[name]
    return {} if case.published is None else {"DeepGEMM, H800": 2e-6 * case.groups * case.m * case.n * case.k / case.published}


def problem(case: Case):
    """(a, b, c, scale_a, scale_b, ends or None), the scales of a contiguous along its rows."""
    torch.manual_seed(0)
    masked, cuda = case.layout == "masked", dict(device="cuda")
    rows = (case.groups, case.m) if masked else (case.groups * case.m, )
    front = () if case.layout == "plain" else (case.groups, )
    blocks = -(-case.k // 128)
    a, b = torch.randn(*rows, case.k, **cuda), torch.randn(*front, case.n, case.k, **cuda)
    scale_a = (torch.rand(*rows[:-1], blocks, rows[-1], **cuda) + 0.5).mT
    scale_b = torch.rand(*front, -(-case.n // 128), blocks, **cuda) + 0.5
    sizes = torch.full((case.groups, ), case.m, **cuda, dtype=torch.int32)
    ends = {"plain": None, "contiguous": sizes.cumsum(0).int(), "masked": sizes}[case.layout]
    return (a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn), torch.empty(*rows, case.n, dtype=torch.bfloat16, **cuda), scale_a,
            scale_b, ends)


def check(case: Case, a, b, c, scale_a, scale_b) -> float:
    """The error of c on 32 rows of the last group against fp64."""
    some = torch.randperm(case.m, device="cuda")[:32] - case.m
    if case.layout == "masked":
        a, c, scale_a = a[-1], c[-1], scale_a[-1]
    if case.layout != "plain":
        b, scale_b = b[-1], scale_b[-1]
    spread = scale_b.repeat_interleave(128, 0)[:case.n].repeat_interleave(128, 1)[:, :case.k]
    exact = (a[some].double() * scale_a[some].repeat_interleave(128, 1)[:, :case.k]) @ (b.double() * spread).T
    error = ((c[some].double() - exact).norm() / exact.norm()).item()
    if not error < 1.5 * allowed(1, 2, 128):
        raise AssertionError(f"wrong: error {error:.2e} against fp64 on rows, allowed {1.5 * allowed(1, 2, 128):.2e}")
    return error


def baselines(case: Case, a, b, c, scale_a, scale_b) -> dict:
    """Those that there are."""
    if case.layout != "plain":
        return {}
    grid, args, meta = gemm.arguments(a, b.T, torch.empty_like(c), multiprocessors())       # whole tiles, as ours
    found = {"fp8": gemm.kernel.freeze(grid, *args, **meta)}
    lying = scale_b.T.contiguous().T if scale_b.shape[1] == 1 else scale_b
    def by_torch():
        return torch._scaled_mm(a, b.T, scale_a, lying.T, out_dtype=torch.bfloat16)
    try:
        by_torch()
        found["torch"] = by_torch
    except (RuntimeError, ValueError) as error:
        print(f"torch has no block scales here: {str(error).splitlines()[0][:120]}", flush=True)
    return found


def measure(name: str, chosen: Configuration | None = None, at_least_ms: float = 200.0) -> Row:
    """One row, checked."""
    case = CASES[name]
    a, b, c, scale_a, scale_b, ends = problem(case)
    grid, args, meta = block_scaled_gemm.arguments(a, b, c, scale_a, scale_b, multiprocessors(), ends, chosen)
    launch = block_scaled_gemm.kernel.freeze(grid, *args, **meta)
    launch()
    error = check(case, a, b, c, scale_a, scale_b)
    times = alternate({"mimw": launch, **baselines(case, a, b, c, scale_a, scale_b)}, at_least_ms)
    shape = dict(G=case.groups, M=case.m, N=case.n, K=case.k)
    used = chosen or block_scaled_gemm.configuration(case.m, case.n, case.layout, multiprocessors())
    return row_of(f"block_scaled_gemm-{name}", shape, vars(used), times, error, "standard normal")


def rate(row: Row, time: float) -> float:
    """TFLOP/s."""
    shape = row.shape
    return 2 * shape["G"] * shape["M"] * shape["N"] * shape["K"] / time / 1e6


def line(row: Row) -> str:
    """A row for people."""
    used, published = row.configuration, CASES[row.name.removeprefix("block_scaled_gemm-")].published
    others = "  ".join(f"{name} {rate(row, time):.0f}" for name, time in row.baselines.items())
    return (f"{row.name:<34} {row.microseconds:8.1f} us {rate(row, row.microseconds):5.0f} TFLOP/s  {others}  "
            f"H800, published: {published or '-'}  error {row.error:.1e}  {used['bm']}x{used['bn']}, {used['stages']} stages, "
            f"band {used['group_m']}, {used['together']} together")


def main() -> None:
    parser = command(__doc__, tune=True, ms=200.0, jobs=True)
    some_of(parser, "cases", CASES)
    options = parsed(parser)
    names, choices = options.cases or CASES, CANDIDATES if options.tune else [None]
    compiled_before(options.jobs, measure, [(name, chosen, options.ms) for name in names for chosen in choices])
    ratios = []
    for name in each(names):
        rows = []
        for row in tried(name, choices, lambda chosen: measure(name, chosen, options.ms), options.tune):
            rows.append(row)
            keep(row, options.results / "block_scaled_gemm.jsonl")
            print(line(row), flush=True)
        if CASES[name].published:
            ratios.append(max(rate(row, row.microseconds) for row in rows) / CASES[name].published)
    if ratios:
        print(summary(ratios, "what is published of an H800"))


if __name__ == "__main__":
    main()
