"""Tutorial 23's product in words of `tle.dsa` against the same loop of `tl.dot` by stock Triton, and cuBLAS, on one GPU.

    python -m benchmarks.local_memories                     8192 x 8192 x 8192, fp16, four configurations
    python -m benchmarks.local_memories 128x256x64:4        one of them: tile, stages

Inputs are standard normal. All three take turns with a cold L2 (`mimw.testing.benchmark.alternate`); the result is compared with
cuBLAS's. The goal is 0.9 of the loop of `tl.dot`: the words of another chip's memories are to cost nothing here.
"""

from __future__ import annotations

import triton
import triton.language as tl

from mimw.testing.benchmark import Row, alternate

from .driver import command, some_of
from .gpu import parsed, row_of, table, torch
from .mutation_kernels import tutorial
from .progress import each

SIZE = 8192
CASES = {f"{bm}x{bn}x64:{stages}": dict(BM=bm, BN=bn, BK=64, STAGES=stages, num_warps=warps)
         for bm, bn, stages, warps in ((128, 256, 3, 8), (128, 256, 4, 8), (128, 128, 3, 4), (128, 128, 4, 4))}


@triton.jit
def dot(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr):
    """C = A B in tutorial 23's order of tiles."""
    wide = N // BN
    first = tl.program_id(0) // (8 * wide) * 8
    tall = tl.minimum(M // BM - first, 8)
    inside = tl.program_id(0) % (8 * wide)
    rows = (first + inside % tall) * BM + tl.arange(0, BM)
    columns = inside // tall * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    sums = tl.zeros([BM, BN], tl.float32)
    for k in tl.range(0, K, BK, num_stages=STAGES):
        x = tl.load(a + rows[:, None] * K + (k + inner)[None, :])
        y = tl.load(b + (k + inner)[:, None] * N + columns[None, :])
        sums = tl.dot(x, y, sums)
    tl.store(c + rows[:, None] * N + columns[None, :], sums.to(tl.float16))


def launch(kernel, grid, *args, **meta):
    """What the tutorial takes for a machine."""
    kernel[grid](*args, **meta)


def measure(name: str, at_least_ms: float) -> Row:
    """One row, checked."""
    meta, multiply = CASES[name], tutorial("23_local_memories").multiply
    torch.manual_seed(0)
    a, b = (torch.randn(SIZE, SIZE, device="cuda", dtype=torch.float16) for _ in range(2))
    c, d, expected = torch.empty_like(a), torch.empty_like(a), a @ b
    grid = (SIZE // meta["BM"] * (SIZE // meta["BN"]), )
    runs = {"mimw": lambda: multiply(launch, a, b, c, **meta), "tl.dot": lambda: dot[grid](a, b, d, SIZE, SIZE, SIZE, **meta),
            "cuBLAS": lambda: a @ b}
    runs["mimw"]()
    error = ((c.float() - expected.float()).norm() / expected.float().norm()).item()
    if not error < 1e-3:
        raise AssertionError(f"{name}: error {error:.2e}")
    shape, times = dict(M=SIZE, N=SIZE, K=SIZE), alternate(runs, at_least_ms)
    return row_of("local_memories-matmul", shape, meta, times, error, "standard normal")


def line(row: Row) -> str:
    """A row for people."""
    chosen = "x".join(str(row.configuration[name]) for name in ("BM", "BN", "BK"))
    others = "  ".join(f"{name} {row.baselines[name]:.1f} ({ratio:.3f})" for name, ratio in row.ratios().items())
    chosen, rate = f"{chosen}, {row.configuration['STAGES']} stages", 2e-6 * SIZE**3 / row.microseconds
    return f"{chosen} {row.microseconds:8.1f} us {rate:5.0f} TFLOP/s  {others}  error {row.error:.1e}"


def main() -> None:
    parser = command(__doc__, ms=200.0)
    some_of(parser, "cases", CASES)
    options = parsed(parser)
    rows = (measure(name, options.ms) for name in each(options.cases or CASES))
    table(rows, options.results / "local_memories.jsonl", line, lambda row: "tl.dot", "the loop of tl.dot")


if __name__ == "__main__":
    main()
