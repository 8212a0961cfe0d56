"""A hung launch in the words of the simulator: tasks that wait, barriers with their phases, who could have arrived.

Input: a stamped program and what its table says (`table.seen`). Output: a `Hung` with the tasks of some CTAs, each of them a
`StuckTask` (`simulator/machine/stuck.py`) for the functions of `simulator/machine/deadlock.py`.

    hung = Hung(program, cluster, grid)         # the CTAs of one cluster
    hung.blocked[0].where                       # "task 'consumer' of CTA (0, 0, 0)"
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...compiler.analysis import pipe_side
from ...compiler.analysis.barrier_ops import task_names
from ...compiler.passes.stamp_waits import ENDS, LOOPS, WAITS, Stamp, barrier_rows, stamps
from ...ir import Op, Program
from ...simulator.machine.tasks import Wait
from ...simulator.memory.mbarriers import Mbarrier
from .table import SeenCta, Slot, Word, index_of, taken_apart


@dataclass(frozen=True)
class Lane:
    """A task of a kernel: its name, whether it is the kernel's body, and how many warps it has."""

    name: str
    is_body: bool
    num_warps: int


def lanes_of(program: Program) -> list[Lane]:
    """The kernel's body, then the tasks of each region in the order in which `stamp_waits` numbers them."""
    found = [Lane("default", True, program.num_warps)]
    for op in program.walk():
        if op.name == "warp_specialize":
            found += [Lane(name, False, task.num_warps) for name, task in zip(task_names(op), op.attrs["tasks"])]
    return found


@dataclass(eq=False)
class HungBarrier(Mbarrier):
    """A barrier of a hung CTA. `word` is what somebody saw in it last, if anybody has looked."""

    word: Word | None = None

    def state(self) -> str:
        if self.word is None:
            return "its state was not read"
        if not self.word.count:
            return "its state reads as 0, so this chip does not show its phase and counts"
        if self.pipe is not None:
            return (f"of this round {self.arrived} of {self.count} {self.pipe.brings}s have come, and {self.pending_bytes} bytes "
                    "are missing")
        return (f"it is in a phase of parity {self.phase & 1} with {self.arrived} of {self.count} arrivals and "
                f"{self.pending_bytes} bytes pending")


@dataclass(eq=False)
class HungCluster:
    """A cluster of the hung launch; `ctas` are those that somebody has seen."""

    ctas: list[HungCta] = field(default_factory=list)


@dataclass(eq=False)
class HungCta:
    """A CTA as far as its words in the table tell of it."""

    number: int
    index: tuple[int, int, int]
    cluster: HungCluster
    seen: SeenCta
    barriers: list[HungBarrier]
    tasks: list[HungTask] = field(default_factory=list)
    refused: Op | None = None           # of requests for other clusters' work no stamp tells

    def __str__(self) -> str:
        return f"CTA {self.index}"


@dataclass(eq=False)
class HungTask:
    """A task of a hung CTA. `warps` says how many of its warps are in this state, if not all of them."""

    machine: Hung
    cta: HungCta
    lane: Lane
    first_warp: int = 0
    wait: Wait | None = None
    loop: Op | None = None
    finished: bool = False
    seconds: float = 0.0
    warps: str = ""
    calls: None = None          # of pipes' methods: the table has waits only

    @property
    def name(self) -> str:
        return self.lane.name

    @property
    def is_body(self) -> bool:
        return self.lane.is_body

    @property
    def where(self) -> str:
        return f"{self.warps}task {self.name!r} of CTA {self.cta.index}"


