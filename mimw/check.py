"""`mimw.check`: is a kernel right under every interleaving?

One launch is run many times on the simulator, each time by another interleaving, and every access, barrier and wait is held
against the memory model (docs/MEMORY_MODEL.md). What is found is reported, not raised, with the smallest launch that shows it.
"""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np

from .errors import (
    DataRace,
    KernelError,
    MimwError,
    NotYet,
    PhaseOffByOne,
    RemarkWarning,
    SimulationError,
    SimulatorMisuse,
    TargetError,
)
from .findings import Finding, Report, Tried
from .fits import check_fits
from .passes import remarks
from .simulate import Launch, kernel_first, prepare
from .simulator import Guide, explore, flipped_waits, run, schedule_of, verb_of_pipe
from .target import target as find_target
from .trials import Trial, is_about_the_protocol, trials

SEEDS, LIMIT, SHRINK_RUNS, SHRINK_SCHEDULES = 8, 200, 24, 16


@kernel_first
def check(kernel, grid, *args, seeds: int | Iterable[int] = SEEDS, search: str = "random", limit: int = LIMIT,
          shrink: bool = True, rounds: bool = True, target: str | None = None,
          progress: Callable[[int, int, int], None] | None = None, **meta) -> Report:
    """Look for races, deadlocks and protocol errors of `kernel` over `grid`. Arrays are left as they were.

    args:      kernel, grid, args, target, meta   as for `mimw.simulate`
               seeds     how many seeds, or which; each is one random interleaving. 0 lands every copy as late as can be;
                         the schedule of a finding may stand among them, too
               search    "random": the seeds. "systematic": all interleavings that can matter, by partial-order reduction,
                         `limit` runs at most. "both"
               shrink    whether to look for a smaller grid and smaller integer arguments that still show a finding
               rounds    whether to run smaller launches, too, if nothing is found: as many rounds of each loop as break rings
                         (0, 1, 2, and as many as slots, one less and one more), and two tiles a program, where arguments allow
               progress  called as progress(run, runs, findings) after every run
    returns:   Report: `.ok`, `.findings`, each different finding once. What the compiler refuses is a finding, too
    errors:    misuse only: SimulatorMisuse, NotYet, TargetError, and Triton's errors in a kernel that cannot be recorded
    """
    if search not in ("random", "systematic", "both"):
        raise SimulatorMisuse(f"search is {search!r}; it may be 'random', 'systematic' or 'both'")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RemarkWarning)  # the report says it
            launch = prepare(kernel, grid, args, dict(meta), target)
            check_fits(launch.specialisation, launch.program)
    except Exception as error:
        refusal = _refusal(error)
        if refusal is None:
            raise
        return Report((_finding(refusal, None, ()), ), 0)
    report = Search(launch, progress).all(seeds, search, limit, shrink, rounds)
    return replace(report, remarks=remarks(launch.recorded, find_target(target or os.environ.get("MIMW_TARGET") or "sm_90a")))


