"""Which tile and how many splits for which problem.

Input: sizes. Output: the kernel's constants and options, and a number of splits:

    meta(8, 128, 128, 2, 17)                {"FORM": Form(D=128, DV=128, D_TILE=128, ..., SPLITS=17, ...), "num_warps": 4, ...}
    splits_for(16, 131072, 132)             17: 16 tiles of rows, so that all multiprocessors have something to read
"""

from __future__ import annotations

from ..powers import tile
from .nouns import Form

LEAST = 256     # keys of a split
RESIDENT = 2    # programs of a multiprocessor


def meta(rows: int, dim: int, value_dim: int, in_bytes: int, splits: int = 1, exact: bool = False) -> dict:
    """Constants and launch options; wide heads get small blocks, so that tiles stay in registers."""
    wide = max(dim, value_dim) * in_bytes
    most = 64 if wide <= 256 else 32
    form = Form(dim, value_dim, tile(dim), tile(value_dim), min(most, tile(rows)), most, splits, exact and in_bytes == 4)
    return dict(FORM=form, num_warps=4, num_stages=1 if wide > 512 else 3 if wide <= 256 else 2)


def splits_for(tiles: int, capacity: int, multiprocessors: int) -> int:
    """So many splits that tiles times splits are RESIDENT programs for each multiprocessor, of LEAST keys or more each."""
    return max(1, min(-(-RESIDENT * multiprocessors // max(tiles, 1)), capacity // LEAST, 128))
