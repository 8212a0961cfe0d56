"""`mimw.predict`: the timeline and the time of a launch, without a GPU.

Input: a kernel, a grid, arguments, and a chip with a cost model. Output: a `Prediction`. For example:

    print(mimw.predict(gemm, (132, ), a, b, c, 4096))      312.4 us at 1,530 MHz, bound by tensor cores, busy 91 % of the time, ...

The CTAs of one SM (of one cluster's SMs) are run by the machine with a clock (simulator/clock/machine.py), with the launch's own
trip counts. The other SMs enter by this SM's share of L2 and DRAM. A short run of all CTAs that are resident at the start counts
which loads are of the same bytes. One run at the boost clock says how busy the tensor cores are; the runs after it are at the
clock that the power limit leaves at that load.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from ...compiler.analysis import launch_registers, total_warps
from ...compiler.analysis.addressed import accesses, addressed
from ...compiler.analysis.needed import needed
from ...compiler.passes.place_tensor_memory import columns_taken
from ...compiler.storage import shared_plan
from ...errors import Deadlock, Livelock, SimulatorMisuse
from ...ir.trace import LINKS, Trace
from ...ir.types import element_of
from ...runtime.call import tool
from ...runtime.fits import as_compiled
from ...runtime.simulate import Launch, prepare
from ...simulator import bind_launch, clusters
from ...simulator.clock.conditions import Conditions
from ...simulator.clock.machine import Enough, TimedMachine, footprint
from ...simulator.clock.pipelined import Pipelined, find_pipelined
from ...simulator.clock.sectors import SECTOR
from ...simulator.costs import Model, model
from ...target import Target, wanted
from .banks import bank_turns
from .binary import taken_by_binary
from .prediction import Prediction, bound_of
from .sampling import Sample, even, stratified, works_of

MOST_CTAS = 8           # of one SM that are simulated; more are extrapolated
MOST_STEPS = 2_000_000  # of all CTAs of several GPUs, a minute or two
CLOCK_ROUNDS = 3        # how often the clock that follows from the load is tried
LOADS_A_CTA = 12        # looked at to see which bytes the CTAs of a wave share
PLAIN_REGISTERS = 128   # a thread of a kernel whose tasks ask for none, where it is not compiled: the IR does not tell
STAGES, VECTOR = 3, 16  # Triton's own of a loop; bytes of a lane's access, for which one address is computed


@tool
def predict(kernel, grid, *args: Any, target: str | Any = None, num_warps: int | Any = None, num_stages: int | Any = None,
            gpus: int | Any = None, megahertz: float | Any = None, ctas: int | Any = MOST_CTAS, memory: Sequence[Any] | Any = (),
            **meta: Any) -> Prediction:
    """Predict the timeline of a launch of `kernel` over `grid` from the cost model of a chip.

    args:      kernel, grid, args, target, num_warps, num_stages, gpus, memory, meta   as for `mimw.simulate`; arrays are left as
                          they are, and read only where the kernel's course depends on them, so `numpy.empty` will do, also for
                          gigabytes
               megahertz  the SM clock, by default what the power limit leaves for the predicted load
               ctas       how many CTAs of an SM are simulated at most, or a few for each that it holds at once; its other CTAs are
                          taken to be like these, by their work
    returns:   Prediction
    errors:    TargetError for a chip without a cost model; SimulatorMisuse where a loop's bounds depend on data; SimulationError
               and its kinds where the kernel gets stuck
    """
    chip = wanted(target)
    model(chip)     # refuses a chip without one before the kernel is recorded
    return predicted(prepare(kernel, grid, args, dict(meta), chip.name, gpus, memory), chip, ctas, megahertz)


def predicted(launch: Launch, chip: Target, ctas: int = MOST_CTAS, megahertz: float | None = None) -> Prediction:
    """The prediction of a launch that is ready; arguments and errors as of `predict`."""
    return Predictor(launch, model(chip), chip, ctas).prediction(megahertz)


def timed(launch: Launch, chip: Target) -> tuple[float, float]:
    """(microseconds, MHz) as `predicted` has them, without the timeline, a third of its time. Errors as of `predict`."""
    one = Predictor(launch, model(chip), chip, MOST_CTAS, traced=False)
    _, clock, _, cycles = one.settled(None)
    return one.costs["launch.microseconds"] + cycles / clock, clock


def rough(launch: Launch, chip: Target, megahertz: float | None = None, alone: float | None = None) -> float:
    """Microseconds of a launch by one run of a few CTAs at a clock, by default the boost clock: for comparing forms of one kernel.
    A prediction takes three to six times as long, and looks for the clock that the power limit leaves. `alone`: what `first_asked`
    says of another form that loads the same tiles in the same order, which saves half of the run. Errors as of `predict`."""
    return Predictor(launch, model(chip), chip, 1, traced=False).rough(megahertz, alone)


def first_asked(launch: Launch, chip: Target) -> float | None:
    """The share of the loaded bytes that no CTA of those which start together has asked for before; None of a kernel with loads by
    pointers, of each of which `rough` needs more. Errors as of `predict`."""
    one = Predictor(launch, model(chip), chip, 1, traced=False)
    alone = one.traffic()
    return None if one.spread else alone


class Predictor:
    """The runs of one launch."""

    def __init__(self, launch: Launch, costs: Model, chip, most: int, traced: bool = True):
        self.launch, self.costs, self.chip, self.traced = launch, costs, chip, traced
        program = launch.program
        self.needed = needed(program)
        if self.needed.bounds:
            raise SimulatorMisuse("the bounds of a loop come from a copy, a dot or another CTA, and a prediction computes none "
                                  "of these", *self.needed.bounds, hint="mimw.profile measures such a kernel")
        regions = program.where(lambda row: row.name == "warp_specialize") if chip.has("register_moves") else ()
        asked = any(task.registers for op in regions for task in op.attrs["tasks"])
        most_registers = launch.specialisation.options.get("maxnreg") or PLAIN_REGISTERS
        registers = launch_registers(program, chip) if asked else min(PLAIN_REGISTERS, most_registers)
        self.grid = (*launch.grid, 1, 1)[:3]
        bound = bind_launch(program, launch.values, launch.gpus, launch.memory)
        self.turns = bank_turns(program, launch.specialisation, chip)
        self.spread, self.alone = {}, 1.0
        self.addresses, self.vector, self.pipelined = frozenset(), 1, Pipelined()
        if chip.backend == "cuda":
            reached = accesses(program)
            self.addresses = addressed(program)
            self.vector = VECTOR // max((element_of(op.pointer.type).pointee.bytes for op in reached), default=VECTOR)
            self.pipelined = find_pipelined(program, launch.specialisation.options.get("num_stages", STAGES))
        self.gpus, self.memory, self.arguments = bound.gpus, bound.memory, bound.arguments
        for gpu in self.gpus:
            gpu.steps_left = None       # of ranks that die no time is asked
        size = program.cluster_size
        self.order = list(clusters(self.grid, program.cluster))
        cores = costs.cores(program)
        self.groups = max(1, cores // size)                       # clusters that start side by side
        shared = shared_plan(program).peak
        plain = launch.reading is not None or not program.orchestrates()    # whose registers and memory no word says
        if plain and len(self.order) > self.groups and (taken := taken_by_binary(launch.specialisation, chip)):
            registers, shared = taken
        self.residency = costs.residency(shared, total_warps(program), registers, chip.warp_size, columns_taken(program))
        if self.residency[0] > 1 and len(self.order) > self.groups and (
                memory := as_compiled(launch.specialisation, program)) is not None:     # scratch is no part of the plan
            self.residency = costs.residency(memory.total, total_warps(program), registers, chip.warp_size, columns_taken(program))
        self.slots = min(self.residency[0], -(-len(self.order) // self.groups))
        self.sms = min(cores, len(self.order) * size)
        self.of_first, self.most = even(self.order, self.groups, self.slots, most), most
        self.side_by_side = 1           # of the clusters of each GPU that start together, how many are simulated

    @cached_property
    def sample(self) -> Sample:
        """The clusters that are simulated; another one, where these wait for clusters that are not among them."""
        differ = self.launch.gpus == 1 and not self.costs.engines
        works = works_of(self.launch.program, self.costs, self.arguments, self.grid, self.order) if differ else None
        return self.of_first if works is None else stratified(self.order, works, self.groups, self.slots, self.most)

    def run(self, megahertz: float, from_dram: float, order, slots: int, most_loads: int = 0) -> TimedMachine:
        far = min(1.0, from_dram / self.alone) if self.alone else 0.0
        conditions = Conditions(megahertz, self.sms, from_dram, self.chip.warp_size, self.alone, far)
        wanted = replace(self.needed, values=self.needed.values | self.addresses) if most_loads else self.needed
        machine = TimedMachine(self.launch.program, self.grid, self.arguments, self.memory, self.costs, conditions, wanted,
                               order, slots, most_loads, self.gpus, self.side_by_side if most_loads == 0 else 1)
        machine.turns, machine.spread = self.turns, self.spread
        if not most_loads:      # a load that is asked for ahead is told by this trip's bytes: of what is counted each has its own
            machine.pipelined = self.pipelined
        machine.addresses, machine.vector = self.addresses, self.vector
        if most_loads or not self.traced:
            machine.trace = None        # nobody looks at it, and its texts take a fifth of the time
        machine.most_steps = MOST_STEPS if self.side_by_side > 1 else machine.most_steps
        try:
            with np.errstate(all="ignore"):
                machine.run()
        except Enough:
            if not most_loads:
                raise SimulatorMisuse(f"programs of {self.launch.name} wait for signals of programs on other SMs, and to run all "
                                      f"{len(self.order)} clusters of {self.launch.gpus} GPUs takes more than {MOST_STEPS:,} steps",
                                      hint="predict a smaller launch: fewer programs, or shorter loops") from None
        finally:
            machine.undo()
        return machine

    def traffic(self) -> float:
        """Share of the loaded bytes that are asked for first by the CTAs that start together."""
        first = self.order[:self.groups * self.slots]
        probe = self.run(self.costs["chip.boost_mhz"], 0.0, first, len(first),
                         LOADS_A_CTA * len(first) * self.launch.program.cluster_size * self.launch.gpus)
        self.spread = {op: sum(each) / len(each) for op, each in probe.moved.items()}
        total = sum(size for _, size in probe.loads)
        self.alone = _asked_first(probe.loads) / total if total else float(bool(probe.numbers))
        return self.alone

    def settled(self, megahertz: float | None) -> tuple[TimedMachine, float, float, float]:
        """(a run at the launch's clock, by default what the power limit leaves at its load; that clock; the share of what is loaded
        that comes from DRAM; the launch's cycles)."""
        clock, size = megahertz or self.costs["chip.boost_mhz"], self.launch.program.cluster_size
        from_dram = self.traffic()
        machine = self.first_run(clock, from_dram)
        loaded = machine.loaded * self.sample.number / len(self.sample.chosen) * self.sms / (size * self.side_by_side)
        arrays = footprint(self.memory)
        if arrays <= self.costs["chip.l2_bytes"] and loaded:
            from_dram = min(from_dram, arrays / loaded)
        for _ in range(CLOCK_ROUNDS):
            before, clock = clock, megahertz or self.clock(self.units(machine).get("tensor", 0.0))
            machine = self.run(clock, from_dram, self.sample.chosen, self.slots)
            if abs(clock - before) < 0.02 * clock:
                break
        return machine, clock, from_dram, self.of_all(machine, clock, from_dram)

    def prediction(self, megahertz: float | None) -> Prediction:
        machine, clock, from_dram, cycles = self.settled(megahertz)
        launch = self.costs["launch.microseconds"]
        trace = Trace([replace(event, start=event.start / clock, end=event.end / clock, cta=self.number(machine, event.cta))
                       for event in machine.trace.events], "us",
                      {self.number(machine, cta): rank for cta, rank in machine.trace.ranks.items()})
        units = self.units(machine)
        mine = -(-len(self.order) // self.groups) if self.side_by_side == 1 else len(self.order)
        waves = mine / self.slots / self.side_by_side
        found = Prediction(self.launch.name, self.launch.grid, launch + cycles / clock, clock, trace, cycles, units, "",
                           self.residency, waves, from_dram, tuple(op.site for op in self.needed.unknown),
                           (len(self.sample.chosen), mine), self.costs.chip, self.costs.core, self.costs.programs, launch,
                           self.costs.note, self.costs.names, program=self.launch.program, target=self.chip,
                           memory=partial(as_compiled, self.launch.specialisation, self.launch.program))
        return replace(found, bound=bound_of(found))

    def rough(self, megahertz: float | None, alone: float | None = None) -> float:
        """The microseconds of one run of the sample."""
        clock = megahertz or self.costs["chip.boost_mhz"]
        self.alone = from_dram = self.traffic() if alone is None else alone
        return self.costs["launch.microseconds"] + self.of_all(self.first_run(clock, from_dram), clock, from_dram) / clock

    def of_all(self, machine: TimedMachine, clock: float, from_dram: float) -> float:
        """The cycles of the launch, of which the machine has run a sample."""
        if not self.sample.differs:
            busy = max((unit.busy for unit in machine.sms[0][0].units.values()), default=0.0)
            return self.sample.of_alike(machine.end, [end for _, end in machine.stays.values()], busy)
        alone = machine if self.slots == 1 else self.run(clock, from_dram, self.sample.chosen, 1)
        return self.sample.of_others(machine.end, [end - start for start, end in alone.stays.values()])

    def first_run(self, clock: float, from_dram: float) -> TimedMachine:
        """A sample of the CTAs; where these wait for others, those of the first SM, which begin what others wait for; and on
        several GPUs, where these do as well, all CTAs."""
        try:
            return self.run(clock, from_dram, self.sample.chosen, self.slots)
        except (Deadlock, Livelock):
            if self.sample is not self.of_first:
                self.sample = self.of_first
                return self.first_run(clock, from_dram)
            if self.launch.gpus == 1 or self.side_by_side > 1 or len(self.order) == 1:
                raise
            self.simulate_all()
            return self.run(clock, from_dram, self.sample.chosen, self.slots)

    def simulate_all(self) -> None:
        """All CTAs on all SMs, in place of a sample of one SM's."""
        self.side_by_side = min(self.groups, len(self.order))
        self.sample = even(self.order, 1, len(self.order), len(self.order))

    def number(self, machine: TimedMachine, cta: int) -> int:
        """The linear program id of a CTA; on several GPUs those of each rank follow those of the ranks before."""
        if cta == LINKS:
            return cta
        (x, y, z), rank = machine.ctas[cta].index, machine.ctas[cta].gpu.rank
        return x + self.grid[0] * (y + self.grid[1] * (z + self.grid[2] * rank))

    def units(self, machine: TimedMachine) -> dict[str, float]:
        """Unit -> share of the run in which it worked, on the first SM."""
        found = {name: unit.busy / machine.end for name, unit in machine.sms[0][0].units.items() if machine.end}
        if machine.ways is not None and machine.end:
            found |= {"link out": machine.ways.out[0].busy / machine.end, "link in": machine.ways.into[0].busy / machine.end}
        return found

    def clock(self, tensor: float) -> float:
        """The clock under the power limit, which tensor cores hold down that work for that share of the time."""
        slower = self.costs.get("power.base", 0.0) + self.costs.get("power.tensor", 0.0) * tensor
        return self.costs["chip.boost_mhz"] / max(1.0, slower)


def _asked_first(loads) -> float:
    """Bytes of the loads that no load before them asked for."""
    by_sector = [what for what, _ in loads if isinstance(what, np.ndarray)]
    others = dict(load for load in loads if not isinstance(load[0], np.ndarray))
    return sum(others.values()) + (SECTOR * len(np.unique(np.concatenate(by_sector))) if by_sector else 0)
