"""How the tiles of a skinny product are cut: one weight tile for all sizes, and as deep a ring as shared memory holds.

Input: M and the bytes of an element. Output: a `Configuration`, whose `meta` gives the kernel's compile-time arguments:

    configuration(5)                            Configuration(tm=16, stages=11, consumers=2)
    configuration(5).meta(2, True)              {"WN": 128, "TM": 16, "BK": 64, "STAGES": 11, "PIECES": 1, "CONSUMERS": 2, ...}
"""

from __future__ import annotations

from dataclasses import dataclass

LINE_BYTES = 128            # one swizzle row: BK elements of any type
RING_BYTES = 208 << 10      # of 227 KiB; the rest is for pieces of sums that change their layout
PIECE = 32                  # rows of X whose sums go out at a time
MOST = 256                  # columns of one wgmma: rows of X in a tile


@dataclass(frozen=True)
class Configuration:
    """Tiles of 64 weights for each of `consumers` warpgroups, by `tm` rows of X; a ring of `stages` chunks."""

    tm: int = 16
    stages: int = 11
    consumers: int = 2

    def meta(self, in_bytes: int, w_is_nk: bool) -> dict:
        """The kernel's compile-time arguments for elements of so many bytes."""
        return dict(WN=64 * self.consumers, TM=self.tm, BK=LINE_BYTES // in_bytes, STAGES=self.stages,
                    PIECES=max(1, self.tm // PIECE), CONSUMERS=self.consumers, W_IS_NK=w_is_nk)


def configuration(m: int) -> Configuration:
    """The configuration for M rows: the least tile that holds them, up to 256."""
    tm = min(MOST, max(16, 1 << (m - 1).bit_length()))
    return Configuration(tm, RING_BYTES // (LINE_BYTES * (128 + tm)))
