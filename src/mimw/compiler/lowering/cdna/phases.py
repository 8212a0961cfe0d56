"""Barriers with phases: two integers in LDS on gfx9, the hardware's barriers in LDS on gfx1250.

Input: an op on a barrier. Output: calls of our functions, behind a sync of the task for what counts once a task; on gfx1250
Triton's ops, where there are some:

    barrier_arrive %free, 1        s_waitcnt vmcnt(0) lgkmcnt(0); a sync of the task; ds_sub_rtn_u32 by one lane; the last arrival
                                   sets the count again and changes the parity
    barrier_wait %full, 0          ds_read_b32, until the parity is another one, with s_sleep between the looks

An arrival releases what all waves of the task did: each waits for its own accesses, which include copies into LDS, then they meet,
then one lane arrives. Triton's own arrival counts every lane, so that tasks of several sizes could not meet at one barrier, and is
not taken. Nothing has to be invalidated behind a wait: the waves of a work-group share one vector cache, and LDS has none (LLVM's
AMDGPU guide, memory models of gfx942 and gfx12).
"""

from __future__ import annotations

from ....ir import I32, Op, Tensor
from ....ir.layouts import Blocked
from ..asm import sync, thread_in_task, zero_or_one
from ..emitter import Emitter, emits
from ..whole_task import in_all_threads
from .functions import THREADS, all_settled, call, settled


@emits("alloc_barriers", assembly="gfx9")
def alloc_barriers_gfx9(emitter: Emitter, op: Op):
    return _made(emitter, op, lambda barrier: call(emitter, "init", [barrier, emitter.builder.get_int32(op.arrive_count)]))


@emits("alloc_barriers", assembly="gfx12")
def alloc_barriers_gfx12(emitter: Emitter, op: Op):
    return _made(emitter, op, lambda barrier: emitter.builder.create_lds_barrier_init(barrier, op.arrive_count))


def _made(emitter: Emitter, op: Op, init):
    """The array of barriers. In a loop or a branch some wave may still look at what they were before."""
    builder, barriers = emitter.builder, emitter.allocate(emitter.types.barrier(op.count))
    if emitter.level > emitter.frames[-1].level:
        sync(emitter)
    for index in range(op.count):
        init(builder.create_memdesc_index(emitter.types.barrier(0), barriers, builder.get_int32(index)))
    sync(emitter)
    return barriers


@emits("barrier_wait", assembly="gfx9")
def barrier_wait_gfx9(emitter: Emitter, op: Op):
    _if(emitter, op, lambda: call(emitter, "wait", [emitter.of(op.barrier), emitter.of(op.phase)]))


@emits("barrier_wait", assembly="gfx12")
def barrier_wait_gfx12(emitter: Emitter, op: Op):
    """Triton's wait is no barrier to LLVM, which would take two reads of a buffer for one."""
    builder = emitter.builder
    _if(emitter, op, lambda: builder.create_lds_barrier_wait(emitter.of(op.barrier), emitter.of(op.phase)))
    builder.create_threadwise_inline_asm("", "~{memory}", [], [], False)


@emits("barrier_test", assembly="gfx9")
@emits("barrier_test", assembly="gfx12")
def barrier_test(emitter: Emitter, op: Op):
    """An i1: whether all waves of the task see the phase complete. One that looks later may see more."""
    layout = Blocked((1, ), (emitter.target.warp_size, ), (emitter.num_warps, ), (0, ))
    each = emitter.types.tensor(Tensor(I32, (emitter.threads, )), layout)
    seen = call(emitter, "test", [emitter.of(op.barrier), emitter.of(op.phase)], each)
    return in_all_threads(emitter, seen)


@emits("barrier_arrive", assembly="gfx9")
@emits("barrier_arrive", assembly="gfx12")
def barrier_arrive(emitter: Emitter, op: Op):
    barrier, count = emitter.of(op.barrier), op.count
    if op.barrier.type.per_thread:
        settled(emitter)
        _if(emitter, op, lambda: call(emitter, "each", [barrier, emitter.builder.get_int32(THREADS * count)]))
        return
    all_settled(emitter, in_flight=op.attrs.get("in_flight", False))
    builder, mine = emitter.builder, thread_in_task(emitter)
    first = builder.create_icmpEQ(mine, builder.create_splat(mine.get_type(), builder.get_int32(0)))
    here = builder.create_int_cast(first, mine.get_type(), False)
    if op.predicate is not None:
        here = builder.create_and(here, builder.create_splat(mine.get_type(), zero_or_one(emitter, emitter.of(op.predicate))))
    call(emitter, "arrive", [barrier, builder.get_int32(count), here])


def _if(emitter: Emitter, op: Op, emit) -> None:
    """Emit under the op's predicate, if it has one."""
    builder = emitter.builder
    if op.predicate is None:
        return emit()
    branch, point = builder.create_if_op([], emitter.of(op.predicate), False), builder.get_insertion_point()
    builder.set_insertion_point_to_start(branch.get_then_block())
    emit()
    builder.restore_insertion_point(point)
