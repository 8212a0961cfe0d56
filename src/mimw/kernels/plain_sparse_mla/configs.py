"""The tiles of a problem.

Input: heads a KV head, value columns and all columns, bytes of an element, and whether there is shared memory for wide tiles.
Output: the kernel's constants and launch options:

    meta(128, 512, 576, 2, False, *rules)       {"FORM": Form(BH=16, BK=32, DV_TILE=512, DT_TILE=64, ...), "num_warps": 8, ...}
"""

from __future__ import annotations

from ..powers import SMALLEST, tile
from .nouns import Form

LONGEST = 640   # columns of a row, in both tiles, up to which such tiles fit
WIDE = 64       # heads of a program, and rows, in 227 KB of shared memory: 13.5 ms where 16 heads and 32 rows take 34.8, on an H200


def meta(heads: int, value_dim: int, width: int, in_bytes: int, wide: bool, causal: bool, base_2: bool, exact: bool) -> dict:
    """Constants and launch options: few heads and rows at a time, since rows are long, or where there is room as many
    as a product takes, so that rows are gathered less often."""
    columns, others = tile(value_dim), tile(width - value_dim)
    wide = wide and in_bytes == 2 and heads > SMALLEST and columns + others <= LONGEST
    rows = 32 if in_bytes == 2 else 16
    form = Form(min(WIDE, tile(heads)) if wide else SMALLEST, WIDE if wide else rows, columns, others, causal, base_2,
                exact and in_bytes == 4)
    return dict(FORM=form, num_warps=8 if columns > 256 else 4, num_stages=1)
