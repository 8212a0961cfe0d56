"""How the tiles of a gathered product are cut: one configuration, which a GEMM of wide tiles has too.

Input: the bytes of input and output elements. Output: the kernel's compile-time arguments. For example:

    Configuration().meta(2, 2, False)        {"FORM": Form(tiles=Tiles(BM=128, BN=256, ...), STAGES=4), "LOAD_WARPS": 4}
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from ..gemm.tiles import Form, Tiles

LINE_BYTES = 128    # one swizzle row: BK elements of any type, and the columns that a consumer sends at a time


@dataclass(frozen=True)
class Configuration:
    """BM x BN output tiles by `consumers` warpgroups; `load_warps` share out the rows to copy; the rest as in kernel.py."""

    bm: int = 128
    bn: int = 256
    group_m: int = 16
    stages: int = 4
    consumers: int = 2
    staging: int = 2
    load_warps: int = 4

    def meta(self, in_bytes: int, out_bytes: int, b_is_nk: bool, blackwell: bool = False) -> dict:
        """The kernel's compile-time arguments; that of Blackwell has one task that stores. Each output tile starts with the first
        staging tile, so their number divides that of the pieces."""
        pieces, consumers = self.pieces(out_bytes), 1 if blackwell else self.consumers
        tiles = Tiles(self.bm, self.bn, self.group_m, LINE_BYTES // in_bytes, consumers, pieces, gcd(self.staging, pieces), False,
                      b_is_nk)
        return dict(FORM=Form(tiles, self.stages), LOAD_WARPS=self.load_warps)

    def blocks(self, in_bytes: int, out_bytes: int, b_is_nk: bool) -> tuple[list[int], list[int], list[int]]:
        """Blocks of A, B and C that their descriptors copy at a time: single rows of A and of C."""
        bk = LINE_BYTES // in_bytes
        return [1, bk], [self.bn, bk] if b_is_nk else [bk, self.bn], [1, self.bn // self.pieces(out_bytes)]

    def pieces(self, out_bytes: int) -> int:
        """Pieces, a line wide, in which a tile is stored."""
        return max(1, self.bn * out_bytes // LINE_BYTES)
