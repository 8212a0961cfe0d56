"""The order of a check: seeds, schedules, smaller launches; then what was found, each finding once, as small as can be.

Input: a launch and the seeds, or the limit of a systematic search. Output: a `Report`. For example:

    Search(launch).all(range(8), "random", 200, shrink=True)

Runs of seeds and of smaller launches do not depend on each other, so they are shared out among processes. A systematic search
learns from each run which run to make next, and shrinking likewise, so these stay in one process.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from ...errors import SimulationError, SimulatorMisuse
from ...runtime.results import Expected
from ...runtime.simulate import Launch
from ...simulator import Guide, Hooks, check_seed, explore, run, schedule_of, watching
from ...simulator.machine.poison import DataNeeded
from ..findings import Finding, Report, Tried
from ..trials import Trial, trials
from .alike import Alike
from .arrays import Arrays
from .clusters import cluster_at, cluster_count
from .diagnosis import diagnosed
from .meter import Meter
from .outcomes import Outcome, outcome_of
from .processes import Crew
from .protocol import TileData
from .results import Results, Seen
from .sample import Everything, Named, Sample
from .shrink import Shrinker
from .stores import meeting_stores

QUICK = 0.1     # seconds of runs after which it pays to look for tile data that may be left out of further ones


class Search:
    """The runs of one launch, by `jobs` processes, none started `time_limit` seconds after `begun` but the first.
    `ctas(seed, launch)` gives the clusters that a run has, each as the program ids of its CTAs, or () for all of the grid."""

    def __init__(self, launch: Launch, progress: Callable[[int, int, int], None] | None = None, jobs: int = 1,
                 time_limit: float | None = None, begun: float | None = None, ctas: Everything | Sample | Named | None = None,
                 protocol: bool = False, wanted: Sequence[Expected] = ()):
        self.launch, self.progress, self.jobs, self.time_limit = launch, progress, jobs, time_limit
        self.ctas = ctas or Everything()
        self.started = time.monotonic()
        self.deadline = math.inf if time_limit is None else (self.started if begun is None else begun) + time_limit
        self.saved = Arrays(launch.arrays())
        self.found: dict[tuple, Finding] = {}
        self.begun: set[tuple] = set()            # deadlocks in a phase that is the right one
        self.runs = self.ops = self.planned = 0
        self.tried: list[Tried] = []
        self.smaller: dict[tuple, Launch] = {}    # what only a smaller launch has shown, and which
        self.cut: list[str] = []                  # what there was no time for
        self.protocol = protocol                  # without tile data
        self.data: dict[int, tuple] = {}          # by the program's id: the program, and what of it decides nothing
        self.of_data: set[int] = set()            # ids of programs that read what nobody has written: their runs have all data
        self.together: set[tuple] = set()         # what clusters have shown that were picked for it
        self.unseen: list[str] = []
        self.results = Results(launch, wanted)
        self.crew: Crew | None = None
        self.watcher = watching.get()             # of machines, who is told of each besides

    def all(self, seeds, search: str, limit: int, shrink: bool, rounds: bool = False) -> Report:
        if not isinstance(seeds, (int, Iterable)) or isinstance(seeds, str):
            raise SimulatorMisuse(f"seeds is {seeds!r}; it may be how many, or a list of seeds and schedules",
                                  hint="seeds=8, seeds=[0, 17]")
        seeds = list(range(seeds) if isinstance(seeds, int) else seeds)
        for seed in seeds:
            check_seed(seed)
        complete = False
        self.planned = (len(seeds) if search != "systematic" else 0) + (max(0, limit) if search != "random" else 0)
        if not self.planned:
            raise SimulatorMisuse("no runs are asked for, so nothing would be checked",
                                  hint="ask for 1 or more seeds" if search == "random" else "give a limit of 1 or more runs")
        if 0 in self.launch.grid:
            raise SimulatorMisuse(f"the grid {self.launch.grid} has no CTA, so nothing would be checked")
        try:
            if search != "systematic":
                self._seeds(seeds)
            if search != "random":
                complete = self._explore(limit)
            if self.ctas(0, self.launch):
                self._unseen(seeds if search != "systematic" else [0])
            if self.protocol:
                self.unseen.append("tile data was left out where it decides nothing: assertions on it, and divisions by zero, were "
                                   "not seen")
            untried = self._smaller() if rounds else ""
            shrinker = Shrinker(self.attempt, self._over, self.ctas)
            findings = []
            for what, finding in self._causes():
                if what in self.together or finding.kind == "WrongResult":      # of a smaller launch nobody knows the results
                    findings.append(finding)
                    continue
                where = self.smaller.get(what, self.launch)
                finding, where = shrinker.shrunk(self.launch, where, what, finding) if shrink else (finding, where)
                findings.append(finding if what in self.begun else diagnosed(finding, where, self.attempt, self._over))
        finally:
            self.saved.restore()
        return Report(tuple(findings), self.runs, complete, self.ops, tuple(self.tried), untried,
                      stopped=self._stopped(), unseen=tuple(self.unseen), unwritten=self.results.unwritten or (),
                      unawaited=() if findings else self.results.unawaited or (),
                      results="" if findings else self.results.said(bool(self.ctas(0, self.launch))))

    def _causes(self) -> list[tuple[tuple, Finding]]:
        """The findings, without reads of what nobody has written where a race says which write should have come first."""
        raced = {str(site) for finding in self.found.values() if "DataRace" in finding.kinds for site in finding.sites[:2]}
        return [(what, finding) for what, finding in self.found.items()
                if finding.kind != "UnwrittenRead" or str(finding.sites[0]) not in raced]

    # ---- runs -------------------------------------------------------------------------------------------------------

    def attempt(self, seed, launch: Launch | None = None) -> SimulationError | None:
        """One run; the error it ends in. Misuse is raised."""
        return self._run(seed, launch)[0]

    def _run(self, seed, launch: Launch | None = None, clusters: tuple = (), protocol: bool = False):
        """One run, of some clusters or of those chosen: (the error it ends in, its operations if it ends in none, what was seen of
        its results). Misuse is raised. `protocol`: without tile data."""
        self.saved.restore()
        launch = launch or self.launch
        clusters = clusters or self.ctas(seed, launch)
        skips = (self.protocol or protocol) and id(launch.program) not in self.of_data
        writers = self.results.book(launch, whole=not skips)
        hooks = Hooks(clusters, self._look(sum(map(len, clusters)) or math.prod(launch.grid) * launch.gpus),
                      self._tile_data(launch) if skips else None, writers)
        try:
            done = run(launch.program, launch.grid, launch.values, seed=seed, races=True, gpus=launch.gpus, memory=launch.memory,
                       hooks=hooks)
            wrong, seen = self.results.look(writers, clusters, whole=not skips)
            seen = replace(seen, unawaited=done.unawaited if launch is self.launch else None)
            return wrong, 0 if wrong else done.counts.total(), seen
        except DataNeeded:
            self.of_data.add(id(launch.program))
        except SimulatorMisuse:
            raise
        except SimulationError as found:
            return found, 0, Seen()
        return self._run(seed, launch, clusters, protocol)

    def _tile_data(self, launch: Launch) -> TileData:
        if id(launch.program) not in self.data:
            self.data[id(launch.program)] = launch.program, TileData(launch)
        return self.data[id(launch.program)][1]

    def _outcome(self, seed, launch: Launch, further: bool = True, clusters: tuple = ()) -> Outcome:
        """The outcome of one run, of some clusters or of those chosen. A `further` run, beside one with all data, leaves tile
        data out if nothing can be missed so; what goes wrong then is made again with all of them, and reported of that run."""
        further &= not (self.protocol or self.results.wanted) and self.watcher is None and time.monotonic() - self.started > QUICK
        if further and id(launch.program) not in self.of_data and self._tile_data(launch).loses_nothing:
            with suppress(SimulatorMisuse):
                error, ops, _ = self._run(seed, launch, clusters, protocol=True)
                if error is None:
                    return Outcome(ops)
        error, ops, seen = self._run(seed, launch, clusters)
        return outcome_of(error, seed, launch.grid, ops, clusters or self.ctas(seed, launch), seen)

    def _look(self, ctas: int) -> Callable[..., bool] | None:
        """A look between the steps of a run of so many CTAs: whether it is time to start copies of this process, or to say how far
        the run is. None if there is nothing to look for."""
        crew, meter = self.crew, self.progress if isinstance(self.progress, Meter) else None
        if crew is None and meter is None:
            return None

        def look(machine) -> bool:
            if crew is not None:
                crew.look()
            if meter is not None:
                meter.inside(machine, ctas, self.planned)
            return meter is not None or crew.next_look != math.inf

        return look

    def _crew(self, count: int, one: Callable[[int], object]) -> Crew:
        jobs = self.jobs if self.watcher is None else 1      # who watches machines would not see those of other processes
        self.crew = Crew(count, one, jobs, self.deadline, lambda: not self.saved.shared())
        return self.crew

    def _over(self) -> bool:
        return time.monotonic() >= self.deadline

    def _note(self, outcome: Outcome) -> None:
        self.runs += 1
        self.ops += outcome.ops
        self.results.note(outcome.seen)
        if outcome.finding is not None:
            self.found.setdefault(outcome.what, outcome.finding)
            self.begun |= {outcome.what} if outcome.begun else set()
        if isinstance(self.progress, Meter):
            self.progress.operations = self.ops
        if self.progress is not None:
            self.progress(self.runs, self.planned, len(self.found))

    # ---- which runs -------------------------------------------------------------------------------------------------

    def _seeds(self, seeds: list) -> None:
        for outcome in self._crew(len(seeds), lambda number: self._outcome(seeds[number], self.launch, number > 0)):
            self._note(outcome)
        self.crew = None
        if self.runs < len(seeds):
            self.cut.append(f"{self.runs} of {len(seeds)} seeds ran")

    def _explore(self, limit: int) -> bool:
        runs = 0

        def one(guide: Guide) -> None:
            nonlocal runs
            runs += 1
            error, ops, seen = self._run(guide)
            schedule = schedule_of(guide.steps)
            self._note(outcome_of(error, schedule, self.launch.grid, ops, self.ctas(guide, self.launch), seen))

        if self.runs and self._over():
            self.cut.append("no schedule was tried")
            return False
        for _ in explore(one, limit):
            if self._over() and runs < limit:
                self.cut.append(f"the search through schedules ended after {runs}")
                return False
        return runs < limit

    def _unseen(self, seeds: list) -> None:
        """Note what a part of the grid does not show; the stores of different clusters are compared all the same, by their
        addresses."""
        ran = {cluster for seed in seeds for cluster in self.ctas(seed, self.launch)}
        self.unseen.append(f"{len(self.ctas(0, self.launch))} of {cluster_count(self.launch)} clusters a run, {len(ran)} in all: "
                           "what the others do, and what is between CTAs that did not run together, was not seen")
        if self._over():
            self.unseen.append("stores of different CTAs were not compared: the time limit was over")
            return
        met = meeting_stores(self.launch)
        self.unseen.append(met.says)
        for numbers in met.suspects:
            clusters = tuple(cluster_at(self.launch, number) for number in numbers)
            error, *_ = self._run(0, clusters=clusters)
            if error is None:
                names = " and ".join(str(cluster[0]) for cluster in clusters)
                self.unseen.append(f"the clusters of the CTAs {names} may store to one place; a run of them alone shows no race")
            else:
                outcome = outcome_of(error, 0, self.launch.grid, ctas=clusters)
                if outcome.what not in self.found:
                    self.found[outcome.what] = outcome.finding
                    self.together.add(outcome.what)

    def _smaller(self) -> str:
        """Run the smaller launches, by one seed each; why there are no others."""
        if self.found:
            return "something was found in the launch as given"
        some, why = trials(self.launch)
        if some and self._over():
            self.cut.append(f"none of {len(some)} smaller launches")
            return "the time limit was over"

        alike = Alike(self.launch)
        stand_ins = [() if self.ctas(0, trial.launch) else alike.some(trial) for trial in some]

        def one(number: int) -> tuple[int, Outcome]:
            """Run one smaller launch. What is found in clusters that stand for others is reported of all of them, if they show
            it together, too."""
            launch, clusters = some[number].launch, stand_ins[number]
            try:
                outcome = self._outcome(0, launch, clusters=clusters)
                if clusters and outcome.finding is not None:
                    whole = self._outcome(0, launch)
                    outcome = outcome if whole.finding is None else whole
                return number, outcome
            except SimulatorMisuse as found:
                return number, outcome_of(found, 0, launch.grid, ctas=self.ctas(0, launch))

        for number, outcome in self._crew(len(some), one):
            self.tried.append(self._try(some[number], outcome, stand_ins[number]))
        self.crew = None
        if len(self.tried) < len(some):
            self.cut.append(f"{len(self.tried)} of {len(some)} smaller launches")
            return "the time limit was over"
        return why

    def _try(self, trial: Trial, outcome: Outcome, clusters: tuple) -> Tried:
        said, why, finding, what = "ok", "", outcome.finding, outcome.what
        if finding is not None and outcome.of_protocol:
            said = "found"
            if what not in self.found:
                self.found[what] = replace(finding, sizes=trial.sizes)
                self.smaller[what] = trial.launch
                self.begun |= {what} if outcome.begun else set()
                self.together |= {what} if clusters and finding.ctas else set()
        elif finding is not None:
            said, why = "not applicable", f"{finding.kind} at {finding.sites[0] if finding.sites else 'its start'}"
        return Tried(str(trial), said, trial.rounds, trial.sizes, tuple(trial.launch.grid), why,
                     tuple(index for cluster in clusters for index in cluster))

    def _stopped(self) -> str:
        return f"{', '.join(self.cut)} within {self.time_limit:g} s" if self.cut else ""
