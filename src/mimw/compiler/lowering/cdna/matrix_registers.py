"""Kinds of registers on AMD's chips, and what the compiler may schedule across.

Input: an op on registers of matrix cores. Output: empty assembly whose result is its operand, in registers of one kind (LLVM
AMDGPU, "Inline assembly constraints": `a` accumulation registers, `v` vector registers, `VA` either); an attribute of the product:

    keep_in_registers %tile "agpr"       "" "=a,0" %tile
    dot %a %b %acc registers="agpr"      tt.dot {amdg.cd_regclass = "a"}
    dot of fp8, K of 64 and 128          tt.dot_scaled without scales: v_mfma_f32_16x16x128_f8f6f4, twice as fast
"""

from __future__ import annotations

from ....ir import Op
from ....ir.layouts import AmdMfma
from ...triton_port.builder import mlir
from ..asm import registers_of
from ..emitter import Emitter, emits
from ..words.tiles import replay

_CLASSES = {"agpr": "a", "vgpr": "v"}
_WORD = 32      # bits of a register
_FORMATS = {"fp8e4nv": mlir.ScaleDotElemTypeTY.E4M3, "fp8e5": mlir.ScaleDotElemTypeTY.E5M2}
_LONG = 64      # K of fp8 from which on the instruction is one that also takes scales


@emits("keep_in_registers", assembly="gfx9")
def keep(emitter: Emitter, op: Op):
    return _tied(emitter, op, _CLASSES[op.kind], op.group, pure=not op.attrs.get("fixed"))


@emits("keep_in_registers", assembly="gfx12")
def keep_gfx12(emitter: Emitter, op: Op):
    """gfx12 has vector registers only, up to 1024 of them."""
    return _tied(emitter, op, "v", op.group, pure=not op.attrs.get("fixed"))


@emits("commit_products", assembly="gfx9")
def commit(emitter: Emitter, op: Op):
    return _committed(emitter, op, "^VA")


@emits("commit_products", assembly="gfx12")
def commit_gfx12(emitter: Emitter, op: Op):
    return _committed(emitter, op, "v")


@emits("dot", assembly="gfx9")
def dot(emitter: Emitter, op: Op):
    results = [_long_fp8(emitter, op)] if _is_long_fp8(emitter, op) else replay(emitter, op)
    kind = op.attrs.get("registers")
    if kind is not None:
        (product, ) = results
        product.set_attr("amdg.cd_regclass", emitter.builder.get_string_attr(_CLASSES[kind]))
    return results


def _is_long_fp8(emitter: Emitter, op: Op) -> bool:
    layout = emitter.layouts.registers[op.result]
    return isinstance(layout, AmdMfma) and op.a.type.element.name in _FORMATS and layout.instruction[2] >= _LONG


def _long_fp8(emitter: Emitter, op: Op):
    """A product of fp8 without scales by the instructions of gfx950 that take some: Triton's lowering of tt.dot knows others."""
    (a, of_a), (b, of_b) = ((emitter.operand(op, name), _FORMATS[getattr(op, name).type.element.name]) for name in ("a", "b"))
    return emitter.builder.create_dot_scaled(a, None, of_a, b, None, of_b, False, True, True, emitter.operand(op, "acc"))


def _committed(emitter: Emitter, op: Op, constraint: str):
    if op.boundary:
        emitter.builder.create_amd_sched_barrier(0)
    return _tied(emitter, op, constraint, 1, pure=False)


def _tied(emitter: Emitter, op: Op, constraint: str, group: int, pure: bool):
    """The tile behind empty assembly that takes `group` registers at a time, or as many as a lane has. What is no part of one
    register, or more than one, stays as it is."""
    value, bits = emitter.operand(op, "value"), op.value.type.element.bits
    pack = min(group * _WORD // bits, registers_of(emitter, value))
    if bits > _WORD or pack * bits < _WORD // 2:
        return value
    count = max(1, pack * bits // _WORD)
    constraints = ",".join([f"={constraint}"] * count + [str(number) for number in range(count)])
    return emitter.builder.create_inline_asm("", constraints, [value], [value.get_type()], pure, pack).get_result(0)