@dataclass(eq=False)
class Hung:
    """The CTAs of a cluster, as far as they are seen, and the tasks in them."""

    program: Program
    found: list[SeenCta]
    grid: tuple[int, int, int]
    tasks: list[HungTask] = field(default_factory=list)

    def __post_init__(self):
        self.lanes, self.stamps = lanes_of(self.program), stamps(self.program)
        cluster = HungCluster()
        for seen in self.found:
            cta = HungCta(seen.number, index_of(seen.number, self.grid), cluster, seen, self._barriers(seen))
            cluster.ctas.append(cta)
            self._tasks(cta, seen)
        self.ctas = cluster.ctas

    @property
    def blocked(self) -> list[HungTask]:
        return [task for task in self.tasks if task.wait is not None]

    def _barriers(self, seen: SeenCta) -> list[HungBarrier]:
        """By row. Somebody waits for a phase, so that is the one in which the barrier is, whatever its word says."""
        waits = {seen.row_at(slot.address): slot for slot in seen.slots if self._waits_for_barrier(slot)}
        waited = {row: slot.parity for row, slot in waits.items()}
        barriers = []
        for row, (alloc, index) in enumerate(barrier_rows(self.program)):
            value = seen.words[row] or (waits[row].word if row in waits else seen.words[row])
            word = taken_apart(value) if value is not None else None
            barrier = HungBarrier(alloc.result, index, alloc.arrive_count, alloc.site, pipe=pipe_side(alloc), word=word)
            if word is not None:
                barrier.phase = waited.get(row, word.parity)
                barrier.arrived, barrier.pending_bytes = word.count - word.pending, word.pending_bytes
            elif row in waited:
                barrier.phase = waited[row]
            barriers.append(barrier)
        return barriers

    def _waits_for_barrier(self, slot: Slot) -> bool:
        stamp = self.stamps.get(slot.stamp)
        return stamp is not None and stamp.state == WAITS and stamp.op.name == "barrier_wait"

    def _tasks(self, cta: HungCta, seen: SeenCta) -> None:
        """One task for each state in which warps of a lane are; mostly all warps are in one."""
        groups: dict[tuple, list[int]] = {}
        for warp, slot in enumerate(seen.slots):
            stamp = self.stamps.get(slot.stamp)
            if stamp is not None:
                groups.setdefault((stamp.lane, slot.stamp, slot.parity, slot.address), []).append(warp)
        for (number, *_), warps in sorted(groups.items(), key=lambda item: item[1]):
            slot, lane = seen.slots[warps[0]], self.lanes[number]
            stamp = self.stamps[slot.stamp]
            if number == 0 and stamp.state == ENDS:
                continue
            apart = "" if len(warps) == lane.num_warps else f"{len(warps)} of {lane.num_warps} warps of "
            task = HungTask(self, cta, lane, warps[0], finished=stamp.state == ENDS, warps=apart)
            task.loop = stamp.op if stamp.state == LOOPS else None
            if stamp.state == WAITS:
                task.wait = self._wait(cta, seen, stamp, slot)
            cta.tasks.append(task)
            self.tasks.append(task)
        if not any(task.lane.is_body for task in cta.tasks):    # it waits for the tasks that it has started, and is not told of
            cta.tasks.insert(0, HungTask(self, cta, self.lanes[0]))

    def _wait(self, cta: HungCta, seen: SeenCta, stamp: Stamp, slot: Slot) -> Wait:
        op = stamp.op
        if op.name != "barrier_wait":
            return Wait(op, op.row.blocks, None, lambda: self._other(cta, op))
        row = seen.row_at(slot.address)
        if row is None:
            where = f"at {slot.address:#x} in shared memory, where the kernel has made none"
            return Wait(op, "mbarrier", None, lambda: f"parity {slot.parity} of an mbarrier {where}")
        barrier = cta.barriers[row]
        chunk = op.chunk if isinstance(op.chunk, int) else None
        if chunk is None and barrier.pipe is not None:      # a number that the kernel works out is not in the table
            chunk = barrier.pipe.chunks(barrier.index, slot.parity, barrier.root.type.count)
        return Wait(op, "barrier", barrier, lambda: barrier.awaited(slot.parity, op, chunk))

    def _other(self, cta: HungCta, op: Op) -> str:
        """The object of a wait that is not for an mbarrier, in words."""
        here = [task for task in cta.tasks if task.wait is not None and task.wait.op.name == op.name]
        others = ", ".join(sorted({f"{task.name!r}" for task in cta.tasks if not task.finished and task not in here}))
        if op.name == "named_barrier_wait":
            missing = f"; {others} has not come" if others else ""
            return f"named barrier {op.barrier}, which opens for {op.threads} threads{missing}"
        if op.name == "cluster_barrier":
            away = [other for other in cta.cluster.ctas
                    if not any(task.wait is not None and task.wait.op.name == op.name for task in other.tasks)]
            missing = [f"CTA {other.index} has not arrived" for other in away]
            missing += [f"{others} of this CTA has not arrived"] * bool(others)
            return "the cluster barrier" + (f", to which {' and '.join(missing)}" if missing else "")
        if op.name == "atomic_poll":
            return "a value in global memory that has not been written"
        if op.name == "grid_dependency_wait":
            return "the kernel before it in the stream"
        ranks = op.attrs.get("ranks")
        return "the barrier of " + (f"ranks {', '.join(map(str, ranks))} of the cluster" if ranks else "the grid")

