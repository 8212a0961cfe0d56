"""The proof of an orchestrated kernel: the same bits as the plain one, and nothing wrong under any interleaving that is tried.

Input: a `Written` kernel. Output: a `Certificate`, which is plain data. For example:

    proof = prove(one)
    proof.ok, proof.text()          True; JSON: which launches were compared, what was checked, versions

Compared are launches with as many trips as break rings: 0, 1, 2 and around the number of slots, and two tiles a program, as
`tools/trials.py` finds them from the arguments of the launch. The arrays are as large as those of the launch, with random
numbers; a few programs of the grid run. Products add along K one by one in both, so that equal means equal to the last bit.
Then `mimw.check` looks for races, deadlocks and misused barriers of the text's kernel, by seeds, and systematically where a
launch is short.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import islice, product
from typing import Any

import numpy as np
import triton

from ...compiler.analysis import loops_of
from ...compiler.triton_port.interpreter import one_by_one
from ...errors import MimwError, SimulationError
from ...runtime.simulate import Launch
from ...simulator import Hooks, run
from ..check import check
from ..findings import Report
from ..trials import most_rounds, trials
from .inputs import copies, different, size_of
from .written import Written

PROGRAMS = 4                # of a grid that are compared, from its beginning, besides the last one
CHECKED = (2, 1, 1)         # programs of a grid that are checked, along each axis
MOST_BYTES = 8 << 30        # of arrays that are copied for a proof


@dataclass(frozen=True)
class Certificate:
    """The proof of a kernel, and how it was made. `compared` has a line for each launch: sizes that were changed, grid, programs,
    arrays that are equal to the last bit; `checked` what `mimw.check` ran; `wrong` what was found, "" if nothing."""

    kernel: str
    plan: dict[str, Any]
    target: str
    source: str
    compared: tuple[dict[str, Any], ...] = ()
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
        sizes = [", ".join(f"{name}={size}" for name, size in one["sizes"].items()) or "as given" for one in self.compared]
        return (f"equal to plain, bit by bit, at {len(sizes)} launches ({'; '.join(sizes)}); checked: "
                f"{self.checked.get('runs', 0)} runs" + (f"; {self.left_out}" if self.left_out else ""))


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
        launches, why = _launches(one)
        for at, (sizes, grid, programs) in enumerate(launches):
            if at == len(launches) - 1 and compared and not sizes:
                continue        # the launch itself is only compared in place of smaller ones
            line = _compared(one, sizes, grid, programs)
            if line is not None:
                compared.append(line)
                if line["different"]:
                    return Certificate(**about, compared=tuple(compared), wrong=(
                        f"{', '.join(line['different'])} differ from the plain kernel's, with "
                        f"{', '.join(f'{name}={size}' for name, size in sizes.items()) or 'the sizes of the launch'}, grid {grid}"))
        checked, wrong = _checked(one, compared, seeds, limit)
    except MimwError as error:
        return Certificate(**about, compared=tuple(compared), wrong=f"{type(error).__name__}: {error}")
    if not compared:
        nothing = "no launch could be compared: the plain kernel itself fails at all that were tried"
        return Certificate(**about, checked=checked, wrong=nothing)
    return Certificate(**about, compared=tuple(compared), checked=checked, left_out=why, wrong=wrong or _too_short(one))


# ---- the same bits ---------------------------------------------------------------------------------------------------------


def _launches(one: Written) -> tuple[list[tuple[dict[str, int], tuple[int, ...], tuple]], str]:
    """(sizes that differ, grid, programs that run) of each launch to be compared, the launch itself last; and which ones there are
    not."""
    launch = one.launch()
    found, why = trials(launch)
    parameters = set(one.plain.parameters)
    listed = [({}, launch.grid)] if _is_short(launch) else []
    listed += [(trial.sizes, trial.launch.grid) for trial in found if parameters.issuperset(trial.sizes)]
    listed.append(({}, launch.grid))
    return [(dict(sizes), tuple(grid), _programs(launch, grid)) for sizes, grid in listed], why


def _too_short(one: Written) -> str:
    """A sentence on a launch that shows nothing of longer ones: a ring that is never full hides what is wrong with it."""
    launch = one.launch()
    if all(loop.known and not loop.parameters and not loop.by_program and not loop.by_grid for loop in loops_of(launch.program)):
        return ""       # constants say how often they go round: there are no longer launches
    rounds, slots = most_rounds(launch), max((ring.stages for ring in one.made.rings.roots if not ring.once), default=0)
    if rounds is None:
        return "data decide how many iterations its loops have, so it is not known whether a pipe was full"
    if rounds > slots:
        return ""
    return (f"no loop of this launch has more than {rounds} iterations, and a pipe has {slots} slots: orchestrate a "
            "longer launch of the kernel, which is then proved for shorter ones as well")


def _is_short(launch: Launch) -> bool:
    """True of a launch that is as small as its trials: some thousand steps."""
    return all(abs(int(value)) <= 1024 for value in launch.values.values() if isinstance(value, (int, np.integer)))


def _programs(launch: Launch, grid: tuple[int, ...]) -> tuple[tuple[int, int, int], ...]:
    """The first programs of a grid and the last one; () for all, where programs may wait for each other."""
    if launch.program.cooperative or any("atomic" in op.row.traits for op in launch.program.walk()):
        return ()
    x, y, z = (*grid, 1, 1)[:3]
    first = [(i, j, k) for k, j, i in islice(product(range(z), range(y), range(x)), PROGRAMS)]
    return tuple(dict.fromkeys((*first, (x - 1, y - 1, z - 1))))


def _compared(one: Written, sizes: Mapping[str, int], grid: tuple[int, ...], programs: tuple) -> dict[str, Any] | None:
    """A line of the certificate; None if the plain kernel is not made for these sizes, or would be launched."""
    plain = one.plain.with_values({**copies(one.plain.arguments), **sizes})
    other = one.plain.with_values({**copies(one.plain.arguments), **sizes})
    if one.why_plain(grid, (), other.arguments):
        return None
    with one_by_one():
        try:
            _run(plain.launch, grid, programs)
        except SimulationError:
            return None
        _run(one.launch(other), grid, programs)
    return {"sizes": dict(sizes), "grid": list(grid), "programs": [list(index) for index in programs],
            "different": different(plain.arguments, other.arguments)}


def _run(launch: Launch, grid: tuple[int, ...], programs: tuple) -> None:
    run(launch.program, grid, launch.values, hooks=Hooks(clusters=tuple((index, ) for index in programs)))


# ---- every interleaving ----------------------------------------------------------------------------------------------------


def _checked(one: Written, compared: list[dict[str, Any]], seeds: int, limit: int) -> tuple[dict[str, Any], str]:
    """The runs of `mimw.check`, and its first finding: the launch with its smaller ones by seeds, and the shortest one that loops
    systematically."""
    report = _check(one, {}, _few(one, one.plain.launch.grid), seeds=seeds)
    line = {"runs": report.runs, "seeds": seeds, "tried": [each.as_json() for each in report.tried]}
    short = next((each for each in compared if each["sizes"] and all(size > 0 for size in each["sizes"].values())), None)
    if report.ok and short is not None:
        report = _check(one, short["sizes"], _few(one, tuple(short["grid"])), search="systematic", limit=limit, rounds=False)
        line["systematic"] = {"sizes": short["sizes"], "runs": report.runs, "complete": report.complete}
    return line, "" if report.ok else str(report.findings[0])


def _check(one: Written, sizes: Mapping[str, int], grid: tuple[int, ...], **how: Any) -> Report:
    inputs = one.plain.with_values({**copies(one.plain.arguments), **sizes})
    return check(one.kernel, grid, *one.arguments(inputs), num_warps=one.num_warps, target=one.plain.chip.name, shrink=False, **how)


def _few(one: Written, grid: tuple[int, ...]) -> tuple[int, ...]:
    """A part of the grid; all of it where programs may wait for each other."""
    return grid if not _programs(one.launch(), grid) else tuple(map(min, grid, CHECKED))
