"""Tensors of any extents, while a kernel is recorded for a chip that has such tensors.

Input: whether the chip has them. Output: a context in which Triton's types take extents that are no powers of two. For example:

    with any_shapes(True):
        tl.block_type(tl.float32, [50])         a type; outside: ValueError: Shape element 0 must be a power of 2

Triton asks one function of every block shape. From the first use on, the module that asks has a function of ours in its place,
which hands everything on to Triton's own but in such a context, in the thread or task that has entered it. `tl.arange` asks for
itself, and so keeps its rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import prod

import triton.language.core as core

_ANY: ContextVar[bool] = ContextVar("mimw_any_shapes", default=False)
_ASKS = "validate_block_shape"


@contextmanager
def any_shapes(allowed: bool) -> Iterator[None]:
    """Inside, block types may have any positive extents, if `allowed`."""
    if not allowed:
        yield
        return
    if not hasattr(core.validate_block_shape, "tritons_own"):
        setattr(core, _ASKS, _asking(core.validate_block_shape))
    before = _ANY.set(True)
    try:
        yield
    finally:
        _ANY.reset(before)


def any_shapes_allowed() -> bool:
    """True inside of `any_shapes(True)`."""
    return _ANY.get()


def refuses_extents(error: BaseException) -> bool:
    """True of the error with which Triton refuses an extent that is no power of two."""
    return str(error).rstrip().endswith("must be a power of 2")


def _asking(own):
    def validate_block_shape(shape) -> int:
        if not _ANY.get():
            return own(shape)
        for index, extent in enumerate(shape):
            if not isinstance(extent, int):
                raise TypeError(f"Shape element {index} must have type `constexpr[int]`, got `constexpr[{type(extent)}]")
            if extent <= 0:
                raise ValueError(f"Shape element {index} must be positive")
        return prod(shape)

    validate_block_shape.tritons_own = own
    return validate_block_shape
