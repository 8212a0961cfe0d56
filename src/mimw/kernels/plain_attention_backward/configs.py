"""Which tile for which problem.

Input: lengths, head dims and the bytes of an element. Output: the kernels' compile-time arguments:

    meta(1000, 1000, 80, 80, 2)         {"D": 80, "D_TILE": 128, "BM": 64, "BN": 64, ...}
"""

from __future__ import annotations

from ..plain_attention.configs import meta as forward


def meta(seq_q: int, seq_k: int, dim: int, value_dim: int, in_bytes: int) -> dict:
    """The forward's tiles: a program holds two more of them, and twice the sums, so it has twice the warps for wide heads."""
    found = forward(seq_q, seq_k, dim, value_dim, in_bytes)
    return found | dict(num_warps=8 if max(dim, value_dim) > 64 else 4, num_stages=1)


__all__ = ["meta"]
