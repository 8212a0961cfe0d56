"""Which tile for which problem.

Input: heads that share keys, lengths, the head dim and the bytes of an element. Output: the kernel's compile-time arguments:

    meta(64, 10, 1000, 128, 2)      {"GROUP": 64, "D": 128, "D_TILE": 128, "BM": 64, "BN": 64, ...}
"""

from __future__ import annotations

SMALLEST = 16   # extent of a tile: what tensor cores take of any type


def meta(group: int, seq_q: int, seq_k: int, dim: int, in_bytes: int) -> dict:
    """Compile-time arguments and launch options; tiles of wide heads are small, as shared memory is on chips other than Hopper."""
    most = 64 if dim * in_bytes <= 256 else 32
    return dict(GROUP=group, D=dim, D_TILE=_tile(dim), BM=min(most, _tile(group * seq_q)), BN=min(most, _tile(seq_k)), num_warps=4,
                num_stages=1 if dim * in_bytes > 512 else 2)


def gradient_meta(group: int, seq_q: int, seq_k: int, dim: int, in_bytes: int) -> dict:
    """The same for gradients, which keep two more tiles of a head's width in registers."""
    found = meta(group, seq_q, seq_k, dim, in_bytes)
    return {**found, "num_warps": 8 if dim * in_bytes > 128 else 4,
            "num_stages": 1}


def _tile(extent: int) -> int:
    return max(SMALLEST, 1 << (extent - 1).bit_length() if extent else 0)
