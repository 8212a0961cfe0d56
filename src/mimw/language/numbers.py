"""Numbers as arguments of words: ints, and integer scalars of the kernel.

Input: an argument of a word. Output: whether the argument is a number, or the argument's handle. For example:

    is_int(True)                         False: a bool is no number
    index_handle("index", i, semantic)   the i32 handle of an int or of an integer scalar; KernelError for anything else
"""

from __future__ import annotations

from typing import Any

import triton.language.core as tl

from ..errors import KernelError
from .refuse import refuse


def is_int(value: Any) -> bool:
    """True of an int that is no bool."""
    return isinstance(value, int) and not isinstance(value, bool)


def index_handle(name: str, value: Any, semantic) -> Any:
    """An i32 handle for an int or an integer scalar."""
    if is_int(value):
        return semantic.builder.get_int32(value)
    if isinstance(value, tl.tensor) and not value.type.is_block() and value.dtype.is_int():
        return semantic.cast(value, tl.int32).handle
    given = repr(value) if isinstance(value, str) else value
    refuse(KernelError, f"{name} must be an int or an integer scalar, got {given}", mend=whole(value))


def whole(value: Any) -> str:
    """The mend for a number with a fraction where a whole one belongs."""
    fraction = isinstance(value, tl.tensor) and value.type.scalar.is_floating()
    return "divide by `//`: `/` gives a number with a fraction" if fraction else ""
