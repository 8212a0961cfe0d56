"""TMA asked of tensors by the operators: whether it reads them as they lie, and copies that it reads.

Input: tensors. Output: yes or no, or copies. For example:

    every_step_for_tma(q)       the last dimension contiguous, every other stride a multiple of 16 bytes, as is the address
    padded(q, 128)              a contiguous copy whose rows have 128 columns, the new ones zeros
"""

from __future__ import annotations

from torch import Tensor


def every_step_for_tma(x: Tensor) -> bool:
    """True if TMA takes x's strides, those of extents of 1 among them, and its address."""
    *outer, step = x.stride()
    return step == 1 and x.data_ptr() % 16 == 0 and all(one > 0 and one * x.itemsize % 16 == 0 for one in outer)


def padded(x: Tensor, width: int) -> Tensor:
    """A contiguous copy with zeros up to `width`: of heads, they add nothing to scores, and columns of zeros to results."""
    copy = x.new_zeros(*x.shape[:-1], width)
    copy[..., :x.shape[-1]] = x
    return copy


__all__ = ["every_step_for_tma", "padded"]
