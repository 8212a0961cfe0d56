"""Tensors of any extents, while a kernel is recorded for a chip that has such tensors.

Input: the most elements that a tile may have once its extents are rounded up. Output: a context in which Triton's types take
extents that are no powers of two. For example:

    with any_shapes(MOST):
        tl.block_type(tl.float32, [50])         a type; outside: ValueError: Shape element 0 must be a power of 2

Triton asks one function of every block shape. From the first use on, the module that asks has a function of ours in its place,
which hands everything on to Triton's own but in such a context, in the thread or task that has entered it. `tl.arange` asks for
itself: `frontend.semantic` answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import prod

import triton.language.core as core
from triton._utils import TRITON_MAX_TENSOR_NUMEL

MOST = TRITON_MAX_TENSOR_NUMEL      # elements of a tensor, on chips for which Triton makes a binary
_ANY: ContextVar[int] = ContextVar("mimw_any_shapes", default=0)
_ASKS = "validate_block_shape"


@contextmanager
def any_shapes(most: int) -> Iterator[None]:
    """Inside, block types may have any positive extents that as powers of two make `most` elements or fewer."""
    if not hasattr(core.validate_block_shape, "tritons_own"):
        setattr(core, _ASKS, _asking(core.validate_block_shape))
    before = _ANY.set(most)
    try:
        yield
    finally:
        _ANY.reset(before)


def any_shapes_allowed() -> bool:
    """True inside of `any_shapes`."""
    return _ANY.get() > 0


def refuses_extents(error: BaseException) -> bool:
    """True of the error with which Triton refuses an extent that is no power of two."""
    return str(error).rstrip().endswith("must be a power of 2")


def check_positive(shape) -> None:
    """TypeError or ValueError, as of Triton, for extents that are no positive ints."""
    for index, extent in enumerate(shape):
        if not isinstance(extent, int):
            raise TypeError(f"Shape element {index} must have type `constexpr[int]`, got `constexpr[{type(extent)}]")
        if extent <= 0:
            raise ValueError(f"Shape element {index} must be positive, got {extent}")


def _asking(own):
    def validate_block_shape(shape) -> int:
        if not _ANY.get():
            return own(shape)
        check_positive(shape)
        held = prod(1 << (extent - 1).bit_length() for extent in shape)
        if held > _ANY.get():
            raise ValueError(f"numel ({prod(shape)}, in extents that are powers of two {held}) exceeds triton maximum tensor numel "
                             f"({_ANY.get()})")
        return prod(shape)

    validate_block_shape.tritons_own = own
    return validate_block_shape
