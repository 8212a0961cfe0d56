"""Names that a struct's value does not have, and assignments to its fields, refused at the line.

Input: `value.name` in a kernel, where the value is of a `tle.struct`. Output: the field, or a StructError. For example:

    ring.tile               StructError: Ring has no field or method 'tile'; it has tiles, full, size. Mend: write .tiles
    ring.size = 3           StructError: field 'size' of Ring is assigned; ..
"""

from __future__ import annotations

import ast
from contextlib import nullcontext

from ..ir import Recording
from ..language.refuse import inside
from ..language.tle.struct import fields_of, no_assignment, no_such_field
from ..triton_port.codegen import unwrap_constexpr


class Structs:
    """Mixin over Triton's `CodeGenerator`, with our recorder or with Triton's own builder, which has no lines to tell."""

    def get_Attribute(self, lhs, attr):
        value = unwrap_constexpr(lhs)
        if fields_of(value) is not None and not hasattr(value, attr):
            with self._telling_lines():
                no_such_field(value, attr)
        return super().get_Attribute(lhs, attr)

    def assignTarget(self, target, value):
        if isinstance(target, ast.Attribute) and fields_of(holder := self.visit(target.value)) is not None:
            with self._telling_lines():
                no_assignment(holder, target.attr)
        return super().assignTarget(target, value)

    def _telling_lines(self):
        return inside(self.builder) if isinstance(self.builder, Recording) else nullcontext()
