"""How the tiles of a gathered product are cut: one configuration, which a GEMM of wide tiles has too.

Input: the bytes of input and output elements. Output: the kernel's compile-time arguments. For example:

    Configuration().meta(2, 2, False)        {"BM": 128, "BN": 256, "BK": 64, "STAGES": 4, "PIECES": 4, ...}
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

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
        """The kernel's compile-time arguments; that of Blackwell has a task for each role. Each output tile starts with the first
        staging tile, so their number divides that of the pieces."""
        pieces = max(1, self.bn * out_bytes // LINE_BYTES)
        tasks = dict(LOAD_WARPS=self.load_warps, **{} if blackwell else dict(CONSUMERS=self.consumers))
        return dict(BM=self.bm, BN=self.bn, BK=LINE_BYTES // in_bytes, GROUP_M=self.group_m, STAGES=self.stages, PIECES=pieces,
                    STAGING=gcd(self.staging, pieces), B_IS_NK=b_is_nk, **tasks)
