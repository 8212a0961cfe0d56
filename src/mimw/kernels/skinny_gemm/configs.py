"""The cut of a skinny product: one weight tile for all sizes, and as deep a ring as shared memory holds.

Input: M, N, the number of programs. Output: a `Configuration`, whose `meta` gives the kernel's constants:

    configuration(5, 28672, 132)                Configuration(tm=16, stages=11, consumers=2, streamed=True)
    Configuration().meta(2, True)               {"TILES": Tiles(WN=128, TM=16, BK=64, STAGES=11, PIECES=1, CONSUMERS=2, ...)}
"""

from __future__ import annotations

from dataclasses import dataclass

from .kernel import Tiles

LINE_BYTES = 128            # one swizzle row: BK elements of any type
RING_BYTES = 208 << 10      # of 227 KiB; the rest is for pieces of sums that change their layout
PIECE = 32                  # rows of X whose sums go out at a time
WHOLE = 0.9                 # of the programs have to have a tile, if each is to have a whole one
MOST = 256                  # columns of one wgmma: rows of X in a tile
AHEAD = 10                  # chunks of a program that has one tile of 64 weights: more crowd the memory


@dataclass(frozen=True)
class Configuration:
    """Tiles of 64 weights for each of `consumers` warpgroups, by `tm` rows of X; a ring of `stages` chunks. `streamed` weights,
    which only one tile reads, leave L2 first."""

    tm: int = 16
    stages: int = 11
    consumers: int = 2
    streamed: bool = False

    def meta(self, in_bytes: int, w_is_nk: bool) -> dict:
        """The kernel's constants for elements of so many bytes."""
        return dict(TILES=Tiles(64 * self.consumers, self.tm, LINE_BYTES // in_bytes, self.stages, max(1, self.tm // PIECE),
                                self.consumers, w_is_nk, self.streamed))


def configuration(m: int, n: int, programs: int) -> Configuration:
    """The configuration for M rows and N weights: the least tile that holds the rows, up to 256. If tiles of one size or another
    are about as many as programs, each program has a whole one, and no sums are handed on."""
    tm = min(MOST, max(16, 1 << (m - 1).bit_length()))
    sizes = [(tm, consumers) for consumers in (2, 1)] + ([(tm // 2, 2)] if tm >= 128 else [])
    whole = [size for size in sizes if fits(tiles(m, n, *size), programs)]
    tm, consumers = whole[-1] if whole else sizes[0]
    stages = min(AHEAD if consumers == 1 else 20, RING_BYTES // (LINE_BYTES * (64 * consumers + tm)))
    return Configuration(tm, stages, consumers, streamed=m <= tm)


def tiles(m: int, n: int, tm: int, consumers: int) -> int:
    """Tiles of a product."""
    return -(-m // tm) * -(-n // (64 * consumers))


def fits(count: int, programs: int) -> bool:
    """True where so many tiles keep the programs busy, one each."""
    return WHOLE * programs <= count <= programs
