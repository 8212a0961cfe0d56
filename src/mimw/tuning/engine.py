"""The search: candidates are predicted, pruned, compiled, checked and timed, in processes that may fail.

Input: an operator and shapes. Output: a `Report`, and lines that say how far the search is. For example:

    report = tune("gemm", ["4096x4096x4096"], journal="mimw-tune-gemm.jsonl")
    report.write()                              into the kernel's configs.json, if something was measured

The steps of a problem, each of them noted in the journal:

    predict     every candidate is recorded, checked against the chip's shared memory and registers, and predicted
    prune       the best share goes on, with whatever could not be predicted and the library's own choice of today
    compile     in parallel, into Triton's cache; what spills is left out
    measure     one at a time, each in a process of its own: checked, then timed in turn with the baselines

There is no search at run time: kernels read what was written.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from ..compiler.pipeline import content_key
from ..errors import TuningError
from ..target import wanted
from ..testing.benchmark import versions
from ..tools.processes import DONE, alone, run
from ..tools.search.processes import job_count
from . import work
from .journal import Journal
from .operator import Operator, Problem, values_of, with_fields
from .operators import find
from .prune import by_prediction
from .report import MEASURED, PRUNED, RANKED, REFUSED, SPILLS, WRONG, Candidate, Report, rank, said_of

START_LIMIT = 120.0     # seconds in which a process should know its device
AT_MOST_EVERY = 2.0     # seconds between lines of a step that has many


def tune(operator: Operator | str, shapes: Sequence[str | Problem], dtype: str | None = None, *,
         fields: Mapping[str, tuple] | None = None, keep: float = 0.5, least: int = 4, jobs: int | None = None,
         time_limit: float = 60.0, compile_limit: float = 300.0, at_least_ms: float = 60.0, spills: int = 0,
         journal: Path | str | None = None, restart: bool = False, target: str | None = None, measure: bool = True,
         tell: Callable[[str], None] = lambda text: None) -> Report:
    """Search the configurations of an operator for each of the shapes.

    args:      operator       a name of `mimw tune --list`, `module:NAME`, or an `Operator`
               shapes, dtype  as `mimw tune` takes them, "4096x4096x4096" and "bf16"; or `Problem`s
               fields         field of a configuration -> the values to try in place of the candidates' own
               keep, least    the share of the candidates that goes on after predicting, and how many at least
               jobs           processes that predict and compile; by default MIMW_JOBS, or one a core
               time_limit, compile_limit   seconds for one candidate: to be measured, and to be predicted or compiled
               at_least_ms    how long a candidate and each baseline are timed
               spills         bytes of local memory a thread that are let through
               journal        a file; a search that finds it there goes on where it ended. `restart` begins anew
               target         the chip, by default the GPU's, or MIMW_TARGET's where there is none
               measure        False compiles and ranks only, as where there is no GPU
               tell           takes lines about the progress of the search
    returns:   Report; where there is no GPU its candidates are ranked by prediction, and nothing was measured
    errors:    TuningError for shapes, types and fields that the operator does not have, and for a journal that is none
    """
    operator = find(operator) if isinstance(operator, str) else operator
    problems = [operator.problem(one, dtype) if isinstance(one, str) else one for one in shapes]
    if not 0 < keep <= 1 or least < 1:
        raise TuningError(f"keep is {keep:g} and least {least}", hint="keep is a share above 0, up to 1; least is 1 or more")
    work.imported()
    device = _device(operator, tell) if measure else None
    chip = wanted(target or (device or {}).get("target")).name
    if device and device.get("target", chip) != chip:
        tell(f"{device['name']} is no {chip}: nothing is measured")
        device = None
    search = _Search(operator, chip, device, Journal(journal, restart), fields or {}, keep, least, job_count(jobs), time_limit,
                     compile_limit, at_least_ms, spills, tell)
    report = Report(operator, chip, device and device["name"])
    for problem in dict.fromkeys(problems):
        report.found[problem] = search.of(problem)
    return report


def _device(operator: Operator, tell: Callable[[str], None]) -> dict | None:
    """The facts of this machine's GPU, asked in a process of its own: a process that has asked cannot fork any more."""
    ended = alone(work.described, operator, limit=START_LIMIT)
    if ended.how != DONE:
        tell(f"the device does not answer ({ended.how}: {ended.text}), so nothing is measured")
    return ended.value