class Search:
    """The runs of one launch. `programs` other than the launch's own may be run by `attempt`."""

    def __init__(self, launch: Launch, progress=None):
        self.launch, self.progress = launch, progress
        self.saved = _Arrays(launch.values.values())
        self.found: dict[tuple, Finding] = {}
        self.begun: set[tuple] = set()            # deadlocks in a phase that is the right one
        self.runs = self.ops = self.planned = 0
        self.tried: list[Tried] = []
        self.smaller: dict[tuple, Launch] = {}    # what only a smaller launch has shown, and which

    def all(self, seeds, search: str, limit: int, shrink: bool, rounds: bool = False) -> Report:
        seeds = list(range(seeds) if isinstance(seeds, int) else seeds)
        complete = False
        self.planned = (len(seeds) if search != "systematic" else 0) + (max(0, limit) if search != "random" else 0)
        if not self.planned:
            raise SimulatorMisuse("no runs are asked for, so nothing would be checked",
                                  hint="ask for 1 or more seeds" if search == "random" else "give a limit of 1 or more runs")
        if 0 in self.launch.grid:
            raise SimulatorMisuse(f"the grid {self.launch.grid} has no CTA, so nothing would be checked")
        try:
            if search != "systematic":
                for seed in seeds:
                    self._note(self.attempt(seed, count=True), seed)
            if search != "random":
                complete = self._explore(limit)
            untried = self._smaller() if rounds else ""
            findings = []
            for what, finding in self._causes():
                finding, launch = self._shrunk(what, finding) if shrink else (finding, self.smaller.get(what, self.launch))
                findings.append(finding if what in self.begun else self._diagnosed(finding, launch))
        finally:
            self.saved.restore()
        return Report(tuple(findings), self.runs, complete, self.ops, tuple(self.tried), untried)

    def _causes(self) -> list[tuple[tuple, Finding]]:
        """What was found, without reads of what nobody has written where a race says who should have."""
        raced = {str(site) for finding in self.found.values() if "DataRace" in finding.kinds for site in finding.sites[:2]}
        return [(what, finding) for what, finding in self.found.items()
                if finding.kind != "UnwrittenRead" or str(finding.sites[0]) not in raced]

    def attempt(self, seed, launch: Launch | None = None, count: bool = False) -> SimulationError | None:
        """One run; the error it ends in. Misuse is raised."""
        launch = launch or self.launch
        self.saved.restore()
        error = None
        try:
            done = run(launch.program, launch.grid, launch.values, seed=seed, races=True)
            self.ops += done.counts.total() if count else 0
        except SimulatorMisuse:
            raise
        except SimulationError as found:
            error = found
        return error

    def _note(self, error: SimulationError | None, seed) -> None:
        self.runs += 1
        if error is not None:
            self.found.setdefault(_same(error), _finding(error, seed, self.launch.grid))
            self.begun |= {_same(error)} if getattr(error, "begun", False) else set()
        if self.progress is not None:
            self.progress(self.runs, self.planned, len(self.found))

    def _smaller(self) -> str:
        """Run the smaller launches, by one seed each; why there are no others."""
        if self.found:
            return "something was found in the launch as given"
        some, why = trials(self.launch)
        for trial in some:
            self.tried.append(self._try(trial))
        return why

    def _try(self, trial: Trial) -> Tried:
        outcome, why = "ok", ""
        try:
            error = self.attempt(0, trial.launch)
        except SimulatorMisuse as found:
            error = found
        if error is not None and is_about_the_protocol(error):
            outcome, what = "found", _same(error)
            if what not in self.found:
                self.found[what] = replace(_finding(error, 0, trial.launch.grid), sizes=trial.sizes)
                self.smaller[what] = trial.launch
                self.begun |= {what} if getattr(error, "begun", False) else set()
        elif error is not None:
            outcome, why = "not applicable", f"{type(error).__name__} at {error.sites[0] if error.sites else 'its start'}"
        return Tried(str(trial), outcome, trial.rounds, trial.sizes, tuple(trial.launch.grid), why)

    def _explore(self, limit: int) -> bool:
        runs = 0

        def one(guide: Guide) -> None:
            nonlocal runs
            runs += 1
            error = self.attempt(guide, count=True)
            self._note(error, schedule_of(guide.steps))

        for _ in explore(one, limit):
            pass
        return runs < limit

    # ---- what it really is ------------------------------------------------------------------------------------------

    def _diagnosed(self, finding: Finding, launch: Launch) -> Finding:
        """A deadlock that is over as soon as one wait names the other parity is a phase that is off by one."""
        if "Deadlock" not in finding.kinds:
            return finding
        for site in finding.sites:
            program = flipped_waits(launch.program, site)
            if program is not None and self.attempt(finding.seed, replace(launch, program=program)) is None:
                pipe = verb_of_pipe(launch.program, site)
                message = (f"the {pipe or 'wait'} at {site} names the wrong {'chunk' if pipe else 'parity'}: with the other one "
                           f"nobody gets stuck.\n{finding.message}")
                sites = (site, *(other for other in finding.sites if other is not site))
                mend = ("number the chunks 0, 1, 2, ... in the writer and in every reader, each once" if pipe else
                        "wait for the other parity, phase ^ 1: a fresh barrier has completed parity 1, so who fills "
                               "empty slots starts with 1, and who reads full ones with 0")
                return replace(finding, kind="PhaseOffByOne", kinds=_kinds(PhaseOffByOne), message=message, sites=sites, hint=mend)
        return finding

    # ---- the smallest launch that shows it --------------------------------------------------------------------------

    def _shrunk(self, what: tuple, finding: Finding) -> tuple[Finding, Launch]:
        """Halve extents of the grid and integer arguments for as long as the same thing is found; the finding as it shows in the
        smallest launch, and that launch."""
        best, runs, moving = self.smaller.get(what, self.launch), 0, True
        while moving and runs < SHRINK_RUNS:
            moving = False
            for smaller in _halves(best):
                runs += 1
                shown = self._shown(smaller, what, finding.seed)
                if shown is not None:
                    best, finding, moving = smaller, shown, True
                    break
                if runs >= SHRINK_RUNS:
                    break
        names = {param.path: param.name for param in best.program.params}
        sizes = {names[path]: value for path, value in best.values.items() if value is not self.launch.values[path]}
        return replace(finding, sizes=sizes), best

    def _shown(self, launch: Launch, what: tuple, seed) -> Finding | None:
        """The finding in `launch`, by the seed given or, for a schedule, by one of the first few; None if it does not show."""
        try:
            error = self.attempt(seed, launch)
            if error is not None and _same(error) == what:
                return _finding(error, seed, launch.grid)
            errors = []
            limit = SHRINK_SCHEDULES if isinstance(seed, tuple) else 0
            for guide in explore(lambda guide: errors.append(self.attempt(guide, launch)), limit):
                if errors[-1] is not None and _same(errors[-1]) == what:
                    return _finding(errors[-1], schedule_of(guide.steps), launch.grid)
        except SimulatorMisuse:
            pass
        return None


