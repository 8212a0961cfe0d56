"""The library's GEMM beside the same product in stock Triton, in Gluon, and cuBLAS, on one GPU.

    python -m benchmarks.gemm_peers                  the table GH1-GH6 in bf16
    python -m benchmarks.gemm_peers --dtype fp16 GH1 GH4

Stock Triton is plain_gemm.py, with the fastest of its configurations for each shape, found first; Gluon is gluon_gemm.py, the
cooperative schedule of the library's kernel in Gluon's words, with the library's sizes, one configuration. Each candidate is a
CUDA graph of one call, since a launch of Triton's takes its host longer than L2 is flushed. Every result is checked.
"""

from __future__ import annotations

from math import prod

from mimw.testing.benchmark import Row, alternate
from mimw.tuning.graphs import graphed
from mimw.tuning.operators.gemm import check, launcher, tensors

from .driver import command, some_of
from .gemm import SHAPES
from .gpu import multiprocessors, parsed, row_of, table, torch
from .progress import each

SIXTEEN = {name: shape for name, shape in SHAPES.items() if name != "GH7"}      # 2285568 rows of 256: no shape for these tiles
GLUON = dict(BM=128, BN=256, BK=64, GROUP_M=8, STAGES=4, CONSUMERS=2, PIECES=4)
TRIED_MS = 20.0


def stock(a, b, c, configuration: tuple):
    """A launch of stock Triton's kernel."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    from .plain_gemm import gemm
    bm, bn, bk, stages, warps, each = configuration
    (m, n), k = c.shape, a.shape[1]
    tiles = -(-m // bm) * -(-n // bn)
    args = [TensorDescriptor.from_tensor(x, block) for x, block in ((a, [bm, bk]), (b, [bk, bn]), (c, [bm, bn]))]
    grid = (min(tiles, each * multiprocessors()) if each else tiles, )
    return lambda: gemm[grid](*args, m, n, k, BM=bm, BN=bn, BK=bk, GROUP_M=8, PERSISTENT=each > 0, num_warps=warps,
                              num_stages=stages)


def in_gluon(a, b, c):
    """A launch of Gluon's kernel."""
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    from .gluon_gemm import gemm
    dtype, sizes = getattr(gl, str(a.dtype).removeprefix("torch.")), GLUON
    blocks = ((a, [sizes["BM"], sizes["BK"]]), (b, [sizes["BK"], sizes["BN"]]),
              (c, [sizes["BM"] // sizes["CONSUMERS"], sizes["BN"] // sizes["PIECES"]]))
    args = [TensorDescriptor.from_tensor(x, block, gl.NVMMASharedLayout.get_default_for(block, dtype)) for x, block in blocks]
    return lambda: gemm[(multiprocessors(), )](*args, *c.shape, a.shape[1], **sizes, num_warps=4)


def fastest(a, b, c) -> tuple[tuple, dict]:
    """Stock Triton's configuration for these matrices, and the microseconds of all."""
    from .plain_gemm import CONFIGURATIONS
    calls = {configuration: graphed(stock(a, b, c, configuration), 1) for configuration in CONFIGURATIONS}
    times = alternate(calls, TRIED_MS)
    return min(times, key=times.get), times


def measure(name: str, shape, dtype_name: str, at_least_ms: float = 200.0) -> Row:
    """One row; each candidate's result is checked."""
    a, b, c, baseline = tensors(shape, dtype_name)
    chosen, _ = fastest(a, b, c)
    runs = {"mimw": launcher(a, b, c, None), "Triton": stock(a, b, c, chosen), "Gluon": in_gluon(a, b, c)}
    errors = {}
    for candidate, run in runs.items():
        c.fill_(float("nan"))
        run()
        torch.cuda.synchronize()
        errors[candidate] = check(a, b, c, baseline())
    times = alternate({candidate: graphed(run, 1) for candidate, run in (runs | {"cuBLAS": baseline}).items()}, at_least_ms)
    used = dict(zip(("BM", "BN", "BK", "stages", "warps", "programs an SM"), chosen))
    return row_of(f"gemm_peers-{dtype_name}-{name}", dict(zip("MNK", shape)), {"Triton": used, "Gluon": GLUON}, times,
                  errors["mimw"], "standard normal")


def line(row: Row) -> str:
    """A row for people."""
    flops = 2 * prod(row.shape.values())
    others = ", ".join(f"{name} {flops / time / 1e6:.0f} (ratio {row.ratios()[name]:.3f})" for name, time in row.baselines.items())
    shape = "x".join(map(str, row.shape.values()))
    return f"{row.name:<20} {shape:<18} {row.microseconds:9.1f} us {flops / row.microseconds / 1e6:6.0f} TFLOP/s  {others}"


def main() -> None:
    parser = command(__doc__, )
    some_of(parser, "shapes", SIXTEEN)
    parser.add_argument("--dtype", choices=("bf16", "fp16"), default="bf16")
    options = parsed(parser)
    rows = (measure(name, SHAPES[name], options.dtype) for name in each(options.shapes or SIXTEEN))
    table(rows, options.results / "gemm_peers.jsonl", line, lambda row: "Gluon", "Gluon")


if __name__ == "__main__":
    main()
