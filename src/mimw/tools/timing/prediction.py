"""The prediction of a launch: its figures, what they say bounds the kernel, and how they read.

Input: what the predictor found (`predict`). Output: a `Prediction`. For example:

    found.bound         "tensor cores, busy 91 % of the time"
    print(found)        312.4 us at 1,530 MHz, on NVIDIA H200: 4.0 us of the launch and 471,852 cycles (308.4 us) ...
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ...ir import Site
from ...report.table import Table, table
from ...report.utilisation import all_shares, busy_share
from .result import Timeline

BUSY = 0.75             # a unit that works so much of the time is what bounds a kernel
AT_WORK = 0.9           # and so is a task, if no unit does
MORE = 0.1              # or none does nearly as much of it

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


def _parts(microseconds: float, launch: float, cycles: float) -> str:
    """"4.0 us of the launch and 491 cycles", or that nothing but the launch takes time."""
    if not cycles:
        return f"all of it the launch ({launch:,.1f} us), the kernel itself takes no cycles"
    return f"{launch:,.1f} us of the launch and {cycles:,.0f} cycles ({microseconds - launch:,.1f} us)"


def bound_of(found: Prediction) -> str:
    """The limit of the kernel's speed; the launch, if the kernel has nothing to do."""
    if not found.cycles:
        return "the launch: the kernel itself takes no cycles"
    unit, share = max(found.units.items(), key=lambda item: item[1], default=("", 0.0))
    always, busy = _always_at_work(found)
    if share >= BUSY and busy < share + MORE:
        return f"{found.name_of(unit)}, busy {100 * share:.0f} % of the time"
    worst = next((bubble for bubble in found.bubbles() if bubble.lane[1] != "default" and bubble.site), None)
    waited = f"; the longest waits are of {worst.lane[1]!r} for {worst.what} at {worst.site}" if worst else ""
    worked = f"; {always!r} never waits for long: it spends that time to start its operations" if always else ""
    return f"latency: no unit is busy more than {100 * share:.0f} % of the time ({found.name_of(unit)}){waited}{worked}"


def _always_at_work(found: Prediction) -> tuple[str | None, float]:
    """(the task, how much of the time), if there is one that works nearly all of it: one warp that issues more than it can is
    such a bound."""
    tasks = {(event.cta, event.lane) for event in found.trace.events if event.kind == "run"}
    return next(((lane[1], busy) for lane, row in all_shares(found.trace).items()
                 if lane in tasks and lane[1] != "default" and (busy := busy_share(row)) > AT_WORK), (None, 0.0))
