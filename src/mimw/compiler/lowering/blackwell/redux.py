"""Reductions of floats over the lanes of a warp.

Input: `warp_redux`. Output: one instruction for each register of a thread:

    warp_redux %x "abs_max"        redux.sync.max.abs.f32 $0, $2, 0xffffffff;  redux.sync.max.abs.f32 $1, $3, 0xffffffff;
"""

from __future__ import annotations

from ....ir import Op, Tensor
from ..asm import ptx, registers_of
from ..emitter import Emitter, emits

_INSTRUCTIONS = {"max": "max", "min": "min", "abs_max": "max.abs", "abs_min": "min.abs"}
_ALL_LANES = "0xffffffff"


@emits("warp_redux")
def warp_redux(emitter: Emitter, op: Op):
    """PTX ISA, redux.sync: NaN is skipped without .NaN, and a result is NaN only if all operands are."""
    if isinstance(op.value.type, Tensor):
        value = emitter.operand(op, "value")
        held, type_ = registers_of(emitter, value), emitter.types.tensor(op.value.type, emitter.wanted(op, "value"))
    else:
        value, held, type_ = emitter.of(op.value), 1, emitter.types.element(op.value.type)
    instruction = f"redux.sync.{_INSTRUCTIONS[op.op]}.f32"
    lines = [f"{instruction} ${index}, ${held + index}, {_ALL_LANES};" for index in range(held)]
    return ptx(emitter, "\n".join(lines), ["=&f"] * held + ["f"] * held, [value], type_)
