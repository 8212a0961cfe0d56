"""Asynchronous matrix multiply on Hopper's tensor cores."""

from __future__ import annotations

from ..ir import Op
from .asm import ptx
from .emitter import Emitter, emits
from .pins import anchored
from .tiles import scalar_constant


@emits("async_dot")
def async_dot(emitter: Emitter, op: Op):
    if op.attrs.get("emulated"):
        return _emulated(emitter, op)
    a, b, acc, precision, max_imprecise = op.args
    builder = emitter.builder
    if acc is None:
        zero = scalar_constant(builder, 0, op.result.type.element)
        accumulator, use_acc = builder.create_splat(emitter.mlir_type(op.result), zero), builder.get_int1(False)
    else:
        accumulator, use_acc = emitter.operand(op, acc), builder.get_int1(True)
    return builder.create_warpgroup_mma(emitter.operand(op, a), emitter.values[b], accumulator, use_acc, precision,
                                        max_imprecise, True)


def _emulated(emitter: Emitter, op: Op):
    """Of tiles in registers, by Triton's dot; then an empty group, so that waits count one for each call.

    The tiles are anchored where they are, each element in one thread: as operands of the dot many threads hold each, and Triton
    would split every copy into its tf32 parts.
    """
    *_, precision, max_imprecise = op.args
    builder = emitter.builder

    def operand(value):
        have = emitter.layouts.registers[value]
        kept = anchored(emitter, emitter.values[value], value.type, have)
        return emitter.converted(kept, value.type, have, emitter.layouts.wanted(op, op.operands.index(value)))

    if op.args[2] is None:
        acc = builder.create_splat(emitter.mlir_type(op.result), scalar_constant(builder, 0, op.result.type.element))
    else:
        acc = emitter.operand(op, op.args[2])
    result = builder.create_dot(operand(op.args[0]), operand(op.args[1]), acc, precision, max_imprecise)
    ptx(emitter, "wgmma.commit_group.sync.aligned;", [], [])
    return result


@emits("async_dot_wait")
def async_dot_wait(emitter: Emitter, op: Op):
    pending, value = op.args
    return emitter.builder.create_warpgroup_mma_wait([emitter.operand(op, value)], pending)
