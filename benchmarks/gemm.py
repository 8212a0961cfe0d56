"""GEMM against cuBLAS on one GPU.

    python -m benchmarks.gemm                        the table GH1-GH7 in bf16
    python -m benchmarks.gemm --dtype fp16 GH1 GH4   some shapes, another type
    python -m benchmarks.gemm --tune                 try every candidate configuration and write configs.json

Inputs are standard normal. Ours and cuBLAS alternate with a cold L2 (`mimw.testing.benchmark.alternate`); every timed result is
checked against cuBLAS's, and on some rows against fp64, by what the types and K allow (gemm_error.py). fp8 is measured against
`torch._scaled_mm` with scales of 1.
"""

from __future__ import annotations

from math import prod

from mimw.kernels import gemm
from mimw.kernels.gemm.configs import Configuration, as_row
from mimw.testing.benchmark import Row, alternate

from .driver import RESULTS, command, some_of
from .gemm_error import allowed
from .gpu import keep, multiprocessors, parsed, row_of, summary, torch, tried, write_configurations

SHAPES = {"GH1": (8192, 8192, 1024), "GH2": (8192, 8192, 2048), "GH3": (8192, 8192, 4096), "GH4": (8192, 8192, 8192),
          "GH5": (8192, 8192, 16384), "GH6": (2304, 12800, 32768), "GH7": (2285568, 256, 256)}
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "tf32": "float32", "fp8": "float8_e4m3fn"}  # -> their names in torch
CANDIDATES = [Configuration(group_m=group) for group in (4, 8, 16)] + [
    Configuration(bm=256, bn=128, staging=1, group_m=8),
    Configuration(bm=256, bn=128, staging=1, group_m=4),
    Configuration(bm=128, bn=128, stages=5, ping_pong=True, group_m=8),
    Configuration(bm=128, bn=128, stages=6, staging=1, ping_pong=True, group_m=16),
    Configuration(bm=64, bn=256, stages=4, ping_pong=True, group_m=16),
]


def problem(shape: tuple[int, int, int], dtype_name: str):
    """(a, b, c, baseline) of standard normal inputs; 8-bit and 32-bit b's are contiguous along K."""
    (m, n, k), dtype = shape, getattr(torch, DTYPES[dtype_name])
    torch.manual_seed(0)
    if dtype.itemsize == 2:
        a, b = torch.randn(m, k, device="cuda", dtype=dtype), torch.randn(k, n, device="cuda", dtype=dtype)
        return a, b, torch.empty(m, n, device="cuda", dtype=dtype), lambda: torch.matmul(a, b)
    a, b = torch.randn(m, k, device="cuda").to(dtype), torch.randn(n, k, device="cuda").to(dtype).T
    if dtype.itemsize == 4:
        torch.backends.cuda.matmul.allow_tf32 = True
        return a, b, torch.empty(m, n, device="cuda"), lambda: torch.matmul(a, b)
    one = torch.ones((), device="cuda")
    return (a, b, torch.empty(m, n, device="cuda", dtype=torch.bfloat16),
            lambda: torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16, use_fast_accum=True))


def launcher(a, b, c, chosen: Configuration | None):
    """A call without arguments that computes c, its descriptors made beforehand."""
    grid, args, meta = gemm.arguments(a, b, c, multiprocessors(), chosen)
    launch = gemm.kernel[grid]
    return lambda: launch(*args, **meta)


def relative_error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """||actual - expected|| / ||expected||."""
    return ((actual.double() - expected.double()).norm() / expected.double().norm()).item()


def check(a, b, c, reference) -> float:
    """The error of c on 64 of its rows against fp64; an error if it is larger than the types allow."""
    rows = torch.randperm(a.shape[0], device="cuda")[:64]
    error = relative_error(c[rows], a[rows].double() @ b.double())
    most = allowed(a.dtype.itemsize, c.dtype.itemsize, a.shape[1])
    whole = relative_error(c[:65536], reference[:65536])
    if not (error < most and whole < 2 * most):
        raise AssertionError(f"wrong: error {error:.2e} against fp64 on rows, {whole:.2e} against the baseline (allowed {most:.2e} "
                             f"and twice that, for K = {a.shape[1]})")
    return error


def measure(name: str, shape, dtype_name: str, chosen: Configuration | None = None, at_least_ms: float = 200.0) -> Row:
    """One row, checked."""
    a, b, c, baseline = problem(shape, dtype_name)
    run = launcher(a, b, c, chosen)
    c.fill_(float("nan"))
    run()
    torch.cuda.synchronize()
    error = check(a, b, c, baseline())
    times = alternate({"mimw": run, "cuBLAS": baseline}, at_least_ms)
    used = chosen or gemm.configuration(*shape, a.dtype.itemsize)
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
    parser = command(__doc__, results=RESULTS, tune=True)
    some_of(parser, "shapes", SHAPES)
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    options = parsed(parser)
    best, ratios = [], []
    for name, shape in {name: SHAPES[name] for name in options.shapes or SHAPES}.items():
        rows = []
        for row in tried(name, CANDIDATES if options.tune else [None],
                         lambda chosen: measure(name, shape, options.dtype, chosen, 60.0 if options.tune else 200.0), options.tune):
            rows.append(row)
            keep(row, options.results / f"gemm-{options.dtype}.jsonl")
            print(line(row), flush=True)
        fastest = max(rows, key=lambda row: row.ratios()["cuBLAS"])
        ratios.append(fastest.ratios()["cuBLAS"])
        best.append(as_row(shape, getattr(torch, DTYPES[options.dtype]).itemsize, Configuration(**fastest.configuration)))
    print(summary(ratios, "cuBLAS"))
    if options.tune:
        write_configurations(options.results / f"configs-{options.dtype}.json", "python -m benchmarks.gemm --tune", best)


if __name__ == "__main__":
    main()
