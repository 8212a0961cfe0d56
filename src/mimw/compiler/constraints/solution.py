"""The answer of the layout solver, and all that `lowering` needs to know of it.

Input: what `solve_layouts` found. Output: the layout of each value, and of each operand that an op wants in another one:

    layouts.registers[op.value]                           blocked([1, 8], ...)
    layouts.wanted(op, op.index_of("value"))              mma(...): lowering puts a conversion before the op
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...ir.core import Op, Value
from ...ir.layouts import RegisterLayout, SharedLayout


@dataclass
class Layouts:
    """`registers`: each tile value (results and block arguments). `operands`: (op, index into `op.operands`) -> the layout
    in which that op wants the operand, where it differs from the value's own. `shared`: each `local_alloc` result.
    `descriptors`: each descriptor value -> the shared layout its tiles land in. `reasons`: why, for `mimw explain`.
    `alignments`: bytes of which the start of a `local_alloc` must be a multiple, where a view of it needs that.
    `wavefronts`: the buffers that got a layout with fewer bank conflicts than their default, each with (wavefronts of a warp in it,
    wavefronts in the default).
    """

    registers: dict[Value, RegisterLayout] = field(default_factory=dict)
    operands: dict[tuple[Op, int], RegisterLayout] = field(default_factory=dict)
    shared: dict[Value, SharedLayout] = field(default_factory=dict)
    descriptors: dict[Value, SharedLayout] = field(default_factory=dict)
    reasons: dict[Value, str] = field(default_factory=dict)
    alignments: dict[Value, int] = field(default_factory=dict)
    wavefronts: dict[Value, tuple[int, int]] = field(default_factory=dict)

    def wanted(self, op: Op, index: int) -> RegisterLayout:
        """The layout in which `op` takes its operand `index`."""
        return self.operands.get((op, index), self.registers[op.operands[index]])
