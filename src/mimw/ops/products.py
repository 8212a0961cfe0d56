"""Whether TMA can read a tensor as it lies, asked by the operators of products.

Input: tensors. Output: yes or no. For example:

    rows_for_tma(x)             x's last dimension is contiguous, all others multiples of 16 bytes, as is the address
    matrix_for_tma(a, b)        that, of the operands of a product: b by rows or by columns; 8-bit and fp32 by columns
"""

from __future__ import annotations

from torch import Tensor


def rows_for_tma(x: Tensor) -> bool:
    """True if TMA takes x's strides and address."""
    *outer, step = x.stride()
    whole = all(0 < one and one * x.itemsize % 16 == 0 or extent == 1 for one, extent in zip(outer, x.shape))
    return (step == 1 or x.shape[-1] == 1) and whole and x.data_ptr() % 16 == 0


def matrix_for_tma(a: Tensor, b: Tensor) -> bool:
    """True if a and b are operands of the library's GEMM, batches or groups of matrices too."""
    if b.shape[-1] == 1 or not rows_for_tma(a) or a.stride(-1) != 1:
        return False
    row, column = b.stride(-2), b.stride(-1)
    return row == 1 and column != 1 and rows_for_tma(b.mT) or a.itemsize == 2 and column == 1 and rows_for_tma(b)


__all__ = ["matrix_for_tma", "rows_for_tma"]
