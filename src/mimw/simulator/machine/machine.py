"""The machine: CTAs, their tasks, operations in flight between them, and the scheduler that interleaves them all.

Input: a program, its grid and arguments, and a seed or a `Guide`. Output: arrays that the kernel has written, and a trace. For
example:

    Machine(program, (8, 1, 1), arguments, memory, seed=0, trace=False, check_unwritten=True).run()

Everything is a step of one loop. A seeded generator picks which task goes on and when an asynchronous operation lands, so one
seed is one run. Clocks only follow: a task that waits takes the time at which the awaited thing was done, so the timeline is
consistent whatever the order of the steps.

How late things land is part of the seed too. Seed 0 lands an operation only when no task can go on without it, which is the
harshest for code that does not wait; other seeds draw how eager the machine is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from ...compiler.analysis import total_warps
from ...errors import SimulationError
from ...ir import Block, Op, Program, Site, Value
from ...ir.trace import Event, Trace
from ..costs.abstract import TMA_LATENCY
from ..memory_model import Order, Unordered
from .clusters import Cluster, clusters
from .code import Code
from .constants import constants
from .deadlock import deadlock, livelock
from .flights import Flights
from .gpus import Gpu
from .guide import Guide
from .hooks import Hooks
from .hopes import Hopeless, Hopes
from .interpreter import prepare, run_block
from .launches import REFUSED, Waiting, asks, crowd
from .limits import trip_limit
from .links import Links
from .lost_work import lost
from .observed import observed
from .tasks import Cta, InFlight, Task
from .uneven import Uneven

RESIDENT = 132           # CTAs that run at the same time
LATEST = 10_000          # steps an operation stays in flight at most, if others have work for so long
POLL_ROUNDS = 1000, 50   # so many looks at global memory, and so many more per task, with nothing else going on: a spin


class Machine:
    """All CTAs of a launch. `run` executes them to the end or raises what it finds. `computes_all` is false where zeros stand for
    data that decides nothing. `memory`, a `memory.global_memory.GlobalMemory`, is kept for the words; the machine does not look."""

    computes_all = True
    request_latency: float = TMA_LATENCY    # of a request for the work of a cluster that has not started
    first_task = "default"                  # the name of the task that runs the kernel's body
    task_class, cta_class = Task, Cta       # what a machine makes of the kernel; one with a clock keeps more of each

    def __init__(self, program: Program, grid: tuple[int, int, int], arguments: dict[Value, Any],
                 memory: Any, *, seed: int | Guide, trace: bool, check_unwritten: bool, races: bool = False,
                 resident: int | None = None, hooks: Hooks | None = None, gpus: Sequence[Gpu] = ()):
        self.program, self.grid, self.memory, self.check_unwritten = program, grid, memory, check_unwritten
        self.hooks = hooks or Hooks()
        values, self._done = constants(program)
        self.arguments = {**values, **arguments}        # what every task knows when it starts
        self._prepare = prepare
        if (skipped := self.hooks.skipped) is not None:
            self.computes_all, self._prepare = False, skipped.code
            self.arguments.update(skipped.given)
        self.gpus = list(gpus) or [Gpu(0, {}, memory)]  # with what the tasks of one GPU know besides
        self.guide = seed if isinstance(seed, Guide) else None
        self.random = Random(0 if self.guide else seed)
        self.delay = LATEST if self.guide or seed == 0 else self.random.choice((2, 16, 128, LATEST))
        self.eager = self.delay != LATEST
        self.trace = Trace() if trace else None
        self.together = program.cooperative             # all CTAs of the launch run at the same time
        self.asks = asks(program)                       # for the work of clusters that have not started
        self.resident = self._residents(resident, None if self.guide else seed)
        self.warps = total_warps(program)
        self.runnable: list[Task] = []
        self.blocked: dict[Task, None] = {}
        self.enabled = self.guide.enabled if self.guide else None       # told who can go on
        self.inflight = Flights(self.enabled and self.enabled.note)
        # An eager machine lands anything; the other one what the longest blocked task waits for.
        self.hopes = Hopeless() if self.eager else Hopes(self.blocked)
        self.ctas: dict[int, Cta] = {}                  # by number: those that have begun, less clusters that are over
        self.begun = 0
        self.step = 0
        self.polls = 0
        self.watching: dict[Task, None] = {}            # who waits for a word of global memory
        self.signal_times: dict[int, float] = {}        # when a word that others may wait for was last changed, by address
        self.rank_barriers: dict[tuple, Any] = {}       # barriers among GPUs, by ranks and program
        self.left: dict[tuple, list[int]] = {}          # of several GPUs: the ranks whose program with that id has left
        self.completed: dict[Value, Any] = {}           # a barrier of each array of which a phase has completed
        self.awaited: dict[Value, None] = {}            # the arrays of which a wait came after such a phase
        self.max_trips = trip_limit()
        self.end = 0.0
        self.executed: Counter[str] = Counter()
        self.stopped: Task | None = None                # the task whose step ended the run in an error
        self._at = 0                                    # the place of the task that goes on among those that can
        self._codes: dict[Block, Code] = {}
        self.order = Order(self) if races else Unordered()
        several = len(self.gpus) > 1
        self.uneven = Uneven(self, drawn=self.guide is None and seed != 0) if several else None     # ranks that die, or are late
        self.links = Links(self.trace) if trace and self.gpus[0].others else None
        self.tells_threads_apart = any(op.name == "thread_id" for op in program.walk())

    # ---- code -------------------------------------------------------------------------------------------------------

    def code(self, block: Block, num_warps: int) -> Code:
        found = self._codes.get(block)
        if found is None:
            found = self._prepare(block, num_warps, self._done)
            if self.hooks.observer is not None:
                found = observed(found, self.hooks.observer)
            self._codes[block] = found
        return found

    def counts(self) -> Counter[str]:
        """The number of times that each op ran."""
        total: Counter[str] = Counter(self.executed)
        for code in self._codes.values():
            for op in code.ops:
                total[op.name] += code.runs
        return total

    def lines(self) -> Counter[Site]:
        """The cycles that the ops of each source line took, over all CTAs, without the waits of tasks."""
        total: Counter[Site] = Counter()
        for code in self._codes.values():
            for op, _, _, cycles in code.steps:
                if code.runs and cycles:
                    total[op.site] += code.runs * cycles
        return total

    # ---- tasks ------------------------------------------------------------------------------------------------------

    def spawn(self, task: Task, block: Block) -> Task:
        """Make `task` runnable on `block`."""
        return self.begin(task, run_block(task, block))

    def begin(self, task: Task, steps: Iterator) -> Task:
        """Make `task` runnable: it does what `steps` do."""
        task.steps = steps
        self.order.fork(task.parent, task)
        task.cta.tasks.append(task)
        task.cta.live += 1
        self.runnable.append(task)
        if self.enabled is not None:
            self.enabled.note(task, True)
        return task

    def wake(self, task: Task) -> None:
        """Let `task` look again when it is scheduled: what it waits for may have happened."""
        if task in self.blocked:
            del self.blocked[task]
            self.runnable.append(task)
            if self.enabled is not None:
                self.enabled.note(task, True)

    def wrote(self) -> None:
        """Global memory has changed: who waits for a word of it looks again."""
        self.polls = 0
        if self.watching:
            for task in self.watching:
                self.wake(task)
            self.watching.clear()

    def _withdraw(self, task: Task) -> None:
        """Take `task`, which went on last, out of those that can: it is where it was, as others only join behind."""
        if self.enabled is not None:
            self.enabled.note(task, False)
        if self._at < len(self.runnable) and self.runnable[self._at] is task:
            del self.runnable[self._at]
        else:
            self.runnable.remove(task)

    def run(self) -> None:
        for gpu in self.gpus:
            gpu.waiting = Waiting(self.launch_order())
        living = sum(self._admit(gpu) for _ in range(max(1, self.resident // self.program.cluster_size)) for gpu in self.gpus)
        mortal, look = self.uneven is not None and self.uneven.mortal, self.hooks.look
        while living:
            if look is not None and not look(self):
                look = None
            task = self._next_task()
            self.step += 1
            if mortal and self.uneven.step(task):
                living = sum(1 for cta in self.ctas.values() if cta.live) - self.uneven.living()
                continue
            polls = self.polls
            try:
                wait = next(task.steps)
            except SimulationError:
                self.stopped = task
                raise
            except StopIteration:
                if self._finish(task):
                    living -= 1
                    if not any(cta.live for cta in task.cta.cluster.ctas):
                        self.leave(task.cta.cluster)
                        living += self._admit(task.cta.gpu)
                continue
            if self.polls == polls:
                self.polls = 0            # a step that did not look at memory: somebody is at work
            if wait is not None:
                task.wait, task.blocked_at = wait, self.step
                self._withdraw(task)
                self.blocked[task] = None
                self.hopes.add(task)
        while self.inflight:
            self.land(self._ready())
        if self.trace is not None:
            self.trace.events.sort(key=lambda event: event.end)

    def close(self) -> None:
        """Let go of what is known about accesses, whose tasks know this machine, without the help of the garbage collector."""
        self.order.close()
        self.order = Unordered()
        self.rank_barriers.clear()
        self.links = self.uneven = None

    def launch_order(self) -> Iterator:
        """The program ids of each cluster, in the order in which they start."""
        return map(list, self.hooks.clusters) if self.hooks.clusters else clusters(self.grid, self.program.cluster)

    def place(self, cta: Cta) -> float:
        """Called for each CTA before it starts; when that is."""
        return 0.0

    def leave(self, cluster: Cluster) -> None:
        """All CTAs of `cluster` have ended: they are forgotten, so that a grid may be as large as a launch takes."""
        if cluster.ctas[0].gpu.others:
            for cta in cluster.ctas:
                self.left.setdefault(cta.index, []).append(cta.gpu.rank)
        if not self.together:
            self.order.leave(cluster)
            for cta in cluster.ctas:
                del self.ctas[cta.number]
                cta.forget()            # no cycles of references: each CTA's memory is free at once
            cluster.ctas.clear()

    def _residents(self, wanted: int | None, seed: int | None) -> int:
        """The number of CTAs of a GPU that run at the same time, unless the launch has fewer."""
        ctas = self.grid[0] * self.grid[1] * self.grid[2]
        if self.together:
            return ctas
        size = self.program.cluster_size
        return wanted or (crowd(self.program, ctas // size, seed) * size if self.asks else RESIDENT)

    def take_waiting(self, gpu: Gpu) -> list:
        """The work of a cluster that has not started, for a running cluster that asks for it: its program ids, [] for a refusal."""
        self.order.competed()
        return [] if self.eager and not self.random.randrange(REFUSED) else gpu.waiting.next()

    def _admit(self, gpu: Gpu) -> int:
        """Start the next cluster of a GPU's grid, all its CTAs at once; how many they are, 0 if there is none left."""
        if self.asks:
            self.order.competed()
        indices = gpu.waiting.next()
        cluster = Cluster(self.warps)
        for rank, index in enumerate(indices):
            cta = self.cta_class(self.begun, index, cluster, rank, gpu)
            cluster.ctas.append(cta)
            self.ctas[self.begun] = cta
            if gpu.others and self.trace is not None:
                self.trace.ranks[self.begun] = gpu.rank
            self.begun += 1
        for cta in cluster.ctas:
            start = self.place(cta)
            known = {**self.arguments, **gpu.arguments}
            task = self.task_class(self, cta, self.first_task, known, self.program.num_warps, 0, start)
            self.spawn(task, self.program.body)
        return len(cluster.ctas)

    def _finish(self, task: Task) -> bool:
        """Retire a task; True if it was the last of its CTA."""
        self._withdraw(task)
        task.end_stretch()
        task.release()
        task.finished, task.env, task.wait, task.steps = True, {}, None, None
        self.end = max(self.end, task.clock)
        self.polls = 0
        if task.parent is not None:
            self.wake(task.parent)
        task.cta.live -= 1
        if task.cta.live:
            return False
        self.order.exit(task)
        if task.cta.granted:
            raise lost(task)
        task.cta.cluster.barrier.settle()     # which does not wait for a CTA that has left
        return True

    # ---- scheduling -------------------------------------------------------------------------------------------------

    def _next_task(self) -> Task:
        inflight = self.inflight
        while True:
            spinning = self.polls > POLL_ROUNDS[0] and self.polls > POLL_ROUNDS[0] + POLL_ROUNDS[1] * len(self.runnable)
            if self.guide is not None and not (spinning and not self.inflight):
                actor = self.guide.choose(self)
                if actor is not None and actor.task is not actor:
                    self.land(actor)
                    continue
                if actor is not None:
                    return actor
            due = inflight.due
            operation = inflight.overdue(self.step) if due and (due[0][0] <= self.step or due[0][2].landed) else None
            if operation is None and (spinning or not self.runnable) and inflight:
                operation = self._ready()
            if operation is not None:
                self.land(operation)
            elif not self.runnable or spinning:
                error = livelock(self) if self.runnable else deadlock(self)
                raise self.uneven.report(error) if self.uneven is not None else error
            else:
                self._at = int(self.random.random() * len(self.runnable)) if self.uneven is None else self.uneven.pick()
                return self.runnable[self._at]

    def start(self, operation: InFlight) -> InFlight:
        """Put an operation in flight; it lands after a number of steps that the seed decides."""
        self.order.issue(operation, operation.group)
        delay = 1 + self.random.randrange(2 * self.delay) if self.eager else LATEST
        self.inflight.start(operation, self.step + delay)
        return operation

    def _ready(self) -> InFlight:
        """The operation to land when somebody has to: any, or on seed 0 one that a task waits for."""
        operation = None if self.eager else self.hopes.first()
        return operation or self.inflight.nth(int(self.random.random() * self.inflight.able))

    def land(self, operation: InFlight) -> None:
        """Let `operation` do now what it was started for."""
        if self.hooks.observer is not None:
            self.hooks.observer.lands(operation)
        self.inflight.land(operation)
        land, operation.land = operation.land, None     # with what it held
        land(operation)
        self.order.done(operation)
        self.wrote()
        self.end = max(self.end, operation.end)
        self.wake(operation.task)

    # ---- reports ----------------------------------------------------------------------------------------------------

    def record(self, cta: Cta, lane: str, kind: str, start: float, end: float, label: str, op: Op | None,
               size: int = 0) -> None:
        if self.trace is not None:
            self.trace.events.append(Event(cta.number, lane, kind, start, end, label, op.site if op else None, size))
