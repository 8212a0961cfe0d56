"""What an mbarrier does to the order: an arrival releases, and a wait acquires what the completed phase carries.

Input: what happens at barriers: `made`, `used`, `arrives`, `land`, `looked`, `phase`. Output: clocks that know more, or one of
two errors about barriers themselves. For example:

    order.arrives(load, full)                    the current phase of `full` carries what the task `load` knows
    order.phase(full, load, op)                  the phase is complete
    order.looked(mma, wait, full, parity=0)      the task `mma` has waited for the phase, and knows what it carries

`PhaseMissed`: the next phase may complete before a task that waits for this one has looked, so the task finds the parity come
round. `BarrierNotReady`: a barrier is used, and nothing orders its initialisation before the use.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

from ...compiler.analysis.launch_control import miscounted
from ...errors import BarrierNotReady, PhaseMissed, fail
from ...ir import Op
from .barrier_lives import LivesOrder, Use, is_over_at_once
from .clocks import ASPECTS, Clock, Epoch, join


@dataclass(eq=False, slots=True)
class Known:
    """Facts about one barrier; the barrier has them, so they live as long.

    made     the epoch of its initialisation
    key      what it is called in every run
    fenced   the epoch of the fence that made its initialisation one for the cluster
    lane     the strand on which its copies land, 0 if none has; their ticks begin behind `base`, and `landed` is the last
    message  what has arrived; `phases` has by parity what the last completed phase carried
    looks    the waits that have passed in its current phase
    causes   what comes before the copies that have landed in the current phase
    uses     of a barrier that is invalidated some time: the latest of each strand since its initialisation; None of others
    ended    who has invalidated it last, by which op, and when
    """

    made: Epoch
    key: tuple
    fenced: Epoch | None = None
    lane: int = 0
    base: int = 0
    landed: int = 0
    message: Clock = field(default_factory=dict)
    phases: list[Clock] = field(default_factory=lambda: [{}, {}])
    looks: list[tuple] = field(default_factory=list)
    causes: Clock = field(default_factory=dict)
    uses: dict[int, Use] | None = None
    ended: Use | None = None


class BarrierOrder(LivesOrder):
    """The part of `Order` about mbarriers."""

    def __init__(self, machine):
        self.machine, self.guide = machine, machine.guide
        self._barriers: dict[Any, WeakSet] = {}         # CTA -> those that it has made and somebody has still
        rows = {op.row.name: op.row for op in machine.program.walk()}.values()
        self.commits_there = any(row.barrier == "commit" or row.barrier == "arrive" and row.copy for row in rows)

    def made(self, task, barrier, before=None) -> None:
        """`task` has initialised a barrier. The op has done so `before`: if the task knows all copies to be over that landed there,
        those of this barrier go on with its lane, since who uses this barrier knows what the task knows."""
        old = before.known if before is not None else None
        known = barrier.known = Known(task.strand.epoch, (task.cta.key, barrier.root, barrier.index))
        self._barriers.setdefault(task.cta, WeakSet()).add(barrier)
        if old is not None and old.lane and not before.coming and task.strand.clock.get(old.lane, 0) >= old.landed:
            known.lane, known.base, known.landed, old.lane = old.lane, old.landed, old.landed, 0

    def fence_init(self, task) -> None:
        """fence_mbarrier_init: the barriers of its CTA that `task` knows to be made are so for the cluster, for who comes later."""
        for barrier in self._barriers.get(task.cta, ()):
            if barrier.known.fenced is None and barrier.known.made.before(task.strand.clock):
                barrier.known.fenced = task.strand.epoch
        self._tick(task.strand)

    def used(self, task, op: Op, barrier, remote: bool = False) -> None:
        """`task` is about to use it; `remote`: it is another CTA's. Barriers that a kernel makes outside of loops and tasks are
        ready in the whole cluster: the compiler fences, and lets the cluster meet, after them."""
        made = barrier.known.made
        if task.strand.clock.get(made.strand, 0) < made.tick:
            raise self._not_ready(task, op, barrier, "whose initialisation at {} nothing orders before it")
        if remote and not (barrier.known.fenced and barrier.known.fenced.before(task.strand.clock)):
            raise self._not_ready(task, op, barrier, "whose initialisation at {} no fence_mbarrier_init_cluster has made one for "
                                  "the cluster")
        if barrier.known.uses is not None and is_over_at_once(op):
            self._use(barrier, task, op, task.strand.epoch)

    def _not_ready(self, task, op: Op, barrier, why: str) -> BarrierNotReady:
        cta = barrier.known.key[0]
        whose = "" if cta == task.cta.key else f" of CTA {cta[:3]}"
        mend = "allocate barriers before async_tasks and outside of loops, or order their use by one that is ready" \
            if barrier.life is None else "initialise it before the tasks start, or order its use by a barrier that is ready"
        return fail(BarrierNotReady, task, op, f"{op.name} uses {barrier.name}{whose}, {why.format(barrier.made)}", barrier.made,
                    hint=f"{mend}; across CTAs call fence_mbarrier_init_cluster after the allocation, then cluster_barrier")

    def land(self, operation, barrier) -> None:
        """A copy has landed on the current phase of a barrier."""
        known, strand = barrier.known, operation.strand
        if not known.lane:
            known.lane, known.base = self._number(), 0
        self._touched(barrier, "arrive")
        known.landed = known.base + barrier.phase + 1
        strand.epoch.strand, strand.epoch.tick = known.lane, known.landed
        self._use(barrier, operation.task, operation.op, strand.epoch)
        join(known.causes, strand.clock)        # the issue comes before the phase; for the waits before it that is order enough
        message = known.message
        message[known.lane] = known.landed
        looks = strand.groups.get("waits")
        if looks is not None:       # who has the bytes knows which waits their copy came after, though no accesses
            message[looks.strand] = max(message.get(looks.strand, 0), strand.clock.get(looks.strand, 0))
        if operation.op.row.releases:
            # st.async is issued by every thread of the task, each behind its own earlier accesses: who has all the bytes
            # knows that these are over. A copy is issued by one thread and says nothing of the others.
            join(message, strand.clock)

    def told(self, task, operation) -> None:
        """`task` has waited for a copy of its own that landed on a barrier, by counting its copies."""
        epoch = operation.strand.epoch
        task.strand.clock[epoch.strand] = max(task.strand.clock.get(epoch.strand, 0), epoch.tick)

    def commits(self, operation, barrier) -> None:
        """A `tcgen05_commit` arrives: the phase carries that the work of its queue before it is over, and what its task had been
        told by others when that was issued, but nothing that the task itself did."""
        self._touched(barrier, "arrive")
        strand = operation.strand
        self._use(barrier, operation.task, operation.op, strand.epoch)
        join(barrier.known.causes, strand.clock)
        own = range(strand.issued.strand, strand.issued.strand + ASPECTS)
        join(barrier.known.message, {key: tick if key not in own else min(tick, strand.base)
                                     for key, tick in strand.clock.items() if key not in own or strand.base})

    def looked(self, task, op: Op, barrier, parity: int) -> None:
        """A wait of `task` for `parity` has passed."""
        self._touched(barrier, "wait")
        if barrier.phase:
            join(task.strand.clock, barrier.known.phases[parity])
        barrier.known.looks.append((task, op, self._look(task)))
        self._tick(task.strand)

    def _look(self, task) -> Epoch:
        """The epoch at which a wait passed. Who hears from a `tcgen05_commit`, or from a copy that arrives by itself, knows the
        waits of its task before it, and not the task's accesses: so where there are such, waits are on a strand of their own."""
        if not self.commits_there:
            return task.strand.epoch
        looks = self._group(task, "waits")
        looks.closed += 1
        task.strand.clock[looks.strand] = looks.closed
        return Epoch(looks.strand, looks.closed)

    def phase(self, barrier, task, op: Op) -> None:
        """The current phase of `barrier` completes with `op` of `task`."""
        known = barrier.known
        for waiter, wait, epoch in known.looks:
            if not (epoch.before(known.causes) or epoch.before(known.message)):
                raise self._missed(barrier, waiter, wait, task, op)
        known.looks, known.causes = [], {}
        known.phases[barrier.phase & 1] = dict(known.message)

    def arrives(self, task, barrier) -> None:
        """`task` arrives in the current phase of a barrier, and so releases."""
        self._touched(barrier, "arrive")
        join(barrier.known.message, task.strand.clock)
        self._tick(task.strand)

    def forget_barriers(self, cta) -> None:
        """The cluster of `cta` has left, and its barriers with it: no cycles of references through who has waited there."""
        for barrier in self._barriers.pop(cta, ()):
            barrier.known.looks.clear()
            barrier.known.uses = barrier.known.ended = None

    def forget_barriers_among(self, cluster) -> None:
        """`cluster` has left, and the barriers among its CTAs with it."""
        for barrier in cluster.barriers():
            for phase in (barrier.phase, barrier.phase - 1):
                self.forget((barrier, phase))

    def _touched(self, barrier, mode: str) -> None:
        if self.guide is not None:
            self.guide.touched(barrier.known.key, mode, barrier.phase)

    def _missed(self, barrier, waiter, wait: Op, task, op: Op) -> PhaseMissed:
        before, now = barrier.phase - 1, barrier.phase
        if barrier.pipe is not None:
            bring, look = barrier.pipe.verb(op), barrier.pipe.verb(wait)
            calls = [task.last_call(lambda call: call.op is op), waiter.last_call(lambda call: call.op is wait)]
            told = "; ".join(str(call) for call in calls if call is not None)
            told = f" ({told})" if told else ""
            return fail(PhaseMissed, task, op, f"the {bring} of {barrier.name} may come before the {look} of {waiter.where} at "
                        f"{wait.site} has looked at the slot: nothing orders the two{told}. Had that task been slower, it would "
                        "have waited for another chunk", wait.site, barrier.made,
                        hint=f"let the writer and every reader go through the chunks 0, 1, 2, ... in order, and call {bring} once "
                        f"a chunk, behind its {'acquire' if bring == 'commit' else 'wait'}")
        wrong = miscounted(self.machine.program, barrier.root)
        what = f"phase {before} (parity {before & 1})" if before >= 0 else "the phase before the first (parity 1)"
        return fail(PhaseMissed, task, op, f"{op.name} completes phase {now} (parity {now & 1}) of {barrier.name}, and nothing "
                    f"orders that after the wait of {waiter.where} at {wait.site}, which passed because {what} was over. Had "
                    f"that task been slower, it would have found phase {now} over and waited for phase {now + 1}",
                    wait.site, barrier.made,
                    hint=wrong or f"let {waiter.where} arrive on a barrier after its wait, and let the task that brings phase "
                    f"{now} wait for that; a task may wait for a phase only if the one before it is known to be over")
