"""How rows are cut into blocks that one program sorts.

Input: the length of a row. Output: the block's length, and the launch's options:

    block(100), block(1 << 20)          128, 4096
    options(4096)                       {"BLOCK": 4096, "num_warps": 16}
"""

from __future__ import annotations

LONGEST = 4096  # numbers of 64 bits that the registers of one program sort


def block(n: int) -> int:
    """A power of two."""
    return min(LONGEST, 1 << max(0, n - 1).bit_length())


def options(length: int) -> dict:
    """Compile-time arguments: 8 numbers a thread at most."""
    return dict(BLOCK=length, num_warps=max(1, min(16, length // 256)))
