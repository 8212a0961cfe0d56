"""Asynchronous matrix multiply on Hopper's tensor cores.

Input: an `async_dot` or the wait for it. Output: Triton's wgmma ops, or its `tt.dot` for a precision that
wgmma does not have:

    %acc2 = async_dot %a %b %acc        ttng.warp_group_dot %a, %b, %acc {isAsync}
"""

from __future__ import annotations

from ....ir import Op
from ..anchor import anchored
from ..asm import ptx
from ..constants import scalar_constant
from ..emitter import Emitter, emits
from . import any_columns


@emits("async_dot")
def async_dot(emitter: Emitter, op: Op):
    if op.attrs.get("emulated"):
        return _emulated(emitter, op)
    if op.attrs.get("exact"):
        return any_columns.start(emitter, op)
    builder = emitter.builder
    if op.acc is None:
        accumulator, use_acc = _zeros(emitter, op), builder.get_int1(False)
    else:
        accumulator, use_acc = emitter.operand(op, "acc"), builder.get_int1(not op.attrs.get("fresh"))
    return builder.create_warpgroup_mma(emitter.operand(op, "a"), emitter.of(op.b), accumulator, use_acc, op.precision,
                                        op.max_imprecise, True)


def _zeros(emitter: Emitter, op: Op):
    zero = scalar_constant(emitter.builder, 0, op.result.type.element)
    return emitter.builder.create_splat(emitter.mlir_type(op.result), zero)


def _emulated(emitter: Emitter, op: Op):
    """Multiply tiles in registers by Triton's dot; then commit an empty group, so that waits count one for each call.

    The tiles are anchored where they are, each element in one thread: as operands of the dot many threads hold each, and Triton
    would split every copy into its tf32 parts.
    """
    def operand(name: str):
        value = getattr(op, name)
        have = emitter.layouts.registers[value]
        kept = anchored(emitter, emitter.of(value), value.type, have)
        return emitter.converted(kept, value.type, have, emitter.wanted(op, name))

    acc = _zeros(emitter, op) if op.acc is None else emitter.operand(op, "acc")
    result = emitter.builder.create_dot(operand("a"), operand("b"), acc, op.precision, op.max_imprecise)
    ptx(emitter, "wgmma.commit_group.sync.aligned;", [], [])
    return result


@emits("async_dot_wait")
def async_dot_wait(emitter: Emitter, op: Op):
    if op.attrs.get("exact"):
        return any_columns.wait(emitter, op)
    return emitter.builder.create_warpgroup_mma_wait([emitter.operand(op, "value")], op.pending)
