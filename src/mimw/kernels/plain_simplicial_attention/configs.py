"""The tiles of a problem.

Input: heads that share keys, lengths, the head dim and the bytes of an element. Output: the kernel's constants and launch options:

    meta(64, 10, 1000, 128, 2, False)       {"FORM": Form(GROUP=64, D=128, D_TILE=128, ...), "num_warps": 4, "num_stages": 2}
"""

from __future__ import annotations

from ..powers import tile
from .nouns import Form


def meta(group: int, seq_q: int, seq_k: int, dim: int, in_bytes: int, exact: bool) -> dict:
    """Constants and launch options; tiles of wide heads are small, as shared memory is on chips other than Hopper."""
    most = 64 if dim * in_bytes <= 256 else 32
    form = Form(group, dim, tile(dim), min(most, tile(group * seq_q)), min(most, tile(seq_k)), exact and in_bytes == 4)
    return dict(FORM=form, num_warps=4, num_stages=1 if dim * in_bytes > 512 else 2)


def gradient_meta(group: int, seq_q: int, seq_k: int, dim: int, in_bytes: int, exact: bool) -> dict:
    """The same for gradients, which keep two more tiles of a head's width in registers."""
    return {**meta(group, seq_q, seq_k, dim, in_bytes, exact), "num_warps": 8 if dim * in_bytes > 128 else 4, "num_stages": 1}
