"""`mimw.predict`: the timeline and the time of a launch, without a GPU.

Input: a kernel, a grid, arguments, and a chip with a cost model. Output: a `Prediction`. For example:

    print(mimw.predict(gemm, (132, ), a, b, c, 4096))      312.4 us at 1,530 MHz, bound by tensor cores, busy 91 % of the time, ...

The CTAs of one SM (of one cluster's SMs) are run by the machine with a clock (simulator/clock/machine.py), with the launch's own
trip counts. The other SMs enter by this SM's share of L2 and DRAM. A short run of all CTAs that are resident at the start counts
which loads are of the same bytes. One run at the boost clock says how busy the tensor cores are; the runs after it are at the
clock that the power limit leaves at that load.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...compiler.analysis import launch_registers, total_warps
from ...compiler.analysis.needed import needed
from ...compiler.passes.place_tensor_memory import columns_taken
from ...compiler.storage import shared_plan
from ...errors import Deadlock, SimulatorMisuse
from ...ir import Site
from ...ir.trace import LINKS, Trace
from ...report.table import Table, table
from ...report.utilisation import all_shares, busy_share
from ...runtime.call import tool
from ...runtime.simulate import Launch, prepare
from ...simulator import bind_launch, clusters
from ...simulator.clock.conditions import Conditions
from ...simulator.clock.machine import Enough, TimedMachine, footprint
from ...simulator.costs import Model, model
from ...target import wanted
from .banks import bank_turns
from .result import Timeline

MOST_CTAS = 8           # of one SM that are simulated; more are extrapolated
MOST_STEPS = 2_000_000  # of all CTAs of several GPUs, a minute or two
CLOCK_ROUNDS = 3        # how often the clock that follows from the load is tried
LOADS_A_CTA = 12        # looked at to see which bytes the CTAs of a wave share
PLAIN_REGISTERS = 128   # a thread of a kernel whose tasks ask for none: the IR does not tell
BUSY = 0.75             # a unit that works so much of the time is what bounds a kernel
AT_WORK = 0.9           # and so is a task, if no unit does

_UNITS = {"tensor": "tensor cores", "inbound": "loads into the SM", "outbound": "stores out of the SM", "L2": "L2 bandwidth",
          "DRAM": "DRAM bandwidth", "shared": "shared memory", "issue": "arithmetic", "special": "special functions",
          "cluster": "cluster network", "link out": "links to other GPUs", "link in": "links from other GPUs",
          "tensor memory": "tensor memory", "rows": "TMA's copies of single rows"}


@dataclass(frozen=True)
class Prediction(Timeline):
    """A predicted timeline.

    cycles      of the kernel, without the launch
    launch      microseconds of `microseconds` that the launch takes, before and after the kernel's cycles
    units       unit -> share of these cycles in which it works
    bound       what limits the kernel: a unit, or that none does and what is waited for most
    residency   CTAs of an SM at once, and what limits them
    waves       how many CTAs an SM runs, over its residency
    from_dram   share of the loaded bytes that come from DRAM
    assumed     lines of branches that depend on data and were taken to be true
    simulated   CTAs that were simulated, of those that an SM runs
    chip        what the figures are of
    core        what runs programs there: an SM, or a core; `programs` are what these are called, one and several
    note        what is to be said of the times, as "predicted, never measured"
    names       what units are called on that chip, where that is not as on an SM
    """

    cycles: float = 0.0
    units: dict[str, float] = field(default_factory=dict)
    bound: str = ""
    residency: tuple[int, str] = (1, "")
    waves: float = 1.0
    from_dram: float = 0.0
    assumed: tuple[Site, ...] = ()
    simulated: tuple[int, int] = (1, 1)
    chip: str = ""
    core: str = "SM"
    programs: tuple[str, str] = ("CTA", "CTAs")
    launch: float = 0.0
    note: str = ""
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return f"{super().title}, {self.note}" if self.note else super().title

    @property
    def costs(self) -> str:
        """The parts of the time: the launch, which a kernel without work takes as well, and the kernel's cycles."""
        return _parts(self.microseconds, self.launch, self.cycles)

    def name_of(self, unit: str) -> str:
        """The name of a unit: of a chip with cores in place of SMs, by its core."""
        return self.names.get(unit) or _UNITS.get(unit, unit).replace("SM", self.core)

    def _page(self):
        page = super()._page()
        rows = tuple((self.name_of(unit), f"{100 * share:.0f} %") for unit, share in sorted(
            self.units.items(), key=lambda item: -item[1]))
        (ctas, by), (one, several) = self.residency, self.programs
        facts = (*page.facts, *filter(None, (self.note, )), self.chip, self.costs,
                 f"{ctas} {several if ctas > 1 else one} per {self.core}, by {by}")
        units = (("Units of the chip", Table(("unit", "busy"), rows, ("busy", ))), ) if rows else ()
        return replace(page, facts=facts, verdict=f"bound by {self.bound.split(';')[0]}", tables=(*units, *page.tables),
                       texts=(("Assumed", "\n".join(f"taken to be true: the branch at {site}" for site in self.assumed)), ))

    def as_json(self) -> dict:
        return super().as_json() | {
            "cycles": self.cycles, "launch_microseconds": self.launch, "units": self.units, "bound": self.bound,
            "residency": list(self.residency), "waves": self.waves,
            "from_dram": self.from_dram, "assumed": [str(site) for site in self.assumed], "simulated": list(self.simulated),
            "chip": self.chip} | ({"note": self.note} if self.note else {})

    def __str__(self) -> str:
        (ctas, by), (one, several) = self.residency, self.programs
        a = "an" if self.core == "SM" else "a"
        lines = [f"{self.title}, on {self.chip}: {self.costs}", f"bound by {self.bound}",
                 f"{ctas} {several if ctas > 1 else one} {a} {self.core} (by {by}), {self.waves:.2f} waves; "
                 f"{100 * self.from_dram:.0f} % of what is loaded comes from DRAM; {self.simulated[0]} of {a} {self.core}'s "
                 f"{self.simulated[1]} {several} simulated"]
        if self.units:
            lines.append(table(("unit", "busy"), [(self.name_of(unit), f"{100 * share:.0f} %") for unit, share in sorted(
                     self.units.items(), key=lambda item: -item[1])], right=("busy", )))
        lines += [f"taken to be true, as it depends on data: the branch at {site}" for site in self.assumed]
        return "\n".join([*lines, *super().__str__().split("\n", 1)[1:]])


