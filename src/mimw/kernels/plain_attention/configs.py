"""Which tile for which problem.

Input: lengths, head dims and the bytes of an element. Output: the kernel's compile-time arguments:

    meta(1000, 1000, 80, 80, 2)         {"D": 80, "D_TILE": 128, "BM": 64, "BN": 64, ...}
"""

from __future__ import annotations

SMALLEST = 16   # extent of a tile: what tensor cores take of any type


def meta(seq_q: int, seq_k: int, dim: int, value_dim: int, in_bytes: int) -> dict:
    """Compile-time arguments and launch options; wide heads get small blocks, so that tiles stay in registers, and no
    more than the 99 KB of shared memory that every chip since sm_86 has."""
    most = 64 if max(dim, value_dim) * in_bytes <= 256 else 32
    return dict(D=dim, DV=value_dim, D_TILE=_tile(dim), DV_TILE=_tile(value_dim), BM=min(most, _tile(seq_q)),
                BN=min(most, _tile(seq_k)), num_warps=4, num_stages=1 if max(dim, value_dim) * in_bytes > 512 else 2)


def _tile(extent: int) -> int:
    return max(SMALLEST, 1 << (extent - 1).bit_length() if extent else 0)
