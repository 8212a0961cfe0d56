"""Products of batches of matrices against torch.bmm (cuBLAS), on one GPU.

    python -m benchmarks.batched_gemm                       five batches in bf16
    python -m benchmarks.batched_gemm 64x1024 --ms 50       one of them

Inputs are standard normal; `one` has one b for the whole batch. Ours and torch's alternate with a cold L2
(`mimw.testing.benchmark.alternate`); the result is checked against fp64 on some rows of a matrix.
"""

from __future__ import annotations

from math import prod

from mimw.kernels import batched_gemm
from mimw.testing.benchmark import Row, alternate

from .driver import command, some_of
from .gemm_error import allowed
from .gpu import compiled_before, multiprocessors, parsed, row_of, table, torch
from .progress import each

CASES = {"16x2048": (16, 2048, 2048, 2048), "64x1024": (64, 1024, 1024, 1024), "256x512": (256, 512, 512, 512),
         "192x4096x128": (192, 4096, 4096, 128), "one": (16, 1024, 4096, 4096)}     # matrices, M, N, K


def measure(name: str, at_least_ms: float = 200.0) -> Row:
    """One row, checked."""
    batch, m, n, k = CASES[name]
    torch.manual_seed(0)
    cuda = dict(device="cuda", dtype=torch.bfloat16)
    a, b = torch.randn(batch, m, k, **cuda), torch.randn(1 if name == "one" else batch, k, n, **cuda)
    c, spread = torch.empty(batch, m, n, **cuda), b.expand(batch, k, n)
    counter = torch.zeros(1, dtype=torch.int32, device="cuda") if batched_gemm.steals(k, a.itemsize) else None
    grid, args, meta = batched_gemm.arguments(a, b, c, multiprocessors(), counter=counter)
    launch = batched_gemm.kernel.freeze(grid, *args, **meta)
    launch()
    some, last = torch.randperm(m, device="cuda")[:64], batch - 1
    exact = a[last, some].double() @ spread[last].double()
    error = ((c[last, some].double() - exact).norm() / exact.norm()).item()
    if not error < allowed(2, 2, k):
        raise AssertionError(f"wrong: error {error:.2e} against fp64 on rows, allowed {allowed(2, 2, k):.2e}")
    times = alternate({"mimw": launch, "torch": lambda: torch.bmm(a, spread)}, at_least_ms)
    used = batched_gemm.chosen_for(m, n, k, 2)
    return row_of(f"batched_gemm-{name}", dict(B=batch, M=m, N=n, K=k), vars(used), times, error, "standard normal")


def line(row: Row) -> str:
    """A row for people."""
    rate = 2 * prod(row.shape.values()) / row.microseconds / 1e6
    return (f"{row.name:<26} {row.microseconds:8.1f} us {rate:5.0f} TFLOP/s  ratio {row.ratios()['torch']:.3f}  "
            f"error {row.error:.1e}")


def main() -> None:
    parser = command(__doc__, ms=200.0, jobs=True)
    some_of(parser, "cases", CASES)
    options = parsed(parser)
    compiled_before(options.jobs, measure, [(name, options.ms) for name in options.cases or CASES])
    rows = (measure(name, options.ms) for name in each(options.cases or CASES))
    table(rows, options.results / "batched_gemm.jsonl", line, lambda row: "torch", "torch.bmm")


if __name__ == "__main__":
    main()
