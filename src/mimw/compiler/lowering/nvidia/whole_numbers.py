"""Floats to whole numbers, behind an fp32 that LLVM does not see through.

Input: `fp_to_si` or `fp_to_ui` of fp32; floats of 16 bits were extended to it. Output: the conversion, of a copy by assembly:

    fp_ext %h f32[64];  fp_to_si %x i32[64]        cvt.f32.f16 %x, %h;  mov.b32 %y, %x;  cvt.rzi.s32.f32 %r, %y;

The copy costs nothing: ptxas drops it. Without it LLVM makes one conversion of the two, `cvt.rzi.s32.f16`, and that one ptxas gets
wrong (12.9 and 13.4, sm_90a and sm_100a) where its operand comes out of another conversion between formats of 16 bits: of
`cvt.rn.f16.bf16 %h, %b; cvt.rzi.s32.f16 %r, %h;` it leaves F2I.F16 of the bf16's own bits. fp16 to bf16 to int64 gave 2^37 for
48.0 on an H100 (tests/lowering/test_whole_numbers.py).
"""

from __future__ import annotations

from ....ir import Op
from ....ir.types import element_of
from ...triton_port.builder import unseen_f32
from ..emitter import Emitter, emits


@emits("fp_to_si", "fp_to_ui", assembly="ptx")
def to_whole_numbers(emitter: Emitter, op: Op):
    """PTX ISA, cvt."""
    value = emitter.operand(op, "value")
    if str(element_of(op.value.type)) == "fp32":
        value = unseen_f32(emitter.builder, value)
    return getattr(emitter.builder, f"create_{op.name}")(value, emitter.mlir_type(op.result))
