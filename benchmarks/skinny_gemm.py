"""Products of few rows against cuBLAS, on one GPU: K = 8192, weights as a linear layer has them, (N, K).

    python -m benchmarks.skinny_gemm                        M from 1 to 256, N of 8192 and 28672, in bf16
    python -m benchmarks.skinny_gemm 16x8192 --ms 50        one of them
    python -m benchmarks.skinny_gemm --tune                 every candidate configuration

Inputs are standard normal. Each call has the next one of three weights, and a cold L2 (`mimw.testing.benchmark.alternate`). The
result is checked against fp64, and against itself: two launches give the same bits.
"""

from __future__ import annotations

from itertools import cycle

from mimw.kernels import skinny_gemm
from mimw.kernels.skinny_gemm import Configuration
from mimw.testing.benchmark import Row, alternate

from .driver import command, some_of
from .gemm_error import allowed
from .gpu import compiled_before, keep, multiprocessors, parsed, row_of, summary, torch, tried
from .progress import each

K = 8192
CASES = {f"{m}x{n}": (m, n) for n in (8192, 28672) for m in (1, 16, 32, 64, 128, 256)}


def candidates(m: int, n: int, programs: int) -> list[Configuration]:
    """The library's, tiles of 64 and of 128 weights, and of half the rows."""
    tm = min(256, max(16, 1 << (m - 1).bit_length()))
    sizes = [(tm, 1), (tm, 2), (max(16, tm // 2), 2)]
    return [skinny_gemm.configuration(m, n, programs),
            *(Configuration(rows, min(20, 208 * 1024 // (128 * (64 * many + rows))), many) for rows, many in sizes)]


def measure(name: str, chosen: Configuration | None = None, at_least_ms: float = 200.0) -> Row:
    """One row, checked."""
    (m, n), cuda = CASES[name], dict(device="cuda", dtype=torch.bfloat16)
    torch.manual_seed(0)
    x, weights, c = torch.randn(m, K, **cuda), [torch.randn(n, K, **cuda).T for _ in range(3)], torch.empty(m, n, **cuda)
    sizes = skinny_gemm.room_for(m, n, multiprocessors(), chosen)
    room, flags = torch.empty(sizes[0], device="cuda"), torch.zeros(sizes[1], device="cuda", dtype=torch.int32)
    launches = [skinny_gemm.arguments(x, w, c, room, flags, multiprocessors(), chosen) for w in weights]
    turns = cycle([skinny_gemm.kernel.freeze(grid, *args, **meta) for grid, args, meta in launches])
    others = cycle(weights)

    def run():
        next(turns)()

    results = []
    for _ in range(4):
        run()
        results.append(c.clone())
    exact = x.double() @ weights[0].double()
    error = ((results[0].double() - exact).norm() / exact.norm()).item()
    if not (error < allowed(2, 2, K) and torch.equal(results[0], results[3]) and not flags.any()):
        raise AssertionError(f"wrong: error {error:.2e} against fp64 (allowed {allowed(2, 2, K):.2e}), or not the same twice")
    times = alternate({"mimw": run, "cuBLAS": lambda: x @ next(others)}, at_least_ms)
    used = chosen or skinny_gemm.configuration(m, n, multiprocessors())
    return row_of(f"skinny_gemm-{name}", dict(M=m, N=n, K=K), vars(used), times, error, "standard normal")


def line(row: Row) -> str:
    """A row for people: the bytes are those of the weights."""
    rate, used = 2 * row.shape["N"] * row.shape["K"] / row.microseconds / 1e3, row.configuration
    return (f"{row.name:<24} {row.microseconds:8.1f} us {rate:5.0f} GB/s  ratio {row.ratios()['cuBLAS']:.3f}  "
            f"error {row.error:.1e}  {64 * used['consumers']} weights x {used['tm']}, {used['stages']} stages")


def main() -> None:
    parser = command(__doc__, tune=True, ms=200.0, jobs=True)
    some_of(parser, "cases", CASES)
    options = parsed(parser)
    choices = {name: candidates(*CASES[name], multiprocessors()) if options.tune else [None] for name in options.cases or CASES}
    compiled_before(options.jobs, measure, [(name, chosen, options.ms) for name in choices for chosen in choices[name]])
    ratios = []
    for name in each(choices):
        rows = []
        for row in tried(name, choices[name], lambda chosen: measure(name, chosen, options.ms), options.tune):
            rows.append(row)
            keep(row, options.results / "skinny_gemm.jsonl")
            print(line(row), flush=True)
        ratios.append(max(row.ratios()["cuBLAS"] for row in rows))
    print(summary(ratios, "cuBLAS"))


if __name__ == "__main__":
    main()
