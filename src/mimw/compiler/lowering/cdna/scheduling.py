"""Hints of which AMD's compiler is told by assembly.

Input: a hint. Output: assembly in each thread:

    uniform %n             v_readfirstlane_b32 $0, $1
    distinct_range 0 64 'store'        a range, and assembly without an instruction, which LLVM merges with no other text
"""

from __future__ import annotations

from ....ir import Op
from ....ir.types import Pointer
from ...triton_port.builder import mlir
from ..emitter import Emitter, emits
from ..words.scheduling import distinct

# A VALU result is not to be read by the next instruction's scalar unit at once: LLVM's hazard recogniser does not look inside.
_FIRST = "s_nop 1\nv_readfirstlane_b32 $0, $1"


@emits("uniform", assembly="gfx9")
@emits("uniform", assembly="gfx12")
def uniform(emitter: Emitter, op: Op):
    """The number's bits as i32, twice for 64 bits, and back."""
    builder, type_ = emitter.builder, op.value.type
    value, wide = emitter.of(op.value), isinstance(type_, Pointer) or type_.bits == 64
    made = builder.get_int64_ty() if wide else builder.get_int16_ty() if type_.bits == 16 else builder.get_int32_ty()
    pointer = isinstance(type_, Pointer)
    bits = value
    if pointer or type_.is_float:
        bits = builder.create_ptr_to_int(value, made) if pointer else builder.create_bitcast(value, made)
    found = _wide(builder, bits) if wide else _narrow(builder, bits, type_.bits)
    if pointer:
        return builder.create_int_to_ptr(found, emitter.types.element(type_))
    return builder.create_bitcast(found, emitter.types.element(type_)) if type_.is_float else found


def _first(builder, bits):
    """The first lane's 32 bits."""
    return builder.create_threadwise_inline_asm(_FIRST, "=s,v", [bits], [builder.get_int32_ty()], True).get_result(0)


def _narrow(builder, bits, width: int):
    if width == 32:
        return _first(builder, bits)
    return builder.create_int_cast(_first(builder, builder.create_int_cast(bits, builder.get_int32_ty(), False)),
                                   builder.get_int16_ty(), False)


def _wide(builder, bits):
    i32, i64, shift = builder.get_int32_ty(), builder.get_int64_ty(), builder.get_int64(32)
    low = _first(builder, builder.create_int_cast(bits, i32, False))
    high = _first(builder, builder.create_int_cast(builder.create_lshr(bits, shift), i32, False))
    return builder.create_or(builder.create_shl(builder.create_int_cast(high, i64, False), shift),
                             builder.create_int_cast(low, i64, False))


@emits("distinct_range", assembly="gfx9")
@emits("distinct_range", assembly="gfx12")
def distinct_range(emitter: Emitter, op: Op):
    """The range behind assembly that is one comment; its elements still follow each other, which Triton is told again."""
    builder, made = emitter.builder, distinct(emitter, op)
    found = builder.create_inline_asm(f"; {_plain(op.identity)}", "=v,0", [made], [made.get_type()], True, 1).get_result(0)
    for name, number in (("tt.contiguity", op.end - op.start), ("tt.divisibility", op.start & -op.start or 1 << 30)):
        found.set_attr(name, mlir.make_attr([number], found.get_context()))
    return found


def _plain(identity: str) -> str:
    """An identity as assembly takes it in a comment."""
    return "".join(one if one.isalnum() or one in " _-." else f"x{ord(one):x}" for one in identity)
