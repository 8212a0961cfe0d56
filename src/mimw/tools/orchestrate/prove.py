"""The proof of an orchestrated kernel: the same bits as the plain one, and nothing wrong under any interleaving that is tried.

Input: a `Written` kernel. Output: a `Certificate`, which is plain data. For example:

    proof = prove(one)
    proof.ok, proof.text()          True; JSON: which launches were compared, what was checked, versions

Compared are launches with as many trips as break rings: 0, 1, 2 and around the number of slots, and two tiles a program, as
`tools/trials.py` finds them from the arguments of the launch. The arrays are as large as those of the launch, with random
numbers; a few programs of the grid run. A kernel whose programs take tiles in turn runs twice for each of these: with a program a
tile, and with two programs that have two tiles or more each. Products add along K one by one in both kernels, so that equal means
equal to the last bit. Then `mimw.check` looks for races, deadlocks and misused barriers of the text's kernel, by seeds, and
systematically where a launch is short.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import prod
from typing import Any

import numpy as np
import triton

from ...compiler.analysis import loops_of
from ...compiler.triton_port.interpreter import one_by_one
from ...errors import DataRace, MimwError, SimulationError
from ...runtime.host import is_array
from ...runtime.simulate import Launch
from ...simulator import Hooks, run
from ..check import check
from ..findings import Report
from ..trials import most_rounds
from .comparisons import Pair, have_several, launches, programs_of
from .inputs import differing, forget, size_of
from .loaded import Rounds, changed, data_decide
from .sum_turns import enough_turns
from .tiles import each_alone, few_tiles, programs_of_few, slots, tiles_taken
from .within import within
from .written import Written

CHECKED = (2, 1, 1)         # programs of a grid that are checked, along each axis
WHOLE, LONG = 2, 4          # seeds for all of a launch in which pipes come round more often than that
MOST_BYTES = 8 << 30        # of arrays that are copied for a proof


@dataclass(frozen=True)
class Certificate:
    """The proof of a kernel, and how it was made. `compared` has a line for each launch: sizes that were changed, grid, programs,
    arrays that are equal to the last bit; `checked` what `mimw.check` ran; `wrong` what was found, "" if nothing. Where scales were
    joined, equal means to the program with joined scales, and `within` has a line for each launch at which that one was compared
    with the author's (`within.py`)."""

    kernel: str
    plan: dict[str, Any]
    target: str
    source: str
    compared: tuple[dict[str, Any], ...] = ()
    within: tuple[dict[str, Any], ...] = ()
    checked: dict[str, Any] = field(default_factory=dict)
    left_out: str = ""
    wrong: str = ""
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not self.wrong

    def text(self) -> str:
        """The certificate as JSON."""
        return json.dumps(asdict(self), indent=1)

    def __str__(self) -> str:
        if self.wrong:
            return f"not proved: {self.wrong}"
        sizes = [(", ".join(f"{name}={size}" for name, size in one["sizes"].items()) or "as given")
                 + (f" by {one['most']} programs" if one.get("most") else "") for one in self.compared]
        largest = max((line["of_bound"] for line in self.within), default=0.0)
        joined = (f"not the bits of the plain kernel, but of the plain one with its scales joined, which is within the bound of "
                  f"roundings at {len(self.within)} launches (at most {largest:.2f} of it); ") if self.within else ""
        return (f"{joined}equal to {'that' if joined else 'plain'}, bit by bit, at {len(sizes)} launches ({'; '.join(sizes)}); "
                f"checked: {self.checked.get('runs', 0)} runs" + (f"; {self.left_out}" if self.left_out else ""))


