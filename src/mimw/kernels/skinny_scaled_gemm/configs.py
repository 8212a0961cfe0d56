"""The cut of a product of few rows with scales of blocks: one tile of weights for all rows, and as deep a ring as fits.

Input: M, N, the number of programs. Output: a `Configuration`, whose `meta` gives the kernel's constants:

    configuration(5, 24576, 132)                Configuration(tm=16, stages=11, consumers=2)
    Configuration().meta()                      {"TILES": Tiles(WN=128, TM=16, BK=128, STAGES=11, PIECES=1, CONSUMERS=2, ...)}
"""

from __future__ import annotations

from dataclasses import dataclass

from ..skinny_gemm.configs import AHEAD, PIECE, RING_BYTES, fits, tiles
from ..skinny_gemm.kernel import Tiles

BLOCK = 128                 # bytes of a chunk of a row, and numbers that share a scale
MOST = 256                  # columns of one wgmma: rows of X


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


def configuration(m: int, n: int, programs: int) -> Configuration:
    """The configuration for M rows and N weights: two consumers, or one where tiles of 64 weights are about as many as programs,
    so that no sums are handed on."""
    tm = rows_of(m)
    consumers = next((count for count in (1, 2) if fits(tiles(m, n, tm, count), programs)), 2)
    return Configuration(tm, stages_for(tm, consumers), consumers)
