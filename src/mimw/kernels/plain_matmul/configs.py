"""Which tile for which problem: small ones for small extents, so that the padding of a tile costs little.

Input: M, N, K, the bytes of an element and whether products of fp32 are fp32's own. Output: the kernel's constants and options:

    meta(4096, 4096, 4096, 2, False)    {"FORM": Form(BM=128, BN=128, BK=64, ...), "num_warps": 8, "num_stages": 3}
    meta(5, 7, 33, 2, False)            {"FORM": Form(BM=16, BN=16, BK=64, ...), ...}
"""

from __future__ import annotations

from ..powers import tile
from .nouns import Form


def meta(m: int, n: int, k: int, in_bytes: int, exact: bool) -> dict:
    """Constants and launch options."""
    exact = exact and in_bytes == 4
    most = 64 if exact else 128
    bm, bn = min(most, tile(m)), min(most, tile(n))
    return dict(FORM=Form(bm, bn, min(32 if in_bytes == 4 else 64, tile(k)), GROUP_M=8, EXACT=exact, WIDEN=in_bytes == 1),
                num_warps=8 if bm * bn >= 128 * 128 else 4, num_stages=3)
