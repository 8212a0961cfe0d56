"""Conversions that random bits decide.

Input: `stoch_round`. Output: one instruction for as many neighbours as it takes, with the random word of the first of them:

    stoch_round %x fp8e4nv[128, 64] %random        cvt.rs.satfinite.e4m3x4.f32 $0, {$4, $3, $2, $1}, $5;
"""

from __future__ import annotations

from ....ir import Op, Tensor
from ....ir.ops.rounding import SHARING
from ....ir.types import element_of
from ..anchor import anchored
from ..emitter import Emitter, emits

_FORMATS = {"fp8e4nv": "e4m3x4", "fp8e5": "e5m2x4", "fp16": "f16x2", "bf16": "bf16x2"}


@emits("stoch_round")
def stoch_round(emitter: Emitter, op: Op):
    """PTX ISA, cvt: the last operand becomes the low bits of the result. The elements of one instruction follow from the layout
    of the operands, so these are anchored: no pass of Triton may give the conversion another one."""
    made = element_of(op.result.type)
    if not isinstance(op.result.type, Tensor):
        value, random, each = emitter.of(op.value), emitter.of(op.random), 1
        type_ = emitter.types.element(made)
    else:
        each = min(SHARING[made.bits], op.result.type.shape[-1])
        layout = emitter.layouts.registers[op.result]
        value, random = (anchored(emitter, emitter.operand(op, name), getattr(op, name).type, layout)
                         for name in ("value", "random"))
        type_ = emitter.mlir_type(op.result)
    constraints = ",".join(["=r", *["f"] * each, *["r"] * each])
    return emitter.builder.create_inline_asm(_assembly(made, each), constraints, [value, random], [type_], True, each).get_result(0)


def _assembly(made, each: int) -> str:
    """`$0` is the result, then come `each` elements and their random words. An instruction that is not filled rounds zeros, too."""
    lanes = [f"${lane}" if lane <= each else "zero" for lane in range(SHARING[made.bits], 0, -1)]
    listed = ", ".join(lanes)
    operands = f"{{{listed}}}" if made.bits == 8 else listed
    convert = f"cvt.rs.satfinite.{_FORMATS[made.name]}.f32 $0, {operands}, ${each + 1};"
    return convert if "zero" not in lanes else f"{{\n.reg .f32 zero;\nmov.f32 zero, 0f00000000;\n{convert}\n}}"
