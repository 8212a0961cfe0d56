"""Which tile for which problem: small ones for small extents, so that the padding of a tile costs little.

Input: M, N, K, the bytes of an element and whether products are fp32's own. Output: the kernel's constants and options:

    meta(4096, 4096, 4096, 2, False, False)     {"FORM": Form(BM=128, BN=128, BK=64, ...), "num_warps": 8, "num_stages": 3}
    meta(5, 7, 33, 2, False, False)             {"FORM": Form(BM=16, BN=16, BK=64, ...), ...}
"""

from __future__ import annotations

from .kernel import Form

SMALLEST = 16   # extent of a tile: what tensor cores take of any type


def meta(m: int, n: int, k: int, in_bytes: int, exact: bool, widen: bool) -> dict:
    """Constants and launch options."""
    most = 64 if exact else 128
    bm, bn = _tile(m, most), _tile(n, most)
    return dict(FORM=Form(bm, bn, _tile(k, 32 if in_bytes == 4 else 64), GROUP_M=8, EXACT=exact, WIDEN=widen),
                num_warps=8 if bm * bn >= 128 * 128 else 4, num_stages=3)


def _tile(extent: int, most: int) -> int:
    return max(SMALLEST, min(most, 1 << (extent - 1).bit_length() if extent else 0))