@tool
def predict(kernel, grid, *args: Any, target: str | Any = None, num_warps: int | Any = None, num_stages: int | Any = None,
            gpus: int | Any = None, megahertz: float | Any = None, ctas: int | Any = MOST_CTAS, memory: Sequence[Any] | Any = (),
            **meta: Any) -> Prediction:
    """Predict the timeline of a launch of `kernel` over `grid` from the cost model of a chip.

    args:      kernel, grid, args, target, num_warps, num_stages, gpus, memory, meta   as for `mimw.simulate`; arrays are left as
                          they are, and read only where the kernel's course depends on them, so `numpy.empty` will do, also for
                          gigabytes
               megahertz  the SM clock, by default what the power limit leaves for the predicted load
               ctas       how many CTAs of an SM are simulated at most; its other CTAs are taken to be like these on average
    returns:   Prediction
    errors:    TargetError for a chip without a cost model; SimulatorMisuse where a loop's bounds depend on data; SimulationError
               and its kinds where the kernel gets stuck
    """
    chip = wanted(target)
    costs = model(chip)
    launch = prepare(kernel, grid, args, dict(meta), chip.name, gpus, memory)
    return _Predictor(launch, costs, chip, ctas).prediction(megahertz)


class _Predictor:
    """The runs of one launch."""

    def __init__(self, launch: Launch, costs: Model, chip, most: int):
        self.launch, self.costs, self.chip = launch, costs, chip
        program = launch.program
        self.needed = needed(program)
        if self.needed.bounds:
            raise SimulatorMisuse("the bounds of a loop come out of a copy, a dot or another CTA, and a prediction computes none "
                                  "of these", *self.needed.bounds, hint="mimw.profile measures such a kernel")
        regions = program.where(lambda row: row.name == "warp_specialize") if chip.has("register_moves") else ()
        asked = any(task.registers for op in regions for task in op.attrs["tasks"])
        most_registers = launch.specialisation.options.get("maxnreg") or PLAIN_REGISTERS
        registers = launch_registers(program, chip) if asked else min(PLAIN_REGISTERS, most_registers)
        self.residency = costs.residency(shared_plan(program).peak, total_warps(program), registers,
                                         chip.warp_size, columns_taken(program))
        self.grid = (*launch.grid, 1, 1)[:3]
        bound = bind_launch(program, launch.values, launch.gpus, launch.memory)
        self.turns = bank_turns(program, launch.specialisation, chip)
        self.gpus, self.memory, self.arguments = bound.gpus, bound.memory, bound.arguments
        for gpu in self.gpus:
            gpu.steps_left = None       # of ranks that die no time is asked
        size = program.cluster_size
        self.order = list(clusters(self.grid, program.cluster))
        cores = costs.cores(program)
        self.groups = max(1, cores // size)                       # clusters that start side by side
        self.slots = min(self.residency[0], -(-len(self.order) // self.groups))
        self.mine = self.order[::self.groups]
        self.sms = min(cores, len(self.order) * size)
        count = max(self.slots, min(len(self.mine), most))
        self.chosen = [self.mine[round(i * (len(self.mine) - 1) / max(1, count - 1))] for i in range(count)]
        self.side_by_side = 1           # of the clusters of each GPU that start together, how many are simulated

    def run(self, megahertz: float, from_dram: float, order, slots: int, most_loads: int = 0) -> TimedMachine:
        conditions = Conditions(megahertz, self.sms, from_dram, self.chip.warp_size)
        machine = TimedMachine(self.launch.program, self.grid, self.arguments, self.memory, self.costs, conditions, self.needed,
                               order, slots, most_loads, self.gpus, self.side_by_side if most_loads == 0 else 1)
        machine.turns = self.turns
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
        total = sum(size for _, size in probe.loads)
        return sum(dict(probe.loads).values()) / total if total else 0.0

    def prediction(self, megahertz: float | None) -> Prediction:
        clock, size = megahertz or self.costs["chip.boost_mhz"], self.launch.program.cluster_size
        from_dram = self.traffic()
        machine = self.first_run(clock, from_dram)
        scale = len(self.mine) / len(self.chosen)
        loaded = machine.loaded * scale / size * self.sms
        arrays = footprint(self.memory)
        if arrays <= self.costs["chip.l2_bytes"] and loaded:
            from_dram = min(from_dram, arrays / loaded)
        for _ in range(CLOCK_ROUNDS):
            before, clock = clock, megahertz or self.clock(self.units(machine).get("tensor", 0.0))
            machine = self.run(clock, from_dram, self.chosen, self.slots)
            if abs(clock - before) < 0.02 * clock:
                break
        cycles = machine.end * scale if scale > 1 else machine.end
        launch = self.costs["launch.microseconds"]
        trace = Trace([replace(event, start=event.start / clock, end=event.end / clock, cta=self.number(machine, event.cta))
                       for event in machine.trace.events], "us",
                      {self.number(machine, cta): rank for cta, rank in machine.trace.ranks.items()})
        units = self.units(machine)
        waves = len(self.mine) / self.slots / self.side_by_side
        found = Prediction(self.launch.name, self.launch.grid, launch + cycles / clock, clock, trace, cycles, units, "",
                           self.residency, waves, from_dram, tuple(op.site for op in self.needed.unknown),
                           (len(self.chosen), len(self.mine)), self.costs.chip, self.costs.core, self.costs.programs, launch,
                           self.costs.note, self.costs.names, program=self.launch.program, target=self.chip)
        return replace(found, bound=_bound(found))

    def first_run(self, clock: float, from_dram: float) -> TimedMachine:
        """The CTAs of one SM of each GPU; or, where these wait for signals of others, all CTAs."""
        try:
            return self.run(clock, from_dram, self.chosen, self.slots)
        except Deadlock:
            if self.launch.gpus == 1 or self.side_by_side > 1 or len(self.order) == 1:
                raise
            self.side_by_side = min(self.groups, len(self.order))
            self.mine = self.chosen = self.order
            return self.run(clock, from_dram, self.chosen, self.slots)

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
        """The clock under the power limit: tensor cores that work `tensor` of the time hold it down."""
        boost, share = self.costs["chip.boost_mhz"], self.costs.get("power.tensor_share", 1.0)
        return max(self.costs.get("power.least_mhz", 0.0), boost * min(1.0, share / tensor if tensor else 1.0))


def _parts(microseconds: float, launch: float, cycles: float) -> str:
    """"4.0 us of the launch and 491 cycles", or that nothing but the launch takes time."""
    if not cycles:
        return f"all of it the launch ({launch:,.1f} us), the kernel itself takes no cycles"
    return f"{launch:,.1f} us of the launch and {cycles:,.0f} cycles ({microseconds - launch:,.1f} us)"


def _bound(found: Prediction) -> str:
    """The limit of the kernel's speed; the launch, if the kernel has nothing to do."""
    if not found.cycles:
        return "the launch: the kernel itself takes no cycles"
    unit, share = max(found.units.items(), key=lambda item: item[1], default=("", 0.0))
    what = f"{found.name_of(unit)}, busy {100 * share:.0f} % of the time"
    if share >= BUSY:
        return what
    worst = next((bubble for bubble in found.bubbles() if bubble.lane[1] != "default" and bubble.site), None)
    waited = f"; the longest waits are of {worst.lane[1]!r} for {worst.what} at {worst.site}" if worst else ""
    always = _always_at_work(found)
    worked = f"; {always!r} never waits for long: what it starts takes that long to start" if always else ""
    return f"latency: no unit is busy more than {100 * share:.0f} % of the time ({found.name_of(unit)}){waited}{worked}"


def _always_at_work(found: Prediction) -> str | None:
    """The task, if there is one, that works nearly all of the time: one warp that issues more than it can is such a bound."""
    tasks = {(event.cta, event.lane) for event in found.trace.events if event.kind == "run"}
    return next((lane[1] for lane, row in all_shares(found.trace).items()
                 if lane in tasks and lane[1] != "default" and busy_share(row) > AT_WORK), None)
