"""GEMM against cuBLAS on one GPU.

    python -m benchmarks.gemm                        the table GH1-GH7 in bf16
    python -m benchmarks.gemm --dtype fp16 GH1 GH4   some shapes, another type
    python -m benchmarks.gemm --tune GH1             search configurations of 8192x8192x1024 by `mimw tune`

Inputs are standard normal. Ours and cuBLAS alternate with a cold L2 (`mimw.testing.benchmark.alternate`); every timed result is
checked against cuBLAS's, and on some rows against fp64, by what the types and K allow (`mimw.testing.gemm_error`). fp8 is measured
against `torch._scaled_mm` with scales of 1.
"""

from __future__ import annotations

from math import prod

from mimw.kernels.gemm.configs import Configuration
from mimw.testing.benchmark import Row, alternate
from mimw.tuning.arrays import TORCH
from mimw.tuning.operators.gemm import Gemm, check, launcher, tensors

from .driver import command, search, some_of
from .gpu import compiled_before, multiprocessors, parsed, row_of, table, torch
from .progress import each

SHAPES = {"GH1": (8192, 8192, 1024), "GH2": (8192, 8192, 2048), "GH3": (8192, 8192, 4096), "GH4": (8192, 8192, 8192),
          "GH5": (8192, 8192, 16384), "GH6": (2304, 12800, 32768), "GH7": (2285568, 256, 256)}
DTYPES = {dtype: TORCH[dtype] for dtype in Gemm.dtypes}     # -> their names in torch


def measure(name: str, shape, dtype_name: str, chosen: Configuration | None = None, at_least_ms: float = 200.0) -> Row:
    """One row, checked."""
    a, b, c, baseline = tensors(shape, dtype_name)
    run = launcher(a, b, c, chosen)
    c.fill_(float("nan"))
    run()
    torch.cuda.synchronize()
    error = check(a, b, c, baseline())
    times = alternate({"mimw": run, "cuBLAS": baseline}, at_least_ms)
    used = chosen or Gemm().used(Gemm().problem("x".join(map(str, shape)), dtype_name), multiprocessors())
    return row_of(f"gemm-{dtype_name}-{name}", dict(zip("MNK", shape)), vars(used), times, error, "standard normal")


def line(row: Row) -> str:
    """A row for people."""
    flops = 2 * prod(row.shape.values())
    ours, theirs = (flops / time / 1e6 for time in (row.microseconds, row.baselines["cuBLAS"]))
    schedule = "ping-pong" if row.configuration["ping_pong"] else "cooperative"
    used = row.configuration
    tile = f"{used['bm']}x{used['bn']}, {used['stages']} stages, band {used['group_m']}"
    shape = "x".join(map(str, row.shape.values()))
    return (f"{row.name:<14} {shape:<18} {row.microseconds:9.1f} us {ours:6.0f} TFLOP/s  cuBLAS {theirs:6.0f}  "
            f"ratio {row.ratios()['cuBLAS']:.3f}  error {row.error:.1e}  {schedule} {tile}")


def main() -> None:
    parser = command(__doc__, tune=True, jobs=True)
    some_of(parser, "shapes", SHAPES)
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    if parser.parse_known_args()[0].tune:       # before anything asks for the GPU: the search forks
        options = parser.parse_args()
        shapes = ["x".join(map(str, SHAPES[name])) for name in options.shapes or SHAPES]
        raise SystemExit(search("gemm", shapes, options.dtype, options.results))
    options = parsed(parser)
    cases = [(name, SHAPES[name], options.dtype) for name in options.shapes or SHAPES]
    compiled_before(options.jobs, measure, cases)
    rows = (measure(*case) for case in each(cases, lambda case: case[0]))
    table(rows, options.results / f"gemm-{options.dtype}.jsonl", line, lambda row: "cuBLAS", "cuBLAS")


if __name__ == "__main__":
    main()
