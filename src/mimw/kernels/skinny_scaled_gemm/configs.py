"""The cut of a product of few rows with scales of blocks: one tile of weights for all rows, and as deep a ring as fits.

Input: M, N, K, the number of programs. Output: a `Configuration`, whose `meta` gives the kernel's constants:

    configuration(5, 24576, 1536, 132)          Configuration(tm=16, stages=8, consumers=3)
    Configuration().meta()                      {"TILES": Tiles(WN=128, TM=16, BK=128, STAGES=11, PIECES=1, CONSUMERS=2, ...)}
"""

from __future__ import annotations

from dataclasses import dataclass

from ..skinny_gemm.configs import AHEAD, PIECE, RING_BYTES, fits, tiles
from ..skinny_gemm.kernel import Tiles

BLOCK = 128                 # bytes of a chunk of a row, and numbers that share a scale
MOST = 256                  # columns of one wgmma: rows of X
MEMORY, L2 = 28.0, 54.0     # bytes a nanosecond that an SM gets of an H200's memory, and of its L2
LATENCY = 700.0             # nanoseconds of a load that another program has written


@dataclass(frozen=True)
class Configuration:
    """Tiles of 64 weights for each of `consumers` warpgroups, by `tm` rows of X; a ring of `stages` chunks."""

    tm: int = 16
    stages: int = 11
    consumers: int = 2

    def meta(self) -> dict:
        """The kernel's constants."""
        return dict(TILES=Tiles(64 * self.consumers, self.tm, BLOCK, self.stages, max(1, self.tm // PIECE), self.consumers, True,
                                True))


def rows_of(m: int) -> int:
    """The rows of a tile that holds M: a power of two up to 64, then a multiple of 32."""
    return max(16, 1 << (m - 1).bit_length()) if m <= 64 else -(-m // PIECE) * PIECE


def stages_for(tm: int, consumers: int) -> int:
    """The chunks of tiles of this size that shared memory holds, each with TM scales."""
    most = RING_BYTES // (BLOCK * (64 * consumers + tm) + 4 * tm)
    return min(AHEAD if consumers == 1 else 20, most)


def suits(m: int, n: int, k: int, programs: int) -> bool:
    """True where this kernel is faster than tiles of 128 x 128 (../block_scaled_gemm), as measured on an H200: up to 64 rows, and
    up to 160 where such tiles leave half of the programs idle for long (benchmarks/notes/block-scaled-gemm.md)."""
    return m <= 64 or m <= 160 and 2 * -(-n // 128) <= programs and k >= 4096


def predicted(tm: int, n: int, k: int, programs: int, consumers: int) -> float:
    """Nanoseconds of a launch's loop and of the sums that are handed on: a program's chunks come at its share of the memory's
    speed, or of L2's, which brings X's rows as well."""
    count, steps = tiles(tm, n, tm, consumers), -(-k // BLOCK)
    weights, rows = BLOCK * 64 * consumers, BLOCK * tm
    each = max(weights / MEMORY, (weights + rows) / L2)
    if fits(count, programs):
        return steps * each
    chunks = -(-count * steps // programs)
    others = -(-steps // chunks)
    return chunks * each + LATENCY * (2 + max(1, tm // PIECE) * -(-others // (4 if tm <= 64 else 2)))


def configuration(m: int, n: int, k: int, programs: int) -> Configuration:
    """The configuration for M rows and N weights of K: as many consumers as are predicted to be the fastest; three have registers
    for 96 rows."""
    tm = rows_of(m)
    consumers = min((1, 2, 3) if tm <= 96 else (1, 2), key=lambda count: predicted(tm, n, k, programs, count))
    return Configuration(tm, stages_for(tm, consumers), consumers)
