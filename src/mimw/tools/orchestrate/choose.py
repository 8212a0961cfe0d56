"""Which way to orchestrate a launch: every plan is written and ranked, the best ones are predicted and compiled, and one is proved.

Input: a `Plain` launch. Output: `Candidate`s, the best one first. For example:

    found = candidates(plain)
    found[0].plan, found[0].predicted       Plan(consumers=2, ...), 393.7 microseconds

What is known of all plans at once costs little: that they can be written, and the time of a short run of each (`ranking.py`). The
best few of these are predicted, and compiled one after the other until one is right: plans that spill registers, or of which the
assembler has undone what its late products are for, are put behind the others. Without a cost model of the chip plans stand in the
order in which they are tried: two consumers with products that run behind first, as that was best in all that was measured.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import inf, prod
from typing import Any

from ...compiler.analysis.remarks import Remark
from ...compiler.analysis.shared_rows import WGMMA_ROWS
from ...compiler.analysis.trips import axes_of_lengths
from ...compiler.orchestrate.authors_tiles import authors_tiles
from ...compiler.orchestrate.persist import persistent
from ...compiler.orchestrate.plan import Plan
from ...compiler.orchestrate.tile_orders import BAND, row_of_tiles, shares_rows_and_columns
from ...compiler.orchestrate.together import may_go_together
from ...compiler.orchestrate.transforms import may_transform
from ...compiler.passes.accumulate_dots import accumulate_dots
from ...ir import Program
from ...runtime.ahead import compile as compiled
from .overlap import undone
from .plain import Plain
from .ranking import FEW, close, predictions, ranked
from .several import several
from .spent import Spent
from .tensor_plans import tensor_plans
from .tiles import columns_of
from .touched import takes_registers, touched
from .written import Written, device_programs, fitted, may_gather, written

TOGETHER = 4        # trips, each with its product beside what the one before does with its own
TRANSFORMING = 4, 8     # warps of a task that transforms; a consumer beside another one leaves no registers for eight
COMPILED = 4        # of the best plans, that ptxas takes, until one is as it should be
WHOLE_TILES = 128 * 128     # elements of sums that a consumer of four warps can hold: 128 registers a thread
QUICKER = 1.10      # what a plan has to be predicted over plain, where nothing can be measured


@dataclass(frozen=True)
class Candidate:
    """A plan carried out: its predicted microseconds, or None; those of a short run, where it was ranked by one; registers a
    thread, bytes of stack, and whether the assembler has `undone` what late products were for (`overlap.py`), once it is compiled;
    and why it is out, "" if it is not."""

    written: Written
    predicted: float | None = None
    about: float | None = None
    registers: int | None = None
    stack: int = 0
    undone: bool = False
    measured: float | None = None
    out: str = ""

    @property
    def plan(self) -> Plan:
        return self.written.plan

    @property
    def name(self) -> str:
        """For tables: `2 x 4 warps, delayed`."""
        plan = self.plan
        more = ["gathers"] * plan.gathers + ["delayed"] * self.written.is_delayed
        more += ["persistent"] * self.written.is_persistent + ["y first"] * (self.written.is_persistent and plan.across)
        more += [f"bands of {plan.band}"] * bool(plan.band)
        more += ["last tiles first"] * (self.written.is_persistent and plan.last_first)
        more += ["stores"] * plan.stores
        more += [f"{plan.together} trips together"] * (plan.together > 1)
        more += [f"{plan.transform} to transform"] * bool(plan.transform) + [f"{plan.programs} at once"] * bool(plan.programs)
        more += ["ping-pong"] * plan.pingpong + ["whole tiles in turn"] * plan.tiles_in_turn
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


def plans(program: Program, gathers: bool = False) -> Iterator[Plan]:
    """The plans to try, in their order: with a program a tile, and with programs that take tiles in turn, whose stores may run on
    beside the next tile; where products are late, two consumers also start them in turn; and two consumers with whole tiles. With
    `gathers` each of them twice: loads that are no boxes by cp.async, and left to the consumers. Then with several trips together,
    and with a task for tiles that are computed from what is loaded, if there are such.

    Measured on an H200, turns at products were never quicker than programs that take tiles in turn, and whole tiles only where
    tiles are no larger than a consumer holds: these are one plan each."""
    found = list(_plans(program, gathers))
    yield from found
    some = [plan for plan in found if plan.warps is None and not (plan.gathers or plan.pingpong or plan.tiles_in_turn)]
    if may_go_together(accumulate_dots(program)):
        yield from (replace(plan, together=TOGETHER) for plan in some if plan.stores is plan.persistent)
    if may_transform(program):
        yield from (replace(plan, transform=warps) for plan in some if not plan.stores
                    for warps in TRANSFORMING if warps == 4 or plan.consumers == 1)


def _plans(program: Program, gathers: bool) -> Iterator[Plan]:
    if gathers:
        yield from (replace(plan, gathers=True) for plan in _plans(program, False))
    warps = program.num_warps
    shapes = [(2, None), (1, None)] + [(1, 8)] * (warps < 8) + [(2, 8)] * (warps >= 16) + [(4, 4)] * _is_tall(program)
    behind = [True, False] if len(program.named("dot")) > 1 else [False]
    on = [False, True] if any("loop" in op.row.traits for op in program.walk()) and program.named("descriptor_store") else [False]
    in_turn = [True, False] if any(op.row.stores or op.name == "descriptor_store" for op in program.walk()) else [False]
    for consumers, each in shapes:
        for delayed in behind:
            for stores in on:
                yield Plan(consumers=consumers, warps=each, delayed=delayed, stores=stores)
            for stores in in_turn:
                yield Plan(consumers=consumers, warps=each, delayed=delayed, persistent=True, stores=stores)
    if behind[0]:
        yield Plan(consumers=2, pingpong=True)
    if _sums(program) <= WHOLE_TILES:
        persistent = authors_tiles(program) is None
        yield Plan(consumers=2, warps=4, delayed=behind[0], persistent=persistent, stores=in_turn[0], tiles_in_turn=True)


def _is_tall(program: Program) -> bool:
    """True if four consumers can share out the rows of each product, and hold its sums beside each other."""
    dots = program.named("dot")
    return all(op.result.type.shape[0] % (4 * WGMMA_ROWS) == 0 for op in dots) and 0 < _sums(program) <= 2 * WHOLE_TILES


def _sums(program: Program) -> int:
    """Elements of the sums of products that one trip of a loop has, of the loop that has the most. Products that add one to the
    other have one sum."""
    most = 0
    for loop in program.where(lambda row: "loop" in row.traits):
        dots = [op for block in loop.blocks for op in block.ops if op.name == "dot"]
        added_to = {op.acc for op in dots}
        most = max(most, sum(op.result.type.numel for op in dots if op.result not in added_to))
    return most


def candidates(plain: Plain, only: Plan | None = None, predict: bool = True) -> Search:
    """All plans, or one, written; where they are to be predicted also ranked, and the best of them predicted and compiled. Who
    measures needs neither."""
    found, remarks, seen = Search(), [] if plain.rewritten is None else [*plain.rewritten.remarks], set()
    in_turn = _in_turn(plain, remarks)
    every = [only] if only is not None else every_plan(plain)
    for plan in every if only is not None else (one for one in every if in_turn or not one.persistent):
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
    """Put the candidates in order: the best ones predicted, and compiled until one is as it should be."""
    good, out = ([one for one in found.candidates if bool(one.out) is out] for out in (False, True))
    with found.spent.on("rank"):
        found.plain, times = ranked(plain, [one.written for one in good] if len(good) > FEW else [])
    if times:
        good = [replace(one, about=time) for one, time in zip(good, times)]
        best = close(times)
        good = [good[at] for at in best] + sorted((one for at, one in enumerate(good) if at not in best), key=_order)
    with found.spent.on("write"):
        first = [_fitted(one) for one in good[:len(best) if times else FEW]]
    with found.spent.on("predict"):
        time = predictions([one.written for one in first if not one.out])
        first = [one if one.out else replace(one, predicted=time.pop(0)) for one in first]
    found.candidates = sorted([*first, *good[len(first):]], key=_order) + out
    tried = 0
    for at, one in enumerate(found.candidates):
        if not one.out and tried < COMPILED:
            found.candidates[at] = one = finished(one, found.spent)
            tried += not one.out
            if not (one.out or one.stack or one.undone):
                break
    found.candidates.sort(key=_order)


def finished(one: Candidate, spent: Spent) -> Candidate:
    """The candidate with all that is to be known of it before it is proved: its slots, prediction, registers and stack."""
    if one.out or one.measured is not None:
        with spent.on("compile"):       # what was measured is compiled once more only where its machine code is to be read
            return _compiled(one) if not one.out and takes_registers(one.written) else one
    with spent.on("write"):
        one = _fitted(one)
    if not one.out and one.predicted is None and one.about is not None:
        with spent.on("predict"):
            one = replace(one, predicted=predictions([one.written])[0])
    with spent.on("compile"):
        return one if one.out or one.registers is not None else _compiled(one)


def _fitted(one: Candidate) -> Candidate:
    whole = fitted(one.written)
    return one if whole is one.written else replace(one, written=whole, out=_fault(whole))


def every_plan(plain: Plain) -> Iterator[Plan]:
    """The plans to try: one program on a multiprocessor, then several."""
    if plain.chip.has("tensor_memory"):
        yield from tensor_plans(plain.program)
        return
    gathers, tiles = may_gather(plain), prod(map(int, plain.launch.grid))
    found = list(plans(plain.program, gathers))
    yield from found
    yield from _across(plain, found)
    yield from _in_bands(plain, found)
    yield from _last_first(plain, found)
    for plan in several(plain.program, plain.chip, tiles):
        yield from (replace(plan, gathers=True), plan) if gathers else (plan, )


def _across(plain: Plain, found: list[Plan]) -> Iterator[Plan]:
    """Of each number of consumers the first plan whose programs take tiles in turn, and of whole tiles, with the tiles of y first:
    where the grid has x and y, and the kernel asks for both. Programs that run at a time share an operand in one of both orders,
    and in the other one, if x is a batch, none."""
    asked = {op.axis for op in plain.program.named("get_program_id")}
    if not asked >= {0, 1} or min(map(int, plain.launch.grid[:2])) < 2:
        return
    yield from (replace(plan, across=True) for plan in _first_in_turn(found))


def _in_bands(plain: Plain, found: list[Plan]) -> Iterator[Plan]:
    """The same plans with tiles in bands: where programs that run at a time have fewer rows than a band has, by rows that are
    longer, and loops load what tiles of a row share and what those of a column share."""
    x, y, _ = (*map(int, plain.launch.grid), 1, 1)[:3]
    columns = columns_of(plain.program, row_of_tiles(plain.program), plain.launch)
    width, rows = (x, y) if columns is None else (columns, x // max(1, columns))
    if width * BAND > device_programs(plain.chip) and rows > BAND and shares_rows_and_columns(plain.program):
        yield from (replace(plan, band=BAND) for plan in _first_in_turn(found))


def _last_first(plain: Plain, found: list[Plan]) -> Iterator[Plan]:
    """The same plans from the last tile on, where loops differ in length from tile to tile; and where x says how long they are,
    also with all tiles of one length behind each other: these even out better, and share less of what they load."""
    by = plain.program.kept(axes_of_lengths)
    if by:
        both = 0 in by and {op.axis for op in plain.program.named("get_program_id")} >= {0, 1}
        yield from (replace(plan, last_first=True, across=across) for plan in _first_in_turn(found)
                    for across in ((False, True) if both else (False, )))


def _first_in_turn(found: list[Plan]) -> Iterator[Plan]:
    """Of each number of consumers the first plan whose programs take tiles in turn, and of whole tiles."""
    seen = set()
    for plan in found:
        kind = plan.consumers, plan.gathers, plan.tiles_in_turn
        if plan.persistent and kind not in seen:
            seen.add(kind)
            yield plan


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
    ranked_only = one.predicted is None and one.about is not None
    return bool(one.out), measured, bool(one.stack) or one.undone, ranked_only, predicted, one.about or 0.0


def _fault(one: Written) -> str:
    """The complaint of the language's own rules, asked once more of the text of a kernel that is there; "" for none."""
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
                        target=plain.chip.name, **one.written.options)
    except Exception as error:
        return replace(one, out=_line(error))
    return replace(one, registers=made.registers, stack=made.stack_bytes or 0, undone=one.written.is_delayed and _is_undone(made),
                   out=touched(made) if takes_registers(one.written) else "")


def _is_undone(made: Any) -> bool:
    try:
        return undone(made.sass)
    except (AttributeError, OSError, RuntimeError):     # no machine code of this chip, or nothing that prints it: nobody knows
        return False


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