def prove(one: Written, seeds: int = 8, limit: int = 200) -> Certificate:
    """The proof of a kernel; never raises for what is wrong with it."""
    import mimw
    about = dict(kernel=one.plain.name, plan=asdict(one.plan), target=one.plain.chip.name,
                 source=hashlib.sha256(one.text.encode()).hexdigest(),
                 versions={"mimw": mimw.__version__, "triton": triton.__version__, "numpy": np.__version__})
    if one.wrong:
        return Certificate(**about, wrong=f"a mistake of mimw's: {one.wrong}")
    if one.refused:
        return Certificate(**about, wrong=one.refused)
    if size_of(one.plain.arguments) > MOST_BYTES:
        return Certificate(**about, wrong=f"arrays of more than {MOST_BYTES >> 30} GiB: orchestrate a smaller launch of the kernel")
    compared: list[dict[str, Any]] = []
    try:
        pairs, why = launches(one)
        if one.plain.launch is not one.plain.author:
            apart, wrong = within(one.plain, [pair for alternatives in pairs for pair in alternatives[:1]], _run)
            about["within"] = tuple(apart)
            if wrong or not apart:
                nothing = "no launch could be compared: the plain kernel itself fails at all that were tried"
                return Certificate(**about, wrong=wrong or nothing)
        for alternatives in pairs:
            first = alternatives[0]
            if first.instead and any(have_several(line) == first.has_several for line in compared):
                continue
            pair, line = next(((pair, line) for pair in alternatives if (line := _compared(one, pair)) is not None), (None, None))
            if line is not None:
                compared.append(line)
                if line["different"]:
                    sizes = ", ".join(f"{name}={size}" for name, size in pair.sizes.items()) or "the sizes of the launch"
                    return Certificate(**about, compared=tuple(compared), wrong=(
                        f"{', '.join(line['different'])} differ from the plain kernel's, with {sizes}, grid {pair.grid}"
                        f"{'' if pair.most is None else f', by {pair.most} programs'}"))
        checked, wrong = _checked(one, compared, seeds, limit)
    except MimwError as error:
        return Certificate(**about, compared=tuple(compared), wrong=f"{type(error).__name__}: {error}")
    finally:
        forget()
    if not compared:
        nothing = "no launch could be compared: the plain kernel itself fails at all that were tried"
        return Certificate(**about, checked=checked, wrong=nothing)
    return Certificate(**about, compared=tuple(compared), checked=checked, left_out=why, wrong=wrong or _too_short(one, compared))


# ---- the same bits ---------------------------------------------------------------------------------------------------------


def _too_short(one: Written, compared: list[dict[str, Any]]) -> str:
    """A sentence on a launch that shows nothing of longer ones: a ring that is never full hides what is wrong with it. Where data
    decide how often loops go round, the runs that were compared say it."""
    if not enough_turns(one):
        return (f"no program of this launch makes a sum more than {one.made.sums} times, and tensor memory has {one.made.sums} "
                "places for it in turn: orchestrate a launch of more tiles")
    launch = each_alone(one)
    if all(loop.known and not loop.parameters and not loop.by_program and not loop.by_grid for loop in loops_of(launch.program)):
        return ""       # constants say how often they go round: there are no longer launches
    rounds, deepest = most_rounds(launch), slots(one)
    if rounds is None:
        rounds = max((count for line in compared for _, count in line["rounds"]), default=0)
    if rounds * one.plan.together > deepest:
        return ""
    return (f"no loop of this launch has more than {rounds} iterations, and a pipe has {deepest} slots: orchestrate a "
            "longer launch of the kernel, which is then proved for shorter ones as well")


def _compared(one: Written, pair: Pair) -> dict[str, Any] | None:
    """A line of the certificate; None if the plain kernel is not made for these sizes, or would be launched. It is not made for
    sizes at which its programs write the same elements, whose values then follow from who comes last."""
    plain = one.plain.with_values(changed(one.plain.arguments, pair.sizes))
    other = one.plain.with_values(changed(one.plain.arguments, pair.sizes))
    rounds = Rounds()
    if one.why_plain(pair.grid, (), other.arguments):
        return None
    with one_by_one():
        try:
            _run(plain.launch, pair.grid, pair.programs)
        except SimulationError:
            return None
        ours = one.launch(other, pair.grid, pair.most)
        _run(ours, ours.grid, pair.ours, observer=rounds)
    found = differing(plain, other)
    in_arrays = any(is_array(one.plain.arguments[name]) for name in pair.sizes)      # where programs write may be among the numbers
    if (in_arrays or found and pair.most is not None and pair.sizes) and _races(one, pair):
        return None
    more: dict[str, Any] = {} if pair.most is None else {"most": pair.most}
    if one.plan.tiles_in_turn and not one.is_persistent:
        more["tiles"] = tiles_taken(ours)
    return {"sizes": dict(pair.sizes), "grid": list(pair.grid), "programs": [list(index) for index in pair.programs], **more,
            "rounds": [[list(index), count] for index, count in rounds.most.items()], "different": found}


