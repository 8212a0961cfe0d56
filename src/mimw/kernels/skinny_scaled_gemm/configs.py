"""The cut of a product of few rows with scales of blocks: tiles of weights for all rows, which programs share or have whole.

Input: M, N, K, the number of programs. Output: a `Configuration`, whose `meta` gives the kernel's constants:

    configuration(5, 24576, 1536, 132)          Configuration(tm=16, stages=8, consumers=3, parts=0)
    configuration(5, 4096, 7168, 132)           Configuration(tm=16, stages=8, consumers=2, parts=2)
    Configuration().meta()                      {"TILES": Tiles(WN=128, TM=16, BK=128, STAGES=11, PIECES=1, CONSUMERS=2, ...)}
"""

from __future__ import annotations

from dataclasses import dataclass

from ..skinny_gemm.configs import AHEAD, PIECE, RING_BYTES, fits, tiles
from ..skinny_gemm.kernel import Tiles

BLOCK = 128                 # bytes of a chunk of a row, and numbers that share a scale
MOST = 256                  # columns of one wgmma: rows of X
MOST_PARTS, BUSY = 8, 0.8   # of a tile's K; the share of programs that have a part, if tiles are cut into parts
MEMORY, L2 = 28.0, 54.0     # bytes a nanosecond that an SM gets of an H200's memory, and of its L2
LATENCY = 700.0             # nanoseconds of a load of what another program has written, and of a tile's end


@dataclass(frozen=True)
class Configuration:
    """Tiles of 64 weights for each of `consumers` warpgroups, by `tm` rows of X; a ring of `stages` chunks. With `parts`, tiles of
    64 weights whose K is cut into so many parts, a program's each, in which two consumers take turns by chunks (parts.py)."""

    tm: int = 16
    stages: int = 11
    consumers: int = 2
    parts: int = 0

    def meta(self) -> dict:
        """The kernel's constants."""
        weights = 64 if self.parts else 64 * self.consumers
        return dict(TILES=Tiles(weights, self.tm, BLOCK, self.stages, max(1, self.tm // PIECE), self.consumers, True, True,
                                self.parts))


def parts_of(m: int, n: int, k: int, programs: int) -> int:
    """The parts into which K of tiles of 64 weights is cut, so that nearly all programs have one: a power of two; 0 where they are
    too few or too many, or where X has over 128 rows, whose sums are too many to exchange."""
    count = -(-n // 64)
    parts = min(MOST_PARTS, 1 << max(0, (programs // count).bit_length() - 1))
    whole = m <= 64 or 112 < m <= 128 or m <= 128 and k <= 8192     # boxes of TMA whose last rows are none cost time
    return parts if whole and BUSY * programs <= parts * count <= programs and -(-k // BLOCK) >= 2 * parts else 0


def rows_of(m: int) -> int:
    """The rows of a tile that holds M: a power of two up to 64, then a multiple of 32."""
    return max(16, 1 << (m - 1).bit_length()) if m <= 64 else -(-m // PIECE) * PIECE


def stages_for(tm: int, consumers: int) -> int:
    """The chunks of tiles of this size that shared memory holds, each with TM scales."""
    most = RING_BYTES // (BLOCK * (64 * consumers + tm) + 4 * tm)
    return min(AHEAD if consumers == 1 else 20, most)


def suits(m: int, n: int, k: int, programs: int) -> bool:
    """True where this kernel is faster than tiles of 128 x 128 (../block_scaled_gemm), as measured on an H200: up to 64 rows, or 32
    of a short K; up to 128 where tiles of 64 weights or their parts keep the programs busy; and up to 160 where tiles of 128 x 128
    leave half of the programs idle for long (benchmarks/notes/block-scaled-gemm.md)."""
    few = m <= 32 or m <= 64 and k >= 1024
    return few or parts_of(m, n, k, programs) > 0 or m <= 160 and 2 * -(-n // 128) <= programs and k >= 4096


def rounds_of(count: int, programs: int) -> int:
    """The tiles of each program, if nearly all programs have as many; else 0."""
    rounds = -(-count // programs)
    return rounds if fits(-(-count // rounds), programs) else 0


def programs_for(chosen: Configuration, m: int, n: int, k: int, programs: int) -> int:
    """The programs of a launch, of `programs` at most: one for each part; as many as have equal numbers of whole tiles, if nearly
    all of them have; else all, which have equal shares of all chunks."""
    if chosen.parts:
        return chosen.parts * -(-n // 64)
    count = tiles(m, n, chosen.tm, chosen.consumers)
    rounds = rounds_of(count, programs)
    return -(-count // rounds) if rounds else min(programs, count * -(-k // BLOCK))


def predicted(tm: int, n: int, k: int, programs: int, consumers: int) -> float:
    """Nanoseconds of a launch's loop and of the sums that are handed on, without parts: a program's chunks come at its share of the
    memory's speed, or of L2's, which brings X's rows as well."""
    count, steps = tiles(tm, n, tm, consumers), -(-k // BLOCK)
    weights, rows = BLOCK * 64 * consumers, BLOCK * tm
    each = max(weights / MEMORY, (weights + rows) / L2)
    if rounds := rounds_of(count, programs):
        return rounds * (steps * each + LATENCY)
    chunks = -(-count * steps // programs)
    others = -(-steps // chunks)
    return chunks * each + LATENCY * (2 + max(1, tm // PIECE) * -(-others // (4 if tm <= 64 else 2)))


def configuration(m: int, n: int, k: int, programs: int) -> Configuration:
    """The configuration for M rows and N weights of K: parts where they keep the programs busy, else as many consumers as are
    predicted to be the fastest; three have registers for 96 rows."""
    parts = parts_of(m, n, k, programs)
    if parts:
        tm = max(16, 1 << (m - 1).bit_length())
        return Configuration(tm, 8 if tm <= 64 else 6, 2, parts)
    tm = rows_of(m)
    consumers = min((1, 2, 3) if tm <= 96 else (1, 2), key=lambda count: predicted(tm, n, k, programs, count))
    return Configuration(tm, stages_for(tm, consumers), consumers)
