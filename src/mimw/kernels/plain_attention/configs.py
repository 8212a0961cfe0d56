"""The tiles of a problem.

Input: lengths, head dims and the bytes of an element. Output: blocks of queries and keys, and the kernel's constants and options:

    blocks(1000, 1000, 80, 80, 2)           (64, 64)
    meta(1000, 1000, 80, 80, 2, True)       {"FORM": Form(D=80, DV=80, D_TILE=128, ...), "num_warps": 4, "num_stages": 2}
"""

from __future__ import annotations

from ..powers import tile
from .nouns import Form


def meta(seq_q: int, seq_k: int, dim: int, value_dim: int, in_bytes: int, causal: bool, exact: bool = False) -> dict:
    """Constants and launch options."""
    bm, bn = blocks(seq_q, seq_k, dim, value_dim, in_bytes)
    return dict(FORM=form(dim, value_dim, bm, bn, causal, exact and in_bytes == 4), num_warps=4,
                num_stages=1 if max(dim, value_dim) * in_bytes > 512 else 2)


def blocks(seq_q: int, seq_k: int, dim: int, value_dim: int, in_bytes: int) -> tuple[int, int]:
    """Queries and keys at a time: of wide heads few, so that tiles stay in registers, and in no more than the 99 KB of shared
    memory that every chip since sm_86 has."""
    most = 64 if max(dim, value_dim) * in_bytes <= 256 else 32
    return min(most, tile(seq_q)), min(most, tile(seq_k))


def form(dim: int, value_dim: int, bm: int, bn: int, causal: bool, exact: bool) -> Form:
    """The constants of heads of these columns, `bm` queries by `bn` keys at a time."""
    return Form(dim, value_dim, tile(dim), tile(value_dim), bm, bn, causal, exact)
