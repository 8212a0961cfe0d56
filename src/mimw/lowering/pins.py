"""Layouts that an author pins, frees, compares or asks to see."""

from __future__ import annotations

import sys

from ..ir import Buffer, Op, Tensor, Type
from ..ir.layouts import RegisterLayout
from ..ir.linear import linear_of
from .cute import register_text, shared_text
from .emitter import Emitter, emits

# LLVM's inline assembly constraints: a register of 16, 32 or 64 bits. Smaller elements have none.
_CONSTRAINTS = {16: "h", 32: "r", 64: "l"}


@emits("require_layout")
def require_layout(emitter: Emitter, op: Op):
    value, _, pin = op.args
    converted = emitter.operand(op, value)
    return anchored(emitter, converted, value.type, emitter.layouts.registers[op.result]) if pin else converted


def anchored(emitter: Emitter, mlir_value, type_: Tensor, layout: RegisterLayout):
    """The value behind an empty assembly op, which no pass of Triton moves a conversion across.

    Elements of 8 bits and less cannot go through assembly, and AMD's registers are not told apart here; those tiles stay
    where Triton's passes put them.
    """
    constraint, linear = _CONSTRAINTS.get(type_.element.bits), linear_of(layout, type_.shape)
    if emitter.target.backend != "cuda" or constraint is None or linear is None:
        return mlir_value
    if type_.element.is_float:
        constraint = {"r": "f", "l": "d"}.get(constraint, constraint)
    count = 1 << len(linear.registers)
    constraints = ",".join([f"={constraint}"] * count + [str(number) for number in range(count)])
    return emitter.builder.create_threadwise_inline_asm("", constraints, [mlir_value], [emitter.types.tensor(type_, layout)],
                                                        True).get_result(0)


@emits("release_layout")
def release_layout(emitter: Emitter, op: Op):
    return emitter.converted(emitter.operand(op, op.args[0]), op.result.type,
                             emitter.layouts.wanted(op, 0), emitter.layouts.registers[op.result])


@emits("assert_same_layout")
def assert_same_layout(emitter: Emitter, op: Op):
    """Decided by the solver."""


@emits("dump_layout")
def dump_layout(emitter: Emitter, op: Op):
    (value, ) = op.args
    print(f"// tlx.dump_layout @ {op.site.file}:{op.site.line}:{op.site.column + 1}\n//   type: "
          f"{emitter.values[value].get_type()}\n//   cute: {_cute(emitter, value, value.type)}", file=sys.stderr)


def _cute(emitter: Emitter, value, type_: Type) -> str:
    if isinstance(type_, Buffer):
        return shared_text(emitter.placed[value].layout, type_.shape, type_.element)
    return register_text(emitter.layouts.registers[value], type_.shape)
