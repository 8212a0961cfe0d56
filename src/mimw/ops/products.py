"""Whether TMA, or a copy of AMD's chips, can read a tensor as it lies, asked by the operators of products.

Input: tensors. Output: yes or no. For example:

    rows_for_tma(x)             x's last dimension is contiguous, all others multiples of 16 bytes, as is the address
    matrix_for_mfma(a, b, "gfx950")     matrices for `mimw.kernels.mfma_gemm`
    matrix_for_tma(a, b)        that, of the operands of a product: b by rows or by columns; 8-bit and fp32 by columns
"""

from __future__ import annotations

import torch
from torch import Tensor

from mimw.kernels import mfma_gemm

MFMA_TYPES = torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2

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


def matrix_for_mfma(a: Tensor, b: Tensor, chip: str | None) -> bool:
    """True if a and b are operands that the library's GEMM for AMD copies 16 bytes at a time: matrices with rows so aligned, and K
    a multiple; b by columns, or by rows where the chip reads LDS transposed."""
    if chip not in mfma_gemm.CONFIGURATIONS or a.dtype not in MFMA_TYPES or a.shape[1] * a.itemsize % 16 or not rows_for_tma(a):
        return False
    if a.itemsize == 1 and mfma_gemm.FP8[chip] != "fp8":
        return False
    row, column = b.stride()
    by_rows = chip != "gfx942" and column == 1 and b.shape[1] * b.itemsize % 16 == 0 and rows_for_tma(b)
    return b.shape[1] > 1 and (row == 1 and column != 1 and rows_for_tma(b.mT) or by_rows)


__all__ = ["matrix_for_mfma", "matrix_for_tma", "rows_for_tma"]
