"""Triton's enumerations by name, as IR text has them: rounding modes, memory orders, kinds of atomics.

Input: the name of an enumeration and of a member. Output: the member, None if there is none. An example:

    enumeration_member("INPUT_PRECISION", "TF32")       ir.INPUT_PRECISION.TF32
"""

from __future__ import annotations

from typing import Any

from triton._C.libtriton import ir as mlir


def enumeration_member(enumeration: str, member: str) -> Any:
    return getattr(getattr(mlir, enumeration), "__members__", {}).get(member)


def enumeration_names(enumeration: str) -> tuple[str, ...]:
    """The names of all members; () for no enumeration of Triton's."""
    return tuple(getattr(getattr(mlir, enumeration, None), "__members__", ()))
