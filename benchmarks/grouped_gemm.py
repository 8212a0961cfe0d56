"""Products of groups of rows against torch._grouped_mm, on one GPU.

    python -m benchmarks.grouped_gemm                       equal groups in bf16: 8 x 1024 rows and so on
    python -m benchmarks.grouped_gemm 64x256 --ms 50        one of them
    python -m benchmarks.grouped_gemm --tune                search configurations, by `mimw tune`

Inputs are standard normal; b is (G, N, K), as weights of linear layers are. Ours and torch's alternate with a cold L2
(`mimw.testing.benchmark.alternate`); the result is checked against torch's, and on some rows against fp64. `ragged` has groups of
the same sum with random sizes, some of them 0.
"""

from __future__ import annotations

from math import prod

from mimw.kernels import grouped_gemm
from mimw.kernels.grouped_gemm import Configuration
from mimw.testing.benchmark import Row, alternate

from .driver import command, search, some_of
from .gemm_error import allowed
from .gpu import compiled_before, multiprocessors, parsed, row_of, table, torch
from .progress import each

CASES = {"8x1024": (8, 1024, 4096, 4096), "64x256": (64, 256, 2048, 7168), "128x128": (128, 128, 2048, 7168),
         "256x64": (256, 64, 4096, 7168), "ragged": (64, 256, 2048, 7168)}     # groups, rows of a group, N, K


def problem(name: str):
    """(a, b, c, ends)."""
    groups, rows, n, k = CASES[name]
    torch.manual_seed(0)
    total, cuda = groups * rows, dict(device="cuda", dtype=torch.bfloat16)
    ends = torch.arange(1, groups + 1, device="cuda", dtype=torch.int32) * rows
    if name == "ragged":
        ends = torch.randint(0, total + 1, (groups, ), device="cuda").sort().values.int()
        ends[1::8], ends[-1] = ends[0::8], total
    return torch.randn(total, k, **cuda), torch.randn(groups, n, k, **cuda).mT, torch.empty(total, n, **cuda), ends


def check(a, b, c, ends, expected) -> float:
    """The error of c on 64 of its rows against fp64; an error if it is larger than the types allow."""
    some = torch.randperm(a.shape[0], device="cuda")[:64]
    groups = torch.searchsorted(ends.long(), some, right=True)
    exact = torch.stack([a[row].double() @ b[group].double() for row, group in zip(some.tolist(), groups.tolist())])
    error = ((c[some].double() - exact).norm() / exact.norm()).item()
    whole = ((c - expected).float().norm() / expected.float().norm()).item()
    most = allowed(2, 2, a.shape[1])
    if not (error < most and whole < 2 * most):
        raise AssertionError(f"wrong: error {error:.2e} against fp64 on rows, {whole:.2e} against torch ({most:.2e}, twice)")
    return error


def measure(name: str, chosen: Configuration | None = None, at_least_ms: float = 200.0) -> Row:
    """One row, checked."""
    a, b, c, ends = problem(name)
    groups, rows, n, k = CASES[name]
    grid, args, meta = grouped_gemm.arguments(a, b, c, ends, multiprocessors(), chosen)
    launch = grouped_gemm.kernel.freeze(grid, *args, **meta)
    launch()
    error = check(a, b, c, ends, torch._grouped_mm(a, b, offs=ends))
    times = alternate({"mimw": launch, "torch": lambda: torch._grouped_mm(a, b, offs=ends)}, at_least_ms)
    used = chosen or grouped_gemm.configuration(a.shape[0], groups)
    return row_of(f"grouped_gemm-{name}", dict(G=groups, M=rows, N=n, K=k), vars(used), times, error, "standard normal")


def line(row: Row) -> str:
    """A row for people."""
    shape, used = row.shape, row.configuration
    rate = 2 * prod(shape.values()) / row.microseconds / 1e6
    moved = 2 * shape["G"] * (shape["M"] * (shape["K"] + shape["N"]) + shape["K"] * shape["N"]) / row.microseconds / 1e3
    schedule = "ping-pong" if used["ping_pong"] else "cooperative"
    return (f"{row.name:<22} {row.microseconds:8.1f} us {rate:5.0f} TFLOP/s {moved:5.0f} GB/s  ratio {row.ratios()['torch']:.3f}  "
            f"error {row.error:.1e}  {schedule} {used['bm']}x{used['bn']}, {used['stages']} stages, band {used['group_m']}")


def shape_of(name: str) -> str:
    """A case as `mimw tune` takes it."""
    return "x".join(map(str, CASES[name])) + (":ragged" if name == "ragged" else "")


def main() -> None:
    parser = command(__doc__, tune=True, ms=200.0, jobs=True)
    some_of(parser, "cases", CASES)
    if parser.parse_known_args()[0].tune:       # before anything asks for the GPU: the search forks
        options = parser.parse_args()
        shapes = [shape_of(name) for name in options.cases or CASES]
        raise SystemExit(search("grouped_gemm", shapes, "bf16", options.results, "--ms", str(options.ms)))
    options = parsed(parser)
    compiled_before(options.jobs, measure, [(name, None, options.ms) for name in options.cases or CASES])
    rows = (measure(name, None, options.ms) for name in each(options.cases or CASES))
    table(rows, options.results / "grouped_gemm.jsonl", line, lambda row: "torch", "torch._grouped_mm")


if __name__ == "__main__":
    main()
