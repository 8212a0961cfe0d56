"""Happens-before: which accesses of a run the program orders, whatever the order in which the run happened to make them.

Input: what the handlers of ops tell of each access, release, acquire and asynchronous operation. Output: nothing while all
conflicting accesses are ordered, and a `DataRace` (or a kind of it) at the access that is not. For example:

    place = order.place(tile)                                   a numpy view
    order.touch(load, op, place, "'tiles'[0]", write=True)      the task `load` writes a buffer,
    order.release(load, key); order.acquire(mma, key)           and tells the task `mma` by a barrier;
    order.touch(mma, op, place, "'tiles'[0]", write=False)      so this read comes after the write: no race

Every task is a strand: a line of ticks with a vector clock, which says up to which tick of each strand the task knows all to be
over (`clocks`). A release copies the task's clock into the object that is released, an acquire joins the object's clock to the
task's. An access comes after an earlier one if its strand's clock has reached the tick of the earlier one (`accesses`).

An asynchronous operation acts with the clock that its issuer had at the issue, on a tick of a strand of its own. No clock reaches
that tick before the operation is finished: by a wait of the issuer for the operation's group, or by the barrier phase on which
the operation lands. The wait, or the phase, then hands the tick on.

An actor is a task or an operation in flight. What handlers tell:

    issue, commit, wait_group, land           an asynchronous operation starts; its group is closed, is waited for; it lands
    touch(actor, op, place, name, write=...)  the actor accesses a numpy view of shared or global memory: the `place` of it
    scatter(actor, op, region, offsets, ...)  the actor accesses elements at byte offsets of a region
    release, acquire, publish                 a task tells, or hears, by a synchronising object, which is any hashable key
    part, next_stage, meet                    halves of a task run the stages of a loop one apart (`halves`)
    fork, join, fence, atomic, looked, phase  their docstrings say
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from . import clocks
from .accesses import AccessOrder
from .atomics import AtomicOrder
from .barriers import BarrierOrder
from .clocks import ASPECTS, FENCED, GLOBAL, REUSABLE, Clock, Epoch, join
from .halves import HalvesOrder
from .race_report import unfinished
from .signals import SignalOrder

_NOTHING: dict = {}         # of whom nothing is asked any more, or never was; nobody writes to it
COPIES = 16                 # of a CTA that are remembered before it is asked which of them are over
_FENCES = {"async_shared": (FENCED, REUSABLE), "delivery": (FENCED, REUSABLE), "handover": (REUSABLE, ),
           "gpu": (GLOBAL, ), "sys": (GLOBAL, )}


@dataclass(eq=False, slots=True)
class Group:
    """The operations of one kind of a task: their strand, how many groups are closed, and the last tick given out."""

    strand: int
    closed: int = 0
    issued: int = 0


@dataclass(eq=False, slots=True)
class Strand:
    """A task, or an asynchronous operation with its issuer's clock at the issue. Ticks up to `base` of its epoch's strand, or its
    issuer's, are of tasks that had ended before it began."""

    task: Any
    epoch: Epoch
    clock: Clock
    issued: Epoch | None = None             # of an operation: the issuer's epoch
    kind: str = ""                          # of an operation: "TMA load", ...
    group: str = ""                         # of an operation: which waits are for it, "" if a barrier tells of its landing
    lands_in: Any = None                    # of an operation: the CTA whose memory it writes, if that is another one's
    published: Clock = field(default_factory=dict)      # the clock at the last fence of device scope
    heard: Clock = field(default_factory=dict)          # read by relaxed atomics; counts from the next such fence on
    far_published: Clock = field(default_factory=dict)  # as these two, of fences of system scope and of other GPUs
    far_heard: Clock = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)          # of its operations by kind
    base: int = 0
    spare: dict[str, list[Group]] = field(default_factory=dict)     # of tasks that it has waited for, by kind; "task": their own


