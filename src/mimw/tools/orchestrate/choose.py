"""Which way to orchestrate a launch: every plan is written and ranked, the best ones are predicted and compiled, and one is proved.

Input: a `Plain` launch. Output: `Candidate`s, the best one first. For example:

    found = candidates(plain)
    found[0].plan, found[0].predicted       Plan(consumers=2, ...), 393.7 microseconds

What is known of all plans at once costs little: that they can be written, and the time of a short run of each (`ranking.py`). The
best few of these are predicted, and compiled one after the other until one does not spill registers: plans that do are put behind
the others. Without a cost model of the chip plans stand in the order in which
they are tried: two consumers with products that run behind first, as that was best in all that was measured.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import inf, prod

from ...compiler.analysis.remarks import Remark
from ...compiler.orchestrate.persist import persistent
from ...compiler.orchestrate.plan import Plan
from ...ir import Program
from ...runtime.ahead import compile as compiled
from .plain import Plain
from .ranking import FEW, close, predictions, ranked
from .spent import Spent
from .written import Written, device_programs, fitted, written

COMPILED = 4        # of the best plans at most, until one spills no registers
QUICKER = 1.10      # what a plan has to be predicted over plain, where nothing can be measured


@dataclass(frozen=True)
class Candidate:
    """A plan carried out: its predicted microseconds, or None; those of a short run, where it was ranked by one; registers a thread
    and bytes of stack once it is compiled; and why it is out, "" if it is not."""

    written: Written
    predicted: float | None = None
    about: float | None = None
    registers: int | None = None
    stack: int = 0
    measured: float | None = None
    out: str = ""

    @property
    def plan(self) -> Plan:
        return self.written.plan

    @property
    def name(self) -> str:
        """For tables: `2 x 4 warps, delayed`."""
        more = ["delayed"] * self.written.is_delayed + ["persistent"] * self.written.is_persistent + ["stores"] * self.plan.stores
        return ", ".join([f"{self.plan.consumers} x {self.written.num_warps} warps", *more])


@dataclass
class Search:
    """The search's findings: candidates, the plain kernel's predicted time, and what was said of the plain kernel's lines. `spent`
    has the seconds of its parts."""

    candidates: list[Candidate] = field(default_factory=list)
    plain: float | None = None
    plain_measured: float | None = None
    remarks: tuple[Remark, ...] = ()
    spent: Spent = field(default_factory=Spent)


def plans(program: Program) -> Iterator[Plan]:
    """The plans to try, in their order: with a program a tile, and with programs that take tiles in turn, whose stores may run on
    beside the next tile."""
    warps = program.num_warps
    shapes = [(2, None), (1, None)] + [(1, 8)] * (warps < 8) + [(2, 8)] * (warps >= 16)
    behind = [True, False] if len(program.named("dot")) > 1 else [False]
    on = [False, True] if any("loop" in op.row.traits for op in program.walk()) and program.named("descriptor_store") else [False]
    in_turn = [True, False] if any(op.row.stores or op.name == "descriptor_store" for op in program.walk()) else [False]
    for consumers, each in shapes:
        for delayed in behind:
            for stores in on:
                yield Plan(consumers=consumers, warps=each, delayed=delayed, stores=stores)
            for stores in in_turn:
                yield Plan(consumers=consumers, warps=each, delayed=delayed, persistent=True, stores=stores)


def candidates(plain: Plain, only: Plan | None = None, predict: bool = True) -> Search:
    """All plans, or one, written; where they are to be predicted also ranked, and the best of them predicted and compiled. Who
    measures needs neither."""
    found, remarks, seen = Search(), [], set()
    in_turn = _in_turn(plain, remarks)
    for plan in [only] if only is not None else (one for one in plans(plain.program) if in_turn or not one.persistent):
        with found.spent.on("write"):
            one = written(plain, plan, fits=not predict)
        remarks += [remark for remark in one.remarks if remark not in remarks]
        if one.wrong:
            found.candidates.append(Candidate(one, out=f"a mistake of mimw's: {one.wrong}"))
        elif one.kernel is not None and (text := re.sub(r"\nPlan: .*", "", one.text)) not in seen:
            seen.add(text)
            found.candidates.append(Candidate(one, out=_fault(one) if predict else ""))
        elif one.refused:
            found.candidates.append(Candidate(one, out=one.refused))
    found.remarks = tuple(remarks)
    if predict:
        _rank(found, plain)
    return found


def _rank(found: Search, plain: Plain) -> None:
    """Put the candidates in order: the best ones predicted, and the first one compiled."""
    good, out = ([one for one in found.candidates if bool(one.out) is out] for out in (False, True))
    with found.spent.on("rank"):
        found.plain, times = ranked(plain, [one.written for one in good] if len(good) > FEW else [])
    if times:
        good = [replace(one, about=time) for one, time in zip(good, times)]
        best = close(times)
        good = [good[at] for at in best] + sorted((one for at, one in enumerate(good) if at not in best), key=_order)
    with found.spent.on("write"):
        first = [replace(one, written=fitted(one.written)) for one in good[:len(best) if times else FEW]]
    with found.spent.on("predict"):
        first = [replace(one, predicted=time) for one, time in zip(first, predictions([one.written for one in first]))]
    found.candidates = sorted([*first, *good[len(first):]], key=_order) + out
    for at in range(min(COMPILED, len(good))):
        found.candidates[at] = finished(found.candidates[at], found.spent)
        if not found.candidates[at].out and not found.candidates[at].stack:
            break
    found.candidates.sort(key=_order)


def finished(one: Candidate, spent: Spent) -> Candidate:
    """The candidate with all that is to be known of it before it is proved: its slots, prediction, registers and stack."""
    if one.out or one.measured is not None:
        return one
    with spent.on("write"):
        one = replace(one, written=fitted(one.written))
        one = replace(one, out=_fault(one.written))
    if one.predicted is None and one.about is not None:
        with spent.on("predict"):
            one = replace(one, predicted=predictions([one.written])[0])
    with spent.on("compile"):
        return one if one.out or one.registers is not None else _compiled(one)


def _in_turn(plain: Plain, remarks: list[Remark]) -> bool:
    """True if programs may take the launch's tiles in turn, and there are more tiles than multiprocessors; else `remarks` have the
    reason, where it is one of the kernel's lines."""
    if prod(map(int, plain.launch.grid)) <= device_programs(plain.chip):
        return False
    tiles = persistent(plain.program)
    if not tiles.params:
        remarks += tiles.remarks
    return bool(tiles.params)


def _order(one: Candidate) -> tuple:
    """Those that are out last; those that spill behind those that do not; those that were predicted first."""
    measured, predicted = (time if time is not None else other for time, other in ((one.measured, inf), (one.predicted, 0.0)))
    return bool(one.out), measured, bool(one.stack), one.predicted is None and one.about is not None, predicted, one.about or 0.0


def _fault(one: Written) -> str:
    """What the language's own rules, asked once more of the text, say of a kernel that is there; "" for nothing."""
    if one.kernel is None:
        return one.refused or (f"a mistake of mimw's: {one.wrong}" if one.wrong else "")
    try:
        one.launch()
    except Exception as error:      # Triton's CompilationError, of what the rules refuse, is no MimwError
        return _line(error)
    return ""


def _compiled(one: Candidate) -> Candidate:
    plain = one.written.plain
    try:
        made = compiled(one.written.kernel, one.written.programs(plain.launch.grid), *one.written.arguments(),
                        num_warps=one.written.num_warps, target=plain.chip.name)
    except Exception as error:
        return replace(one, out=_line(error))
    return replace(one, registers=made.registers, stack=made.stack_bytes or 0)


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
