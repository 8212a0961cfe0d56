"""How the tiles of a block-scaled product are cut: two consumers of 64 rows, 128 or 256 columns.

Input: the bytes of an output element. Output: the kernel's compile-time arguments. For example:

    Configuration().meta(2, "plain")        {"BM": 128, "BN": 128, "GROUP_M": 8, "STAGES": 5, "PIECES": 2, "STAGING": 2, ...}
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

LINE_BYTES = 128    # the columns that a consumer sends at a time


@dataclass(frozen=True)
class Configuration:
    """bm x bn output tiles, 64 rows a consumer; `together` so many chunks at a time, of 128 columns; the rest as in kernel.py."""

    bm: int = 128
    bn: int = 128
    group_m: int = 8
    stages: int = 5
    staging: int = 2
    together: int = 4

    def meta(self, out_bytes: int, layout: str) -> dict:
        """The kernel's compile-time arguments. Each part of a tile starts with the first staging tile, so their number divides that
        of the pieces."""
        pieces = max(1, 128 * out_bytes // LINE_BYTES)
        return dict(BM=self.bm, BN=self.bn, GROUP_M=self.group_m, STAGES=self.stages, PIECES=pieces,
                    STAGING=gcd(self.staging, pieces), LAYOUT=layout, TOGETHER=self.together)
