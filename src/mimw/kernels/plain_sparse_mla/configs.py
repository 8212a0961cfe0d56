"""Which tile for which problem.

Input: heads a KV head, value columns and all columns, bytes of an element. Output: the kernel's compile-time arguments:

    meta(128, 512, 576, 2)          {"BH": 16, "BK": 32, "DV_TILE": 512, "DT_TILE": 64, "num_warps": 8, ...}
"""

from __future__ import annotations

SMALLEST = 16   # extent of a tile: what tensor cores take of any type


def meta(heads: int, value_dim: int, width: int, in_bytes: int) -> dict:
    """Compile-time arguments and launch options: few heads and rows at a time, since rows are wide."""
    wide = _tile(value_dim)
    return dict(BH=SMALLEST, BK=32 if in_bytes == 2 else 16, DV_TILE=wide, DT_TILE=_tile(width - value_dim),
                num_warps=8 if wide > 256 else 4, num_stages=1)


def _tile(extent: int) -> int:
    return max(SMALLEST, 1 << (extent - 1).bit_length() if extent else 0)
