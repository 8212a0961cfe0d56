"""Asynchronous matrix multiply on Hopper's tensor cores."""

from __future__ import annotations

from ..ir import Op
from .emitter import Emitter, emits
from .tiles import scalar_constant


@emits("async_dot")
def async_dot(emitter: Emitter, op: Op):
    a, b, acc, precision, max_imprecise = op.args
    builder = emitter.builder
    if acc is None:
        zero = scalar_constant(builder, 0, op.result.type.element)
        accumulator, use_acc = builder.create_splat(emitter.mlir_type(op.result), zero), builder.get_int1(False)
    else:
        accumulator, use_acc = emitter.operand(op, acc), builder.get_int1(True)
    return builder.create_warpgroup_mma(emitter.operand(op, a), emitter.values[b], accumulator, use_acc, precision,
                                        max_imprecise, True)


@emits("async_dot_wait")
def async_dot_wait(emitter: Emitter, op: Op):
    pending, value = op.args
    return emitter.builder.create_warpgroup_mma_wait([emitter.operand(op, value)], pending)
