"""The machine with a clock: the earliest task goes on, and things end when the cost model says.

Input: a program, its arguments, a chip's `Model` and `Conditions`, and the clusters to run, so many at a time. Output: a trace in
cycles, and how long each unit of each SM was busy. For example:

    machine = TimedMachine(program, grid, arguments, memory, model, Conditions(1755, 132), needed, order, slots=1)
    machine.run(); machine.end                   cycles

What decides the course of the kernel (loop bounds, phases, indices, offsets) is computed as on the other machine. Tiles are not
computed, unless something depends on them, so a launch of full size takes seconds. The CTAs that are simulated are those of one
SM, or of the SMs of one cluster, or of `groups` such; these SMs get their share of the L2 cache and of DRAM. On several GPUs they
are those SMs of each (`links` has what goes between).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from math import ceil, inf
from types import MappingProxyType
from typing import Any

import numpy as np

from ...compiler.analysis.needed import Needed
from ...ir import Block, Op, Program, Tensor, Value
from ...ir.trace import Trace
from ..costs import Model
from ..machine.clusters import Cluster
from ..machine.code import Code
from ..machine.deadlock import deadlock, livelock
from ..machine.gpus import Gpu
from ..machine.hopes import Hopeless
from ..machine.machine import POLL_ROUNDS, Machine
from ..machine.tasks import Cta, InFlight, Task
from ..memory.global_memory import GlobalMemory
from .code import prepare
from .conditions import Conditions
from .engines import SCALAR, Engines
from .links import Ways
from .operands import operand_sources, taken_with_products
from .pipelined import Pipelined
from .queue import Gaps, Queue
from .stages import find_stages
from .tasks import Sm, TimedCta, TimedTask


def footprint(memory: GlobalMemory) -> int:
    """The bytes of all arrays of a launch on one GPU."""
    return sum(region.size for region in memory.regions if not region.rank)


_NUMBERS = 16       # times as many loads of numbers as of tiles end a run that looks at which bytes are asked for


class Enough(Exception):
    """The end of a run in which as many loads have been seen as were asked for, or as many steps made as may be."""


class TimedMachine(Machine):
    """Runs `order`, lists of the program ids of a cluster, `slots` clusters at a time, in the order of time."""

    computes_all = False
    most_steps: float = float("inf")
    turns: Mapping[Op, float] = MappingProxyType({})   # of reads and writes of shared memory: turns for one, by bank conflicts
    pipelined = Pipelined()                 # the loops whose loads Triton asks for ahead
    addresses: Collection[Value] = ()       # values of which pointers are made, by one instruction for so many elements (`vector`)
    vector = 1
    spread: Mapping[Op, float] = MappingProxyType({})  # of loads by pointers: bytes moved for one that the tile holds
    task_class, cta_class = TimedTask, TimedCta

    def __init__(self, program: Program, grid: tuple[int, int, int], arguments: dict[Value, Any], memory: GlobalMemory,
                 model: Model, conditions: Conditions, needed: Needed, order: Sequence[list], slots: int, most_loads: int = 0,
                 gpus: Sequence[Gpu] = (), groups: int = 1):
        super().__init__(program, grid, arguments, memory, seed=0, trace=True, check_unwritten=False,
                         resident=slots * groups * program.cluster_size, gpus=gpus)
        self.trace, self.hopes, self.links = Trace(), Hopeless(), None
        self.model, self.conditions, self.needed = model, conditions, needed
        self._order, self._slots, self._most_loads = order, slots * groups, most_loads
        self._sms = [[[Sm() for _ in range(program.cluster_size)] for _ in range(groups if most_loads == 0 else slots)]
                     for _ in self.gpus]
        self._placed = [0] * len(self.gpus)
        self._freed = 0                                 # the SMs of the cluster that has ended last
        self.stays: dict[Cluster, tuple[float, float]] = {}     # from when to when each is there, in the order of their starts
        self.sms = self._sms[0]
        self.ways = Ways(self, min(1.0, groups * program.cluster_size / conditions.sms)) if len(self.gpus) > 1 else None
        self.loads: list[tuple[Any, float]] = []        # (which bytes, or sectors, how many bytes) of each load of a tile
        self.numbers: list[tuple[None, float]] = []     # the same of loads of numbers
        self.moved: dict[Op, list[float]] = defaultdict(list)       # of loads by pointers: bytes moved for one that the tile holds
        self.loaded = self.stored = 0
        self.operands = operand_sources(program) if model.reads_operands else {}
        self.engines = Engines(program, model.target) if model.engines else None
        if self.engines is not None:        # the scalar unit is ahead of the engines, so their requests come in its order
            self.first_task = SCALAR
            for sm in (sm for gpu in self._sms for group in gpu for sm in group):
                sm.units = defaultdict(Gaps)
        self.uses: dict[Value, list[Op]] = defaultdict(list)
        self.around = {inner: op for op in program.walk() for block in op.blocks for inner in block.ops[-1:]}   # of terminators
        for op in program.walk():
            for value in op.operands:
                self.uses[value].append(op)
        self.stages = find_stages(program)
        fed = taken_with_products(self.operands, self.uses)
        self.ahead = {read: dot for read, dot in self.stages.ahead(self.operands).items() if read in fed}
        self.with_products = fed - self.ahead.keys()
        self._changed: list[tuple[np.ndarray, np.ndarray]] = []
        self.programs = conditions.sms * slots if most_loads == 0 else len(order) * program.cluster_size
        self._events: list[tuple[float, tuple[int, int], int, Any]] = []        # (when, who goes first, which, who)
        self._number = 0
        self._last: Task | None = None
        self.now = 0.0
        self.written_back = footprint(memory) > model["chip.l2_bytes"]
        merged = model["memory.l2_gb_per_s"] / model.get("memory.l2_shared_gb_per_s", model["memory.l2_gb_per_s"])
        self.served = conditions.alone + (1 - conditions.alone) * merged        # L2's work for a byte that an SM asks for
        self.crowd = model.get("memory.dram_crowd_ns", 0.0) * conditions.megahertz / 1e3 * conditions.sms / model["chip.sms"]
        self.others, self.most_crowded = 1 - 1 / conditions.sms, model.get("memory.crowded", 0.0)
        self.rates = {"inbound": self._rate("sm", 1), "outbound": self._rate("sm_store", 1), "L2": self._rate("l2"),
                      "L2 stores": self._rate("l2_store"), "DRAM": self._rate("dram")}
        by_lanes = model.get("memory.sm_lanes_gb_per_s", model["memory.sm_gb_per_s"]) / model["memory.sm_gb_per_s"]
        self.rates["inbound by lanes"] = self.rates["inbound"] * by_lanes

    def _rate(self, what: str, sms: int | None = None) -> float:
        """Bytes a cycle of an SM, where `sms` share what there is."""
        return self.model[f"memory.{what}_gb_per_s"] * 1e3 / self.conditions.megahertz / (sms or self.conditions.sms)

    def cycles(self, figure: str) -> float:
        """A latency outside of the SM, whose clock is its own: from nanoseconds to cycles."""
        return self.model[figure] * self.conditions.megahertz / 1e3

    @property
    def request_latency(self) -> float:
        """Of a request for the work of a cluster that has not started."""
        return self.cycles("launch.request_ns")

    # ---- who goes on ------------------------------------------------------------------------------------------------

    def launch_order(self) -> Iterator:
        return iter(self._order)

    def place(self, cta: TimedCta) -> float:
        """CTAs of one rank share an SM; where traffic is counted (`most_loads`) each cluster has SMs of its own."""
        gpu = cta.gpu.rank
        cluster = self._placed[gpu] // self.program.cluster_size
        self._placed[gpu] += 1
        first = cluster < self._slots
        cta.group = cluster % len(self.sms) if first else self._freed
        cta.sm = self._sms[gpu][cta.group][cta.rank]
        start = self.model["launch.first_cta"] if first else self.now + self.model["launch.next_cta"]
        self.stays[cta.cluster] = start, start
        return start

    def leave(self, cluster: Cluster) -> None:
        """All CTAs are kept: the timeline names them. The next cluster starts where this one was."""
        self._freed = cluster.ctas[0].group
        self.stays[cluster] = self.stays[cluster][0], max(task.clock for cta in cluster.ctas for task in cta.tasks)

    def code(self, block: Block, num_warps: int) -> Code:
        found = self._codes.get(block)
        if found is None:
            found = self._codes[block] = prepare(self, block, num_warps)
        return found

    def _push(self, time: float, actor) -> None:
        self._number += 1
        heappush(self._events, (time, actor.rank if actor.task is actor else (0, 0), self._number, actor))

    def begin(self, task: Task, steps: Iterator) -> Task:
        self._push(task.clock, task)
        return super().begin(task, steps)

    def wake(self, task: Task) -> None:
        if task in self.blocked:
            self._push(max(task.clock, self.now), task)
        super().wake(task)

    def start(self, operation: InFlight) -> InFlight:
        self.inflight.start(operation)
        self._push(operation.end, operation)
        return operation

    def _next_task(self) -> Task:
        last, self._last = self._last, None
        if self.step > self.most_steps:
            raise Enough
        if last is not None and not last.finished and last not in self.blocked:
            self._push(last.clock, last)
        if self.polls > POLL_ROUNDS[0] + POLL_ROUNDS[1] * len(self.runnable) and not self.inflight:
            raise livelock(self)
        while self._events:
            time, _, _, actor = heappop(self._events)
            self.now = max(self.now, time)
            if actor.task is not actor:
                if not actor.landed:        # a release lands ordinary stores early
                    self.land(actor)
            elif not actor.finished and actor not in self.blocked:
                self._last = actor
                return actor
        raise deadlock(self)

    def land(self, operation: InFlight) -> None:
        """Both halves of a task wait for copies from before their loop, and the task for those of its second half."""
        super().land(operation)
        if operation.task.halves is not None:
            self.wake(operation.task.halves.first)
            self.wake(operation.task.halves.second)

    def _finish(self, task: TimedTask) -> bool:
        """A core is over when its engines are."""
        if self.engines is not None:
            task.wait_until(self.engines.drained(task), None, "the engines")
            self.now = max(self.now, task.clock)
        return super()._finish(task)

    def _ready(self) -> InFlight:
        return min(self.inflight, key=lambda operation: operation.end)

    @property
    def living(self) -> list[Cta]:
        """CTAs that have not ended."""
        return [cta for cta in self.ctas.values() if cta.live]

    def remember(self, address: int, size: int) -> None:
        """The bytes there are about to be changed."""
        part = self.bytes_at(int(address), size)
        if part is not None:
            self._changed.append((part, part.copy()))

    def array_at(self, address: int) -> int:
        """The start of the argument that has this address, which on a GPU is aligned, whatever it is here; 0 if none has it."""
        found = (gpu.memory.region(address, address + 1) for gpu in self.gpus)
        return next((region.start for region in found if region is not None), 0)

    def bytes_at(self, address: int, size: int) -> np.ndarray | None:
        """The bytes of an argument, of whichever GPU; None if none has them."""
        found = (gpu.memory.region(address, address + size, "writes") for gpu in self.gpus)
        region = next((one for one in found if one is not None), None)
        return None if region is None else region.bytes[address - region.start:][:size]

    def undo(self) -> None:
        """Leave the arrays of the launch as they were."""
        for part, before in reversed(self._changed):
            part[...] = before
        self._changed.clear()

    # ---- what things take -------------------------------------------------------------------------------------------

    def before_others(self, start: float, duration: float) -> float:
        """The number of things that take so long, one after the other, which can begin before anybody else acts."""
        return ceil((self._events[0][0] - start) / duration) if self._events else inf

    def unit(self, task: TimedTask, name: str) -> Queue:
        return task.cta.sm.units[name]

    def advance(self, task: TimedTask, time: float) -> None:
        """The task is busy until `time`, and what it does next starts then."""
        task.clock = max(task.clock, time)
        task.floor = task.clock

    def work(self, task: TimedTask, cost: dict[str, float], slowdown: float = 1.0) -> None:
        """Arithmetic of `task`: units of its SM for so many cycles. Units work side by side within a stretch of arithmetic, as
        the instructions of neighbouring ops do. A task that reaches a part of each takes so much longer, beside others."""
        for name, cycles in cost.items():
            end = self.unit(task, name).take(max(task.floor, task.unit_ends.get(name, 0.0)), cycles) + cycles * (slowdown - 1)
            task.unit_ends[name] = end
            task.clock = max(task.clock, end)

    def lanes(self, task: TimedTask) -> int:
        """The lanes of the task's warps."""
        return task.num_warps * self.conditions.warp_size

    def through_shared(self, task: TimedTask, cycles: float, turns: float = 1.0) -> float:
        """The end of an access to shared memory, from now on; its bytes take `cycles`, its conflicts that many turns for each."""
        end = self.unit(task, "shared").take(task.clock, cycles)
        return max(end, self.unit(task, "banks").take(task.clock, cycles * turns)) if self.turns else end

    def counts_sectors(self, op: Op) -> bool:
        """True of a load through pointers that are computed, in a run that looks at which bytes are asked for."""
        return bool(self._most_loads) and "pointer" in op.row.places and op.pointer in self.needed.values \
            and isinstance(op.pointer.type, Tensor)

    def load(self, task: TimedTask, size: float, what: Any, latency: float, far: float, at: float = 0.0,
             piece: float = inf, by_lanes: bool = False) -> tuple[float, float]:
        """(when the last of `size` bytes has left global memory, when it is there), asked for now, or at a later time; `far` is
        the latency from DRAM, `piece` the bytes that are one request, as a box of TMA's; what lanes ask for takes longer
        than what TMA does. `what` is None for a number: a run that looks at which bytes are asked for is to see tiles, also where
        numbers of a table are loaded before them."""
        self.loaded += size
        if self._most_loads:
            loads = self.numbers if what is None else self.loads
            loads.append((what, size))
            if len(loads) >= self._most_loads * (_NUMBERS if what is None else 1):
                raise Enough
        share, at, far = self.conditions.from_dram, max(at, task.clock), far + self.crowd
        inbound = self.unit(task, "inbound").take(at, size / self.rates["inbound by lanes" if by_lanes else "inbound"])
        left = max(inbound, self.unit(task, "L2").take(at, size * self.served / self.rates["L2"]))
        there = left + latency + self.conditions.far * (far - latency) + self._crowded(task, at, min(size, piece))
        if share:
            dram = self.unit(task, "DRAM").take(at, size * share / self.rates["DRAM"])
            left, there = max(left, dram), max(there, dram + latency)
        self.end = max(self.end, left)          # a CTA does not leave before what it has asked for has come
        return left, there

    def _crowded(self, task: TimedTask, at: float, size: float) -> float:
        """The wait of a load among those of other SMs, which come when they do: as in a queue with random arrivals and equal
        service (M/D/1), by the share of the time in which the way to the SM was busy so far. Where that is always busy its own
        queue holds loads up."""
        if not self.most_crowded or at <= 0:
            return 0.0
        share = min(self.most_crowded, max(self.unit(task, name).busy for name in ("inbound", "L2")) / at)
        return self.others * size / self.rates["inbound"] * share / (2 * (1 - share))

    def store(self, task: TimedTask, size: int, at: float = 0.0) -> float:
        """The time at which `size` bytes have left the SM, from now, or from a later time, on. The launch does not end before they
        have, nor before DRAM has taken its part of them, where the arrays do not fit into L2."""
        self.stored += size
        at = max(at, task.clock)
        left = max(self.unit(task, name).take(at, size / self.rates[name]) for name in ("outbound", "L2 stores"))
        taken = self.unit(task, "DRAM").take(at, size / self.rates["DRAM"]) if self.written_back else left
        self.end = max(self.end, left, taken)
        return left