class Order(BarrierOrder, AccessOrder, AtomicOrder, SignalOrder, HalvesOrder):
    """The order of one launch; raises a `DataRace` at the access that completes one."""

    active = True

    def __init__(self, machine):
        BarrierOrder.__init__(self, machine)
        self.messages: dict = {}            # by key: what synchronising objects carry that are no mbarriers
        AccessOrder.__init__(self)
        AtomicOrder.__init__(self)
        SignalOrder.__init__(self)
        HalvesOrder.__init__(self)
        self.strands = 0
        self._copies: dict = {}             # CTA -> the copies it has issued, less some that are known to be over
        self._many: dict = {}               # CTA -> how many those may become until they are looked through

    # ---- tasks ------------------------------------------------------------------------------------------------------

    def fork(self, parent, child) -> None:
        """`child` starts with what `parent` (None: the launch) knows."""
        line = self._spare(parent, "task")
        strand = child.strand = Strand(child, Epoch(line.strand, line.closed + 1), {}, base=line.closed)
        if parent is not None:
            strand.clock = dict(parent.strand.clock)
            self._tick(parent.strand)
        strand.clock[line.strand] = line.closed + 1

    def join(self, parent, children) -> None:
        """`parent` waited for `children` to end. Tasks that it starts from here on come after all that they did, so these go on
        with their strands, and those of their operations that are over: clocks do not grow with the tasks that a loop starts."""
        clock, spare = parent.strand.clock, parent.strand.spare
        for child in children:
            join(clock, child.strand.clock)
        for child in children:
            strand = child.strand
            spare.setdefault("task", []).append(Group(strand.epoch.strand, strand.epoch.tick))
            for kind, group in strand.groups.items():
                if group.issued <= clock.get(group.strand, 0):
                    spare.setdefault(kind, []).append(Group(group.strand, max(group.closed, group.issued)))
            for kind, groups in strand.spare.items():
                spare.setdefault(kind, []).extend(groups)

    def drop(self, tasks) -> None:
        """These tasks have ended, others have waited for that, and only accesses remember them."""
        for task in tasks:
            strand = task.strand
            strand.clock = strand.published = strand.heard = strand.groups = strand.spare = _NOTHING
            strand.far_published = strand.far_heard = _NOTHING
            task.strand = None      # accesses know their strand, and that its task

    def _spare(self, task, kind: str) -> Group:
        """A strand that `task` knows to be over, or a new one. The tasks around it wait, and it knows what they knew."""
        while task is not None:
            if found := task.strand.spare.get(kind):
                return found.pop()
            task = task.parent
        return Group(self._number())

    def _number(self) -> int:
        self.strands += ASPECTS
        return self.strands

    @staticmethod
    def _tick(strand: Strand) -> None:
        strand.epoch = Epoch(strand.epoch.strand, strand.epoch.tick + 1)
        strand.clock[strand.epoch.strand] = strand.epoch.tick

    # ---- synchronising objects --------------------------------------------------------------------------------------

    def release(self, task, key) -> None:
        """Make what `task` has done so far a part of `key`."""
        join(self.messages.setdefault(key, {}), task.strand.clock)
        self._tick(task.strand)

    def acquire(self, task, key) -> None:
        """`task` knows from here on what `key` carries."""
        message = self.messages.get(key)
        if message is not None:
            join(task.strand.clock, message)

    def publish(self, key, to) -> None:
        """`to` carries what `key` carries now, and nothing of what `key` gets later."""
        self.messages[to] = dict(self.messages.get(key, {}))

    def forget(self, key) -> None:
        """Nobody will acquire `key` any more."""
        self.messages.pop(key, None)

    def competed(self) -> None:
        """Somebody takes the next cluster that has not started: admission, or a cluster that asks for its work."""
        if self.guide is not None:
            self.guide.touched("waiting clusters", "write")

    def mix(self) -> None:
        """From here on tasks of one cluster may know of others."""
        self.apart = False

    def fence(self, task, scope: str) -> None:
        """`async_shared`: the asynchronous proxy may read and overwrite what is known here of shared memory. The compiler puts in
        `delivery`, which says the same, and `handover`: it may overwrite it. `gpu`, `sys`: it may read what is known here of global
        memory; what relaxed atomics read before counts from here on, and what they write later carries what is known here. To and
        from other GPUs only `sys` does."""
        strand = task.strand
        if scope in ("gpu", "sys"):
            join(strand.clock, strand.heard)
        if scope == "sys" and strand.far_heard:
            join(strand.clock, strand.far_heard)
        clocks.fence(strand.clock, *_FENCES[scope])
        if scope in ("gpu", "sys"):
            strand.published = dict(strand.clock)
        if scope == "sys" and task.cta.gpu.others:
            strand.far_published = strand.published
        self._tick(strand)

    # ---- asynchronous operations ------------------------------------------------------------------------------------

    def issue(self, operation, group: str) -> None:
        """`operation` starts. It is finished by a wait for its group in the issuer's order of `group`s, or by landing
        on a barrier."""
        issuer = operation.task.strand
        line, commits = self._group(operation.task, group), operation.op.row.barrier == "commit"
        line.issued = line.closed + 1
        operation.strand = Strand(operation.task, Epoch(line.strand, line.issued), dict(issuer.clock), issuer.epoch, operation.kind,
                                  group, operation.lands_in, _NOTHING, _NOTHING, _NOTHING, _NOTHING, issuer.groups, issuer.base,
                                  _NOTHING)
        if group == "tcgen05":
            # A queue, in order: work comes after all that its task has put in before.
            operation.strand.epoch.tick -= commits
            operation.strand.clock[line.strand] = operation.strand.epoch.tick
        if commits:
            pass    # it touches no memory, and may land when its CTA has ended
        elif group not in ("wgmma", "remote"):
            cta = operation.lands_in or operation.task.cta
            copies = self._copies.setdefault(cta, [])
            copies.append(operation)
            if len(copies) > self._many.get(cta, COPIES):
                # What one of its tasks knows to be over, its last task will know.
                clocks_ = [task.strand.clock for task in cta.tasks]
                copies[:] = [one for one in copies if not any(one.strand.epoch.before(clock) for clock in clocks_)]
                self._many[cta] = COPIES + 2 * len(copies)

    def exit(self, task) -> None:
        """`task`, which knows all that its CTA has done, is the last of it to end."""
        self._many.pop(task.cta, None)
        for operation in self._copies.pop(task.cta, ()):
            if not operation.strand.epoch.before(task.strand.clock):
                raise unfinished(operation, task)

    def commit(self, task, group: str) -> None:
        """The operations issued since the last commit are one group."""
        self._group(task, group).closed += 1

    def wait_group(self, task, group: str, pending: int) -> None:
        """All groups but the `pending` newest are finished."""
        line = self._group(task, group)
        if line.closed > pending:
            task.strand.clock[line.strand] = max(task.strand.clock.get(line.strand, 0), line.closed - pending)
            if self.halves:
                self._waited(task)

    def _group(self, task, group: str) -> Group:
        groups = task.strand.groups
        found = groups.get(group)
        if found is None:
            found = groups[group] = self._spare(task.parent, group)
        return found

    def done(self, operation) -> None:
        """`operation` has landed: what its issuer knew then is not asked for any more."""
        operation.strand.clock = _NOTHING

    def leave(self, cluster) -> None:
        """All CTAs of `cluster` have ended: nobody will ask what their tasks knew."""
        for cta in cluster.ctas:
            self.forget_barriers(cta)
            self.drop(cta.tasks)
        self.forget_barriers_among(cluster)
