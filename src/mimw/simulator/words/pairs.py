"""What a pair of CTAs does together: products, commits, and loads that tell the even CTA.

Input: a task at an op of `ir/ops/pairs.py`. Output: operations in flight. For example, on the CTA with rank 0:

    tcgen05_mma_pair %a %b %acc %peer=1      two products in its queue: one into its own accumulator, one into that of CTA 1

Both products read the columns of B in both CTAs, and each the rows of A of the CTA in which it lands. They stand one behind the
other in the queue of the task that issues them, so a commit behind them covers both. The odd CTA must be there when they land.
"""

from __future__ import annotations

import numpy as np

from ...costs import abstract as costs
from ...costs.abstract import TMA_LATENCY
from ...memory_model import ASYNC
from ...triton_port.interpreter import matmul
from ..machine.operands import enabled, offsets_of, position
from ..machine.table import handles
from ..machine.tasks import Cta, InFlight
from ..memory.mbarriers import single
from ..memory.peers import barrier_of, check_there, peer, view_of
from ..memory.values import numpy_type
from ..memory.views import COMING
from .copies import check_shape, issue
from .tensor_memory import GROUP, check_queued, last


@handles("tcgen05_mma_pair", switches=True)
def tcgen05_mma_pair(task, op):
    if not enabled(task, op, op.predicate):
        return
    odd = peer(task, op, op.peer)
    here = tuple(task.env[value] for value in (op.a, op.b, op.acc))
    there = tuple(view_of(odd, view, task, op) for view in here)
    adds = op.use_acc if isinstance(op.use_acc, bool) else bool(task.read(op.use_acc, op))
    duration, unit = costs.dot(op), task.cta.unit("tensor core")
    start = unit.reserve(task.clock, duration)
    (m, k), n = op.a.type.shape, op.acc.type.shape[1]
    task.machine.record(task.cta, "tensor core", "dot", start, start + duration, f"pair: {2 * m} x {n} x {k}", op)
    for view in (*here[:2], *there[:2]):
        view.check(task, op)
    for cta, (a, _, acc) in ((task.cta, here), (odd, there)):
        _product(task, op, cta, a, (here[1], there[1]), acc, adds, start + duration)


def _product(task, op, cta: Cta, a, b: tuple, acc, adds: bool, end: float) -> None:
    """The half of the product that lands in `cta`."""
    dtype, remote = numpy_type(op.acc.type.element, op.site), cta is not task.cta

    def land(dot: InFlight) -> None:
        if remote:
            check_there(cta, task, op, "the async_dot of the pair that it started lands in")
        columns = np.concatenate([half.data for half in b], axis=1)
        acc.arrive(dot, matmul(a.data, columns, acc.data if adds else None, dtype, "tf32"))
        if any(np.shares_memory(other.destination.marks, acc.marks) for other in acc.allocation.coming):
            acc.marks[...] = COMING     # more work for it is under way

    if adds:
        check_queued(task, op, acc)
    dot = InFlight("async_dot", task, op, end + costs.DOT_LATENCY, land, destination=acc, follows=last(task), group=GROUP,
                   lands_in=cta if remote else None,
                   lands_by=lambda: "the barrier of its mBarriers, or of a tcgen05_commit behind it")
    task.tensor_work.append(dot)
    task.machine.start(dot)
    for operand in (a, *b):
        operand.touch(dot, op, write=False, proxy=ASYNC)
    acc.touch(dot, op, write=True, proxy=ASYNC)
    acc.expect(dot)


@handles("tcgen05_commit_pair", switches=True)
def tcgen05_commit_pair(task, op):
    """One commit, and an arrival in each CTA."""
    if not enabled(task, op, op.predicate):
        return
    barrier, before = single(task, op, op.barrier), last(task)
    ctas = [peer(task, op, rank) for rank in sorted({position(task, op, target) for target in op.targets})]
    there = [barrier_of(cta, barrier, task, op) for cta in ctas]

    def land(commit: InFlight) -> None:
        for cta, one in zip(ctas, there):
            if cta is not task.cta:
                check_there(cta, task, op, "the tcgen05_commit that it issued arrives in")
            one.arrive_of(commit)

    commit = InFlight("tcgen05_commit", task, op, max(task.clock, before.end if before else 0.0), land, follows=before, group=GROUP)
    task.machine.order.commit(task, GROUP)
    task.tensor_work.append(commit)
    task.machine.start(commit)
    for one in there:
        one.expect(commit)


@handles("tma_load_pair", switches=True)
def tma_load_pair(task, op):
    if not enabled(task, op, op.predicate):
        return
    descriptor, offsets, view = task.env[op.descriptor], offsets_of(task, op, op.offsets), task.env[op.buffer]
    leader = peer(task, op, op.leader)
    barrier = barrier_of(leader, single(task, op, op.barrier), task, op)
    check_shape(task, op, descriptor, view)
    size = view.data.nbytes

    def land(copy: InFlight) -> None:
        check_there(leader, task, op, "the TMA load that it started completes bytes in")
        view.arrive(copy, descriptor.read(task.machine.memory, offsets, task, op).reshape(view.data.shape))
        barrier.complete(copy, size)

    copy = issue(task, op, "TMA load", "TMA", size, TMA_LATENCY, land, view.name, destination=view,
                 lands_by=barrier.landing("" if leader is task.cta else f" of CTA {leader.index}"))
    descriptor.touch(copy, op, task.machine.memory, offsets, write=False)
    view.touch(copy, op, write=True, proxy=ASYNC)
    barrier.expect(copy)
    view.expect(copy)
