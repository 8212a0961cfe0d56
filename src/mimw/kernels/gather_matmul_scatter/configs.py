"""The cut of a gathered product: one configuration, which a GEMM of wide tiles has too.

Input: the bytes of input and output elements. Output: the kernel's constants. For example:

    Configuration().meta(2, 2, False)        {"TILES": Tiles(BM=128, BN=256, GROUP_M=16, ...), "STAGES": 4, ...}
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from ..gemm.tiles import Tiles

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
        """The kernel's constants; that of Blackwell has a task for each role, and one that stores. Each output tile starts with the
        first staging tile, so their number divides that of the pieces."""
        pieces = max(1, self.bn * out_bytes // LINE_BYTES)
        tiles = Tiles(self.bm, self.bn, self.group_m, LINE_BYTES // in_bytes, 1 if blackwell else self.consumers, pieces,
                      gcd(self.staging, pieces), False, b_is_nk)
        return dict(TILES=tiles, STAGES=self.stages, LOAD_WARPS=self.load_warps)