def _races(one: Written, pair: Pair) -> bool:
    """True if programs of the plain kernel write the same elements in this launch, which nothing orders."""
    plain = one.plain.with_values(changed(one.plain.arguments, pair.sizes))
    try:
        _run(plain.launch, pair.grid, pair.programs, races=True)
    except DataRace as race:
        return race.space == "global"
    return False


def _run(launch: Launch, grid: tuple[int, ...], programs: tuple, observer: Rounds | None = None, **options: Any) -> None:
    hooks = Hooks(clusters=tuple((index, ) for index in programs), observer=observer)
    run(launch.program, grid, launch.values, memory=launch.memory, hooks=hooks, **options)


# ---- every interleaving ----------------------------------------------------------------------------------------------------


def _checked(one: Written, compared: list[dict[str, Any]], seeds: int, limit: int) -> tuple[dict[str, Any], str]:
    """The runs of `mimw.check`, and its first finding: the launch with its smaller ones by seeds, and the shortest one that loops
    systematically. Of a launch whose pipes come round many times two seeds look at all of it, and the others at the longest one
    that was compared, in which each pipe comes round as well: that is as many interleavings in a fraction of the time."""
    full = _filling(one, compared) if data_decide(one) else None
    sizes, grid = ({}, _few(one, one.plain.launch.grid)) if full is None else full
    looping = [each for each in compared if all(size > 0 for size in each["sizes"].values())]
    if one.is_persistent or one.plan.tiles_in_turn:
        looping = [each for each in looping if (
            have_several(each, one.tiles_each) if one.is_persistent else each["tiles"] >= one.tiles_each)]
        if not looping:
            several = "several" if one.tiles_each == 2 else f"{one.tiles_each} or more"
            return {}, f"no launch could be compared in which a program takes {several} tiles: orchestrate one of a larger grid"
    longest = max((each for each in looping if each["sizes"]), key=lambda each: prod(each["sizes"].values()), default=None)
    whole = min(seeds, WHOLE) if full is None and longest is not None and _is_long(one) else seeds
    report = _check(one, sizes, grid, seeds=whole)
    line = {"runs": report.runs, "seeds": seeds, "tried": [each.as_json() for each in report.tried]}
    if report.ok and whole < seeds:
        report = _check(one, longest["sizes"], _few(one, tuple(longest["grid"])), seeds=range(whole, seeds), rounds=False)
        line |= {"runs": line["runs"] + report.runs, "shorter": {"sizes": longest["sizes"], "runs": report.runs}}
    short = next((each for each in looping if each["sizes"]), None)
    if report.ok and short is not None:
        report = _check(one, short["sizes"], _few(one, tuple(short["grid"])), search="systematic", limit=limit, rounds=False)
        line["systematic"] = {"sizes": short["sizes"], "runs": report.runs, "complete": report.complete}
    return line, "" if report.ok else str(report.findings[0])


def _is_long(one: Written) -> bool:
    """True of a launch in which pipes come round LONG times."""
    rounds = most_rounds(each_alone(one))
    return rounds is not None and rounds > LONG * max((ring.stages for ring in one.made.rings.roots), default=1)


def _filling(one: Written, compared: list[dict[str, Any]]) -> tuple[dict[str, int], tuple[int, ...]] | None:
    """The sizes of a launch that was compared, and the smallest beginning of its grid with a program that filled the deepest
    pipe."""
    if one.is_persistent:
        return None
    found = [(line["sizes"], tuple(place + 1 for place in index)[:len(line["grid"])], count) for line in compared
             for index, count in line["rounds"] if count > slots(one)]
    if not found:
        return None
    sizes, grid, _ = min(found, key=lambda one: (prod(one[1]), one[2]))
    return sizes, grid


def _check(one: Written, sizes: Mapping[str, int], grid: tuple[int, ...], **how: Any) -> Report:
    inputs = one.plain.with_values(changed(one.plain.arguments, sizes))
    launched = one.programs(grid, programs_of_few(grid, one.tiles_each))
    return check(one.kernel, launched, *one.arguments(inputs, grid), target=one.plain.chip.name, shrink=False,
                 memory=list(inputs.memory), **one.options, **how)


def _few(one: Written, grid: tuple[int, ...]) -> tuple[int, ...]:
    """A part of the grid, of which each program that takes tiles in turn has two; all of it where programs may wait for each
    other."""
    if one.is_persistent:
        return few_tiles(one, grid, 4)
    return grid if not programs_of(one.launch(), grid) else tuple(map(min, grid, CHECKED))
