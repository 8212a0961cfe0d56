"""What the products of the library have in common: the lines of their contracts, and the second operand as it lies in memory.

Input: an array. Output: lines for contracts; b by rows or by columns. For example:

    Contract(*matrices("(M, K)", "(K, N)", "(M, N)"))       a, b and c of the library's GEMM
    lying(b)                            (b transposed, True) for `x.T` of an (N, K), (b, False) for rows
    left_lying(a)                       (a transposed, True) for `x.T` of a (K, M), (a, False) for rows
"""

from __future__ import annotations

from typing import Any

from .checks import lie
from .contract.memory import strides

TYPES = "bf16|fp16|fp32|fp8"


def matrices(a: str, b: str, c: str, names: tuple[str, str, str] = ("a", "b", "c")) -> tuple[str, str, str]:
    """The lines of c = a b, of these shapes: a and c as TMA takes them."""
    left, right, result = names
    return f"{left}: {TYPES} {a} tma", f"{right}: ={left}|fp8 {b}", f"{result}: {TYPES} {c} tma"


def lying(b: Any, name: str = "b", memory: str = "tma") -> tuple[Any, bool]:
    """(b as it lies in memory, whether that is by columns: (N, K)). ValueError where TMA or wgmma does not read it, `memory` being
    what TMA asks."""
    row, column = strides(b)[-2:]
    by_columns = row == 1 and column != 1 or b.shape[-1] == 1
    if b.dtype.itemsize != 2 and not by_columns:
        raise ValueError(f"{name} of {b.dtype} must be contiguous along K, as wgmma reads 8-bit and 32-bit operands only so: "
                         "pass the transpose of an (N, K) row-major matrix")
    b = b.swapaxes(-1, -2) if by_columns else b
    lie(memory, **{f"{name}, as it lies in memory,": b})
    return b, by_columns


def left_lying(a: Any, name: str = "a") -> tuple[Any, bool]:
    """(a as it lies in memory, whether that is by columns: (K, M)), which wgmma reads of 16 bits. ValueError where TMA or wgmma
    does not read it."""
    row, column = strides(a)[-2:]
    by_columns = a.dtype.itemsize == 2 and row == 1 and column != 1 and a.shape[-2] > 1
    a = a.swapaxes(-1, -2) if by_columns else a
    lie("tma", **{f"{name}, as it lies in memory," if by_columns else name: a})
    return a, by_columns


__all__ = ["TYPES", "left_lying", "lying", "matrices"]