def _halves(launch: Launch) -> Iterator[Launch]:
    """Smaller launches: an extent of the grid, in whole clusters, or an integer argument halved."""
    for axis, (extent, ctas) in enumerate(zip(launch.grid, launch.program.cluster)):
        half = extent // 2 // ctas * ctas
        if half:
            yield replace(launch, grid=(*launch.grid[:axis], half, *launch.grid[axis + 1:]))
    for path, value in launch.values.items():
        if isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_)) and value > 1:
            yield replace(launch, values={**launch.values, path: int(value) // 2})


class _Arrays:
    """The contents of the arrays of a launch, to be put back before each run; nothing writes those that may only be read."""

    def __init__(self, values):
        arrays = [getattr(value, "base", value) if hasattr(value, "block_shape") else value for value in values]
        arrays = [getattr(array, "array", array) for array in arrays]
        self.copies = [(array, array.copy() if isinstance(array, np.ndarray) else array.clone()) for array in arrays
                       if (array.flags.writeable if isinstance(array, np.ndarray) else hasattr(array, "clone"))]

    def restore(self) -> None:
        for array, copy in self.copies:
            array[...] = copy


def _refusal(error: BaseException | None) -> MimwError | None:
    """What the compiler refused, the last in the chain of an error; None if that is no finding but misuse."""
    refused = None
    while error is not None:
        refused = error if isinstance(error, KernelError) else refused
        error = error.__cause__
    return None if isinstance(refused, (NotYet, TargetError)) else refused


def _same(error) -> tuple[str, tuple[str, ...]]:
    """Two errors that are the same here are one finding; a race is the same whichever access came first."""
    sites = tuple(map(str, error.sites[:2]))
    return ("DataRace", tuple(sorted(sites))) if isinstance(error, DataRace) else (type(error).__name__, sites)


def _kinds(kind: type) -> tuple[str, ...]:
    ours = itertools.takewhile(lambda one: one is not MimwError, kind.__mro__)
    return tuple(one.__name__ for one in ours)


def _finding(error, seed, grid) -> Finding:
    return Finding(type(error).__name__, error.message, error.sites, error.hint, _kinds(type(error)), seed, tuple(grid))


