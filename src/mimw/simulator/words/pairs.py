"""What a pair of CTAs does together: products, commits, and loads that tell the even CTA.

Input: a task at an op of `ir/ops/pairs.py`. Output: operations in flight. For example, on the CTA with rank 0:

    tcgen05_mma_pair %a %b %acc %peer=1      two products in its queue: one into its own accumulator, one into that of CTA 1

Both products read the columns of B in both CTAs, and each the rows of A of the CTA in which it lands. They stand one behind the
other in the queue of the task that issues them, so a commit behind them covers both. The odd CTA must be there when they land.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...compiler.triton_port.interpreter import matmul
from ..costs import abstract as costs
from ..costs.abstract import TMA_LATENCY
from ..machine.operands import enabled, offsets_of, position
from ..machine.table import handles
from ..machine.tasks import Cta, InFlight
from ..memory.mbarriers import namesake
from ..memory.peers import barrier_of, check_there, peer, view_of
from ..memory.values import numpy_type
from ..memory.views import View
from ..memory_model import ASYNC
from .copies import check_block, issue
from .tensor_memory import GROUP, by_its_barriers, check_queued, last, left_of, queued


@handles("tcgen05_mma_pair", switches=True)
def tcgen05_mma_pair(task, op):
    dtype = numpy_type(op.acc.type.element, op.site)

    def product(acc, b, a):
        right = joined(b)
        if op.a.type.space == "tmem" and a.data.ndim == 3:      # rows that lie twice: each copy makes its half of the columns
            half = right.shape[1] // 2
            sides = (slice(None, half), slice(half, None))
            return np.concatenate([matmul(left_of(a.data[:, copy], right), right[:, side], None if acc is None else acc[:, side],
                                          dtype, "tf32") for copy, side in enumerate(sides)], axis=1)
        return matmul(left_of(a.data, right), right, acc, dtype, "tf32")

    multiply(task, op, "async_dot", ("a", "b"), product)


def multiply(task, op, name: str, operands: tuple[str, ...], product: Callable[..., np.ndarray]) -> None:
    """The halves of a product, one in each CTA, in the queue of the task. `product` gives one, when it lands: added to its first
    argument, of both CTAs' B, and of the other `operands` of the CTA in which it lands."""
    if not enabled(task, op, op.predicate):
        return
    odd = peer(task, op, op.peer)
    adds = op.use_acc if isinstance(op.use_acc, bool) else bool(task.read(op.use_acc, op))
    duration, unit = costs.dot(op), task.cta.unit("tensor core")
    start = unit.reserve(task.clock, duration)
    (m, k), n = op.a.type.shape, op.acc.type.shape[1]
    task.machine.record(task.cta, "tensor core", "dot", start, start + duration, f"pair: {2 * m} x {n} x {k}", op)
    halves = {cta: {one: in_cta(cta or task.cta, one, task, op) for one in (*operands, "acc")} for cta in (None, odd)}
    for cta, half in halves.items():
        for one, view in half.items():
            if adds or one != "acc":
                check_queued(task, op, view, cta)
    b = tuple(half.pop("b") for half in halves.values())
    for cta, half in halves.items():
        acc, own = half.pop("acc"), tuple(half.values())
        queued(task, op, name, start + duration + costs.DOT_LATENCY, (*own, *b), acc,
               lambda acc=acc, own=own: product(acc.tile if adds else None, b, *own), by_its_barriers, cta, adds)


def joined(b: tuple) -> np.ndarray:
    """The columns of B in both CTAs."""
    return np.concatenate([half.data for half in b], axis=1)


def in_cta(cta: Cta, operand: str, task, op):
    """The view of an operand in this CTA, or the same place in the other one."""
    view = task.env[getattr(op, operand)]
    return view if cta is task.cta else view_of(cta, view, task, op)


@handles("tcgen05_commit_pair", switches=True)
def tcgen05_commit_pair(task, op):
    """One commit, and an arrival in each CTA."""
    if not enabled(task, op, op.predicate):
        return
    barrier, before = namesake(task, op, op.barrier), last(task)
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
    if enabled(task, op, op.predicate):
        _load(task, op, "TMA load", [(None, task.env[op.buffer])])


@handles("tma_load_pair_multicast", switches=True)
def tma_load_pair_multicast(task, op):
    """One copy lands in each target, in any order."""
    if enabled(task, op, op.predicate):
        ctas = [peer(task, op, rank) for rank in sorted({position(task, op, target) for target in op.targets})]
        _load(task, op, "multicast TMA load", [(cta, view_of(cta, task.env[op.buffer], task, op)) for cta in ctas])


def _load(task, op, kind: str, into: list[tuple[Cta | None, View]]) -> None:
    """A copy into each view, of other CTAs if they are named, that completes its bytes on the barrier of its pair's even CTA."""
    descriptor, offsets, barrier = task.env[op.descriptor], offsets_of(task, op, op.offsets), namesake(task, op, op.barrier)
    check_block(task, op, descriptor, offsets, task.env[op.buffer])
    for cta, view in into:
        rank = task.cta.rank if cta is None else cta.rank
        leader = peer(task, op, rank - rank % 2)
        copy = copied(task, op, kind, cta, view, leader, barrier_of(leader, barrier, task, op),
                      lambda: descriptor.read(task.memory, offsets, task, op).reshape(view.data.shape))
        descriptor.touch(copy, op, task.memory, offsets, write=False)


def copied(task, op, kind: str, cta: Cta | None, view: View, holder: Cta, barrier, tile: Callable[[], np.ndarray]) -> InFlight:
    """Start a copy into a view, of another CTA if one is named, that completes its bytes on a barrier of the CTA `holder`; `tile`
    gives what it brings, when it lands."""
    size = view.data.nbytes

    def land(copy: InFlight) -> None:
        for there in (holder, *([] if cta is None else [cta])):
            check_there(there, task, op, f"the {kind} that it started completes bytes in" if there is holder else
                        f"the {kind} that it started lands in")
        view.arrive(copy, tile())
        barrier.complete(copy, size)

    copy = issue(task, op, kind, "TMA", size, TMA_LATENCY, land, view.name, destination=view,
                 lands_by=barrier.landing("" if holder is task.cta else f" of {holder}"),
                 **({} if cta in (None, task.cta) else {"lands_in": cta}))
    view.touch(copy, op, write=True, proxy=ASYNC)
    barrier.expect(copy)
    view.expect(copy)
    return copy
