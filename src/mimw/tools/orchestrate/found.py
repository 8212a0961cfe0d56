"""The result of automatic orchestration: the kernel in tasks, its text, its proof, and a launch that takes it or the plain one.

Input: what the search and the proof found. Output: an `Orchestration`. For example:

    found = mimw.orchestrate(attention, grid, *args, **meta)
    print(found)                    loops, pipes, the plan and the runner-up, predictions, the proof, what was left alone and why
    found[grid](*args, **meta)      the plain kernel's arguments; launches the orchestrated kernel or the plain one
    found.write("attention_ws.py")  from now on an ordinary mimw kernel, to read, edit and tune
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ...compiler.launch import extents_of
from ...compiler.orchestrate.plan import Plan
from ...runtime.before_launch import checking
from ...runtime.call import MEMORY
from ...runtime.simulating import simulating
from ..trials import most_rounds
from .choose import QUICKER, Candidate, Search
from .guards import why_plain
from .plain import Plain, has_defaults, with_defaults
from .prove import Certificate
from .repeated import PLAIN, Frozen, Repeated
from .stock_race import remark
from .tiles import each_alone
from .written import reasons

SHORT, SURER = 8, 1.27      # rounds; so much more is asked of a prediction then: 1.33 was predicted of a kernel, and 0.92 measured


@dataclass(frozen=True)
class Orchestration:
    """An orchestrated launch. `chosen` is the plan that was proved, or None; `is_used` whether it is taken in place of the plain
    kernel, and `because` why or why not."""

    plain: Plain
    search: Search
    chosen: Candidate | None
    certificate: Certificate | None
    is_used: bool
    because: str

    @property
    def kernel(self) -> Any:
        """The kernel in tasks, as its text says it; None without a plan."""
        return None if self.chosen is None else self.chosen.written.kernel

    @property
    def source(self) -> str:
        """The module's text; "" without a plan."""
        return "" if self.chosen is None else self.chosen.written.text

    @property
    def plan(self) -> Plan | None:
        return None if self.chosen is None else self.chosen.plan

    @property
    def refused(self) -> list[str]:
        """The lines that stay as they are, each with its reason."""
        return reasons(self.search.remarks)

    def write(self, path: str | Path) -> None:
        """Write the module's text to a file.

        errors:    ValueError where there is none
        """
        if not self.source:
            raise ValueError(f"{self.plain.name} is not orchestrated: {self.because}")
        Path(path).write_text(self.source)

    def __getitem__(self, grid: Any) -> Any:
        """A launch over `grid` with the plain kernel's arguments: by the orchestrated kernel where it is taken, and where the
        launch is one that it is right for (`guards.py`). The fourth launch of the same sizes is a frozen one (`repeated.py`)."""
        return lambda *args, **meta: self._launched(grid, args, meta)

    @cached_property
    def race(self) -> str:
        """A race that stock Triton puts into the plain kernel; "" if none is known (`stock_race.py`)."""
        return remark(self.plain)

    @cached_property
    def repeated(self) -> Repeated:
        """The launches that came before."""
        return Repeated(self.plain.launch.specialisation.fn)

    @cached_property
    def _has_defaults(self) -> bool:
        return has_defaults(self.plain.launch.specialisation.fn)

    def _launched(self, grid: Any, args: tuple, meta: dict[str, Any]) -> Any:
        kernel, fn = self.plain.kernel, self.plain.launch.specialisation.fn
        memory = {MEMORY: meta.pop(MEMORY)} if MEMORY in meta and MEMORY not in kernel.arg_names else {}
        if not self.is_used:
            return kernel[grid](*args, **meta, **memory)
        whole = with_defaults(fn, args, meta) if self._has_defaults else meta
        extents = extents_of(grid, dict(zip(kernel.arg_names, args)) | whole) if callable(grid) else grid
        found = None
        if not memory and not simulating() and not checking() and extents.__class__ is tuple:
            found = self.repeated.find(extents, args, whole)
            if found is not None and found.kept.__class__ is Frozen:
                return self.repeated.go(found)
        why = PLAIN if found is not None and found.is_plain else why_plain(self, extents, args, whole)
        if found is not None and not found.is_plain:
            self.repeated.note(found, self.chosen.written, extents, args, whole, why)
        if why:
            return kernel[grid](*args, **meta, **memory)
        return self.chosen.written.runs(extents, args, whole, **memory)()

    def as_json(self) -> dict[str, Any]:
        """The report as plain data."""
        return {"kernel": self.plain.name, "orchestrated": self.is_used, "because": self.because,
                "plan": None if self.plan is None else asdict(self.plan), "plain_us": self.search.plain,
                "candidates": [{"plan": asdict(one.plan), "predicted_us": one.predicted, "about_us": one.about,
                                "registers": one.registers, "stack_bytes": one.stack, "undone": one.undone, "out": one.out}
                               for one in self.search.candidates],
                "refused": self.refused, "race": self.race, "seconds": self.search.spent.rounded(),
                "certificate": None if self.certificate is None else asdict(self.certificate)}

    def __str__(self) -> str:
        lines = [f"{self.plain.name}: {'orchestrated' if self.is_used else 'the plain kernel is kept'}, {self.because}"]
        if self.chosen is not None:
            one = self.chosen
            registers = f", {one.registers} registers a thread at launch" if one.registers else ""
            lines.append(f"  {one.name}{registers}" + (f", {one.stack} bytes of stack" if one.stack else "") +
                         ", late products that run beside nothing" * one.undone)
            for ring in one.written.made.rings.roots:
                where = "read to registers by the task that transforms" if ring.raw else \
                    "computed there by that task, read where it lies" if ring.made else \
                    "read where it lies" if ring.direct else "read to registers"
                end = "once" if ring.once else "released a product later" if ring.trails else \
                    f"released behind line {ring.last.site.line}" if ring.direct else "released at once"
                at = ", ".join(str(load.site.line) for load in ring.loads)
                lines.append(f"  pipe {ring.name:12s} line {at:10s} {ring.bytes:7,d} B x {ring.stages}   {where}, {end}")
        others = [one for one in self.search.candidates if one is not self.chosen]
        if others:
            lines.append(f"  runner-up: {_row(others[0])}")
        if self.search.plain is not None:
            lines.append(f"  plain: predicted {self.search.plain:.1f} us")
        if self.certificate is not None:
            lines.append(f"  {self.certificate}")
        lines += [f"  {reason}" for reason in (*self.refused, *filter(None, [self.race]))]
        return "\n".join(lines)


