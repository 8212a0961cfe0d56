"""Mbarriers and fences."""

from __future__ import annotations

from ..ir import Op
from .emitter import Emitter, emits


def predicate(emitter: Emitter, value):
    """The MLIR predicate of an optional IR one; none means always."""
    return emitter.builder.get_int1(True) if value is None else emitter.values[value]


@emits("alloc_barriers")
def alloc_barriers(emitter: Emitter, op: Op):
    count, arrive_count = op.args
    builder = emitter.builder
    barriers = builder.create_local_alloc(emitter.types.barrier(count))
    for index in range(count):
        barrier = builder.create_memdesc_index(emitter.types.barrier(0), barriers, builder.get_int32(index))
        builder.create_mbarrier_init(barrier, arrive_count)
    return barriers


@emits("barrier_index")
def barrier_index(emitter: Emitter, op: Op):
    barriers, index = emitter.operands(op)
    return emitter.builder.create_memdesc_index(emitter.types.barrier(0), barriers, index)


@emits("barrier_expect")
def barrier_expect(emitter: Emitter, op: Op):
    barrier, size, when = op.args
    emitter.builder.create_mbarrier_expect(emitter.values[barrier], size, predicate(emitter, when))


@emits("barrier_wait")
def barrier_wait(emitter: Emitter, op: Op):
    barrier, phase, when = op.args
    emitter.builder.create_mbarrier_wait(emitter.values[barrier], emitter.values[phase], predicate(emitter, when), [])


@emits("barrier_arrive")
def barrier_arrive(emitter: Emitter, op: Op):
    barrier, count, when = op.args
    emitter.builder.create_mbarrier_arrive(emitter.values[barrier], count, predicate(emitter, when))


@emits("fence")
def fence(emitter: Emitter, op: Op):
    (scope, ) = op.args
    if scope == "async_shared":
        emitter.builder.create_fence_async_shared(False)
        return
    # PTX ISA, membar / fence: acquire-release at the scope, by every thread.
    emitter.builder.create_threadwise_inline_asm(f"fence.acq_rel.{scope};", "", [], [], False)
