"""GEMM against cuBLAS on one GPU.

    python -m benchmarks.gemm                        the table GH1-GH7 in bf16
    python -m benchmarks.gemm --dtype fp16 GH1 GH4   some shapes, another type
    python -m benchmarks.gemm --tune                 try every candidate configuration and write configs.json

Inputs are standard normal. Ours and cuBLAS alternate with a cold L2 (`mimw.testing.benchmark.alternate`); every timed result is
checked against cuBLAS's, and on some rows against fp64, by what the types and K allow (gemm_error.py). fp8 is measured against
`torch._scaled_mm` with scales of 1.
"""

from __future__ import annotations

import argparse
import json
from math import prod
from pathlib import Path

import torch

from mimw.kernels import gemm
from mimw.kernels.gemm.configs import Configuration, as_row
from mimw.testing.benchmark import Row, alternate, versions

from .gemm_error import allowed

SHAPES = {"GH1": (8192, 8192, 1024), "GH2": (8192, 8192, 2048), "GH3": (8192, 8192, 4096), "GH4": (8192, 8192, 8192),
          "GH5": (8192, 8192, 16384), "GH6": (2304, 12800, 32768), "GH7": (2285568, 256, 256)}
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "tf32": torch.float32, "fp8": torch.float8_e4m3fn}
CANDIDATES = [Configuration(group_m=group) for group in (4, 8, 16)] + [
    Configuration(bm=256, bn=128, staging=1, group_m=8),
    Configuration(bm=256, bn=128, staging=1, group_m=4),
    Configuration(bm=128, bn=128, stages=5, ping_pong=True, group_m=8),
    Configuration(bm=128, bn=128, stages=6, staging=1, ping_pong=True, group_m=16),
    Configuration(bm=64, bn=256, stages=4, ping_pong=True, group_m=16),
]
_RESULTS = Path(__file__).parent / "results"


def problem(shape: tuple[int, int, int], dtype: torch.dtype):
    """(a, b, c, baseline) of standard normal inputs; 8-bit and 32-bit b's are contiguous along K."""
    m, n, k = shape
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
    programs = torch.cuda.get_device_properties(a.device).multi_processor_count
    grid, args, meta = gemm.arguments(a, b, c, programs, chosen)
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
    a, b, c, baseline = problem(shape, DTYPES[dtype_name])
    run = launcher(a, b, c, chosen)
    c.fill_(float("nan"))
    run()
    torch.cuda.synchronize()
    error = check(a, b, c, baseline())
    times = alternate({"mimw": run, "cuBLAS": baseline}, at_least_ms)
    used = chosen or gemm.configuration(*shape, a.dtype.itemsize)
    return Row(f"gemm-{dtype_name}-{name}", dict(zip("MNK", shape)), vars(used), times.pop("mimw"), times, error,
               "standard normal", torch.cuda.get_device_name(), versions())


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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", choices=[*SHAPES, []], default=[])
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--results", type=Path, default=_RESULTS, help="folder for the raw rows")
    options = parser.parse_args()
    shapes = {name: SHAPES[name] for name in options.shapes or SHAPES}
    options.results.mkdir(parents=True, exist_ok=True)
    best, ratios = [], []
    for name, shape in shapes.items():
        rows = []
        for chosen in CANDIDATES if options.tune else [None]:
            try:
                rows.append(measure(name, shape, options.dtype, chosen, 60.0 if options.tune else 200.0))
            except Exception as error:  # one bad candidate must not end the search
                if not options.tune:
                    raise
                print(f"{name} {chosen}: {type(error).__name__}: {str(error)[:200]}", flush=True)
                continue
            rows[-1].write(options.results / f"gemm-{options.dtype}.jsonl")
            print(line(rows[-1]), flush=True)
        fastest = max(rows, key=lambda row: row.ratios()["cuBLAS"])
        ratios.append(fastest.ratios()["cuBLAS"])
        best.append(as_row(shape, DTYPES[options.dtype].itemsize, Configuration(**fastest.configuration)))
    print(f"geometric mean of {len(ratios)} ratios to cuBLAS: {prod(ratios) ** (1 / len(ratios)):.3f}, lowest {min(ratios):.3f}")
    if options.tune:
        data = {"chip": torch.cuda.get_device_name(), "command": "python -m benchmarks.gemm --tune", "rows": best}
        (options.results / f"configs-{options.dtype}.json").write_text(json.dumps(data, indent=1))


if __name__ == "__main__":
    main()
