"""Tiles that no pass of Triton moves a conversion of layouts across.

Input: a tile in the layout that its author pinned. Output: the tile behind assembly without instructions:

    %pinned = tt.elementwise_inline_asm "" "=f,=f,0,1" %tile        for a tile of two fp32 elements a thread
"""

from __future__ import annotations

from ...ir import Tensor
from ...ir.layouts import RegisterLayout
from ...ir.linear import linear_of
from .emitter import Emitter

# LLVM's inline assembly constraints of NVPTX: a register of 16, 32 or 64 bits; of AMDGPU: vector or accumulation registers, of
# which gfx12 has the former only. Smaller elements have none; nor have those of 16 bits on AMD, where two share a register.
_CONSTRAINTS = {"ptx": {16: "h", 32: "r", 64: "l"}, "gfx9": {32: "^VA", 64: "^VA"}, "gfx12": {32: "v", 64: "v"}}
_OF_FLOATS = {"r": "f", "l": "d"}


def anchored(emitter: Emitter, mlir_value, type_: Tensor, layout: RegisterLayout):
    """The value behind an empty assembly op, which no pass of Triton moves a conversion across.

    Tiles that cannot go through assembly, such as those of elements of 8 bits, stay where Triton's passes put them.
    """
    constraint, linear = _CONSTRAINTS.get(emitter.target.assembly, {}).get(type_.element.bits), linear_of(layout, type_.shape)
    if constraint is None or linear is None:
        return mlir_value
    if type_.element.is_float:
        constraint = _OF_FLOATS.get(constraint, constraint)
    return behind_assembly(emitter, mlir_value, type_, layout, constraint)


def behind_assembly(emitter: Emitter, mlir_value, type_: Tensor, layout: RegisterLayout, constraint: str):
    """The value behind an assembly op without instructions, of registers that LLVM names by `constraint`, a register an element."""
    linear = linear_of(layout, type_.shape)
    count = 1 << len(linear.registers)
    constraints = ",".join([f"={constraint}"] * count + [str(number) for number in range(count)])
    return emitter.builder.create_threadwise_inline_asm("", constraints, [mlir_value], [emitter.types.tensor(type_, layout)],
                                                        True).get_result(0)
