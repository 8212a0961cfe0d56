"""Mbarriers: initialisation, expected bytes, waits, arrivals.

Input: an op on a barrier. Output: Triton's mbarrier ops; what these do not offer is PTX of `hopper.mbarrier`:

    barrier_arrive %free, 1        ttng.arrive_barrier %free, 1, %true
"""

from __future__ import annotations

from collections.abc import Iterator

from ....ir import Block, Op
from ..asm import sync
from ..emitter import Emitter, emits
from ..hopper import mbarrier
from ..predicates import predicate


@emits("alloc_barriers")
def alloc_barriers(emitter: Emitter, op: Op):
    builder = emitter.builder
    barriers = emitter.allocate(emitter.types.barrier(op.count))
    for index in range(op.count):
        barrier = builder.create_memdesc_index(emitter.types.barrier(0), barriers, builder.get_int32(index))
        builder.create_mbarrier_init(barrier, op.arrive_count)
    if emitter.program.launch_facts.suspend_ns or any(map(_by_assembly, _outside_tasks(emitter.program.body))):
        sync(emitter)  # one thread makes them; Triton puts a sync before an arrival or a wait of its own, and sees none in assembly
    return barriers


def _by_assembly(op: Op) -> bool:
    """True if the op uses a barrier in a way that Triton does not see."""
    return op.name == "barrier_bytes" or op.name == "barrier_arrive" and op.barrier.type.per_thread


def _outside_tasks(block: Block) -> Iterator[Op]:
    """The ops that the whole CTA runs: all tasks start behind a sync of theirs."""
    for op in block.ops:
        yield op
        if op.name != "warp_specialize":
            for inner in op.blocks:
                yield from _outside_tasks(inner)


@emits("barrier_index")
def barrier_index(emitter: Emitter, op: Op):
    return emitter.builder.create_memdesc_index(emitter.types.barrier(0), emitter.of(op.barrier), emitter.of(op.index))


@emits("barrier_expect")
def barrier_expect(emitter: Emitter, op: Op):
    emitter.builder.create_mbarrier_expect(emitter.of(op.barrier), op.bytes, predicate(emitter, op.predicate))


@emits("barrier_bytes")
def barrier_bytes(emitter: Emitter, op: Op):
    mbarrier.announce(emitter, emitter.of(op.barrier), op.bytes)


@emits("barrier_wait")
def barrier_wait(emitter: Emitter, op: Op):
    if emitter.program.launch_facts.suspend_ns:
        mbarrier.wait(emitter, op, emitter.program.launch_facts.suspend_ns)
    else:
        emitter.builder.create_mbarrier_wait(emitter.of(op.barrier), emitter.of(op.phase), predicate(emitter, op.predicate), [])


@emits("barrier_arrive")
def barrier_arrive(emitter: Emitter, op: Op):
    if op.barrier.type.per_thread:
        mbarrier.arrive_per_thread(emitter, emitter.of(op.barrier), op.count, emitter.of(op.predicate))
    else:
        emitter.builder.create_mbarrier_arrive(emitter.of(op.barrier), op.count, predicate(emitter, op.predicate))