def _row(one: Candidate) -> str:
    time = f"{one.measured:.1f} us measured" if one.measured is not None else \
        f"{one.predicted:.1f} us predicted" if one.predicted is not None else \
        "no prediction" if one.about is None else f"about {one.about:.0f} us by a short run"
    return f"{one.name}, {one.out or time}" + (f", {one.stack} bytes of stack" if one.stack else "") + \
        ", late products that run beside nothing" * one.undone


def _is_short(best: Candidate) -> bool:
    """True if no loop of a launch has more than a few rounds for a tile: predictions of such kernels are too good."""
    rounds = most_rounds(each_alone(best.written))
    return rounds is not None and rounds <= SHORT


def verdict(best: Candidate, search: Search) -> tuple[bool, str]:
    """(whether a proved plan is taken in place of the plain kernel, why)."""
    if best.measured is not None:
        if search.plain_measured is None:
            return True, f"measured {best.measured:.1f} us; the plain kernel does not run with these options"
        ratio = search.plain_measured / best.measured
        return ratio > 1, f"measured {best.measured:.1f} us, plain {search.plain_measured:.1f}: {ratio:.2f} x"
    if best.predicted is None or search.plain is None:
        return False, "nothing predicts its time on this chip: measure both"
    if best.stack:
        return False, f"ptxas spills {best.stack} bytes of each thread's registers, whose time nothing predicts: measure both"
    ratio = search.plain / best.predicted
    text = f"predicted {best.predicted:.1f} us, plain {search.plain:.1f}: {ratio:.2f} x"
    asked = QUICKER * SURER if _is_short(best) else QUICKER
    if ratio < asked:
        return False, f"{text}, and {asked:.2f} x is asked for where nothing is measured" + ", of a short loop" * (asked > QUICKER)
    return True, text
