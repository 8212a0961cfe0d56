"""Uses of a `tle.struct`'s value that cannot be, refused at the line.

Input: `value.name` in a kernel, assignments to it, loops and branches that assign a value. Output: the field, or a StructError:

    ring.tile                       Ring has no field or method 'tile'; it has tiles, full, size. Mend: write .tiles
    ring.size = 3                   field 'size' of Ring is assigned; ..
    for i in range(n): ring = ring.replace(size=i)      the loop gives `ring` another type: its field 'size' is ..
"""

from __future__ import annotations

import ast
from contextlib import nullcontext

from ...ir import Recording
from ...language.refuse import inside
from ...language.tle.struct import check_same_type, fields_of, no_assignment, no_such_field
from ..triton_port.codegen import unwrap_constexpr


class Structs:
    """Mixin over Triton's `CodeGenerator`, with our recorder or with Triton's own builder, which knows no lines."""

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

    def _verify_loop_carried_variable(self, name, loop_value, live_value):
        with self._telling_lines():
            check_same_type(name, live_value, loop_value, "the loop")
        super()._verify_loop_carried_variable(name, loop_value, live_value)

    def visit_then_else_blocks(self, node, liveins, then_block, else_block):
        """Triton compares handles, and so drops a branch's assignment that changes nothing but constants of a struct."""
        found = super().visit_then_else_blocks(node, liveins, then_block, else_block)
        with self._telling_lines():
            for definitions in found[:2]:
                for name in definitions.keys() & liveins.keys():
                    check_same_type(name, liveins[name], definitions[name], "one branch")
        return found

    def _telling_lines(self):
        return inside(self.builder) if isinstance(self.builder, Recording) else nullcontext()
