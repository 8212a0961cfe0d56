"""Types of values that are made of others: one way to flatten them to handles and to make them again from handles.

Input: the types of the parts, in order. Output: a type whose values travel as their parts do, through helpers, loops and branches:

    class pair_type(CompositeType):
        parts = property(lambda self: (tl.int32, tl.float32))
        def of(self, values): return pair(*values)
    pair_type()._flatten_ir_types(builder, out)     out gets an i32 and an fp32; _unflatten_ir makes the pair of two handles

A class says what its parts are and how a value is made of them; all else is here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import triton.language.core as tl


class CompositeType(tl.base_type):
    """The type of a value that is made of others. Two types are equal if they have one class and one `mangle()`."""

    parts: Sequence[tl.base_type]

    def of(self, values: list[Any]) -> tl.base_value:
        """The value that is made of these parts."""
        raise NotImplementedError(type(self).__name__)

    def _flatten_ir_types(self, builder, out: list) -> None:
        for part in self.parts:
            part._flatten_ir_types(builder, out)

    def _unflatten_ir(self, handles: list, cursor: int):
        values = []
        for part in self.parts:
            value, cursor = part._unflatten_ir(handles, cursor)
            values.append(value)
        return self.of(values), cursor

    def __eq__(self, other) -> bool:
        return type(self) is type(other) and self.mangle() == other.mangle()

    def __hash__(self) -> int:
        return hash((type(self), self.mangle()))