class _Search:
    """The state that all problems of a search share."""

    def __init__(self, operator: Operator, chip: str, device: dict | None, journal: Journal, fields: Mapping[str, tuple],
                 keep: float, least: int, jobs: int, time_limit: float, compile_limit: float, at_least_ms: float, spills: int,
                 tell: Callable[[str], None]):
        self.operator, self.chip, self.device, self.journal, self.fields = operator, chip, device, journal, fields
        self.keep, self.least, self.jobs, self.spills, self.tell = keep, least, jobs, spills, tell
        self.time_limit, self.compile_limit, self.at_least_ms = time_limit, compile_limit, at_least_ms
        self.sms = (device or {}).get("sms") or wanted(chip).multiprocessors or 1

    def of(self, problem: Problem) -> list[Candidate]:
        """Every candidate of a problem, with how far it came."""
        found = self.candidates(problem)
        if not found:
            raise TuningError(f"{self.operator.name} has no candidates for {problem}")
        self.name = said_of(found)
        where = f"on {self.device['name']}" if self.device else f"for {self.chip}, without a GPU"
        known = sum(self.journal.of(one.key, "predicted") is not None for one in found)
        self.tell(f"{self.operator.name} {problem} {where}: {len(found)} candidates"
                  + (f", {known} of them known from {self.journal.path}" if known else ""))
        self.predict(problem, found)
        self.prune(found)
        self.compile(problem, found)
        if self.device:
            self.measure(problem, found)
        else:
            for one in found:
                one.state = one.state or RANKED
        return found

    def candidates(self, problem: Problem) -> list[Candidate]:
        """The operator's candidates, and the library's present choice; those with no launch are refused at once."""
        used, given = self.operator.used(problem, self.sms), self.operator.candidates(problem, self.sms)
        chosen = with_fields(self.operator, given, self.fields) if self.fields else list(dict.fromkeys(given))
        found = []
        for one in [*([used] if used is not None else []), *(each for each in chosen if each != used)]:
            candidate = Candidate(one, used=one == used)
            try:
                kernels = [launch[0] for launch in self.operator.launches(problem, one, self.sms)]
                candidate.key = self.key(problem, one, kernels)
            except ValueError as error:
                candidate.state, candidate.text = REFUSED, str(error)
            found.append(candidate)
        return found

    def key(self, problem: Problem, chosen, kernels: list) -> str:
        """A digest that differs between candidates whose outcomes may differ."""
        facts = (self.operator.name, str(problem), sorted(values_of(chosen).items()), [content_key(kernel) for kernel in kernels],
                 self.chip, self.sms, sorted(versions().items()))
        return hashlib.sha256(repr(facts).encode()).hexdigest()[:24]

    # ---- the steps --------------------------------------------------------------------------------------------------------

    def predict(self, problem: Problem, found: list[Candidate]) -> None:
        last, done, best = time.monotonic(), 0, None
        under_way = [one for one in found if not one.state]
        for one, outcome in self.each(problem, "predicted", under_way, work.predicted, (self.chip, self.sms), self.jobs,
                                      self.compile_limit):
            done += 1
            figures = outcome["figures"] or {}
            one.predicted = figures.get("microseconds")
            one.figures |= {name: figures[name] for name in ("shared", "bound") if name in figures}
            one.text = one.text or figures.get("unpredicted", "")
            if one.predicted is not None and (best is None or one.predicted < best.predicted):
                best = one
            if time.monotonic() - last >= AT_MOST_EVERY or done == len(under_way):
                last = time.monotonic()
                so_far = f", the best so far {best.predicted:.1f} us: {self.name(best)}" if best else ""
                self.tell(f"predicted {done} of {len(under_way)}{so_far}")

    def prune(self, found: list[Candidate]) -> None:
        times = {number: one.predicted for number, one in enumerate(found) if not one.state and one.predicted is not None}
        _, why = by_prediction(times, self.keep, self.least)
        for number, reason in why.items():
            if not found[number].used:
                found[number].state, found[number].text = PRUNED, reason
        left = sum(one.state == PRUNED for one in found)
        refused = sum(one.state == REFUSED for one in found)
        self.tell(f"{refused} do not fit, {left} pruned by prediction, {sum(not one.state for one in found)} go on")

    def compile(self, problem: Problem, found: list[Candidate]) -> None:
        under_way, done, last = [one for one in found if not one.state], 0, time.monotonic()
        for one, outcome in self.each(problem, "compiled", under_way, work.compiled, (self.chip, self.sms), self.jobs,
                                      self.compile_limit):
            done += 1
            figures = outcome["figures"] or {}
            one.figures |= {name: figures[name] for name in ("shared", "registers", "local") if name in figures}
            if figures.get("local", 0) > self.spills and not one.used:
                one.state = SPILLS
                one.text = f"{figures['local']} bytes of local memory a thread, {self.spills} are let through"
            if time.monotonic() - last >= AT_MOST_EVERY or done == len(under_way):
                last = time.monotonic()
                self.tell(f"compiled {done} of {len(under_way)}")

    def measure(self, problem: Problem, found: list[Candidate]) -> None:
        under_way, best = sorted((one for one in found if not one.state), key=rank), None
        steps = self.each(problem, f"measured on {self.device['name']}", under_way, work.measured, (self.at_least_ms, ), 1,
                          self.time_limit)
        for done, (one, outcome) in enumerate(steps, 1):
            if not one.state:
                one.state, one.figures = MEASURED, one.figures | outcome["figures"]
                best = min((other for other in (best, one) if other), key=rank)
            said = f"{one.microseconds:.1f} us{_ratio(one)}" if one.state == MEASURED else f"{one.state}: {one.text}"
            so_far = f"; the best so far {best.microseconds:.1f} us{_ratio(best)}: {self.name(best)}" if best else ""
            self.tell(f"measured {done} of {len(under_way)}: {self.name(one)}: {said}{so_far}")

    def each(self, problem: Problem, step: str, candidates: list[Candidate], function: Callable, args: tuple, processes: int,
             limit: float) -> Iterator[tuple[Candidate, dict]]:
        """One step of each candidate: its outcome from the journal, or from a process. A refusal, wrong result, failure, crash
        or hang is noted in the candidate, too."""
        known = [(one, self.journal.of(one.key, step)) for one in candidates]
        for one, outcome in known:
            if outcome is not None:
                yield one, _tell_candidate(one, outcome)
        jobs = [(one, function, (self.operator, problem, one.chosen, *args)) for one, outcome in known if outcome is None]
        for ended in run(_by_index(jobs), processes, limit):
            one = jobs[ended.key][0]
            outcome = {"how": ended.how, "figures": ended.value, "text": ended.text, "seconds": round(ended.seconds, 2)}
            self.journal.add(one.key, step, outcome, str(problem), values_of(one.chosen))
            yield one, _tell_candidate(one, outcome)


def _by_index(jobs: list) -> Iterator[tuple]:
    return ((number, function, args) for number, (_, function, args) in enumerate(jobs))


def _tell_candidate(one: Candidate, outcome: dict) -> dict:
    figures = outcome["figures"] or {}
    if outcome["how"] != DONE:
        one.state, one.text = outcome["how"], outcome["text"]
    elif "refused" in figures:
        one.state, one.text = REFUSED, figures["refused"]
    elif "wrong" in figures:
        one.state, one.text = WRONG, figures["wrong"]
    return outcome


def _ratio(one: Candidate) -> str:
    return f", {one.ratio:.3f} x {next(iter(one.figures['baselines']))}" if one.ratio else ""
