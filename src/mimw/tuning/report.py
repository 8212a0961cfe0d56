"""Report of a search: every candidate with the last step that it reached and the reason for no further one, and the best.

Input: candidates with their figures. Output: a report as text, as data, and as rows of a kernel's configs.json. For example:

    report = tune("gemm", ["4096x4096x4096"])
    print(report)                       what was measured, the best first, and why each of the others was left out
    report.best(report.problems[0])     the candidate of which configs.json gets a row
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..report.table import table
from .operator import Operator, Problem, values_of

SHOWN = 12      # rows of the table of a problem
REFUSED, PRUNED, SPILLS, WRONG, RANKED, MEASURED = "refused", "pruned", "spills", "wrong", "ranked", "measured"
NOTHING = "nothing was measured: there is no GPU here. The order is the cost model's; configs.json gets nothing of it"


@dataclass
class Candidate:
    """One configuration of one problem.

    used        whether the library chooses it today
    state       "measured"; "ranked" if only predicted; else what left it out: refused (does not fit), pruned (by prediction),
                spills, wrong, failed, crashed, hung; "" while it is under way
    text        why it was left out
    predicted   microseconds, None where there is no prediction
    figures     shared, registers, local: bytes and registers as compiled; microseconds, baselines, error, first_seconds as measured
    """

    chosen: Any
    key: str = ""
    used: bool = False
    state: str = ""
    text: str = ""
    predicted: float | None = None
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def microseconds(self) -> float | None:
        return self.figures.get("microseconds") if self.state == MEASURED else None

    @property
    def ratio(self) -> float | None:
        """The speed relative to the first baseline, which was measured beside it: 2.0 is twice as fast. None without measured
        times."""
        others = list(self.figures.get("baselines", {}).values())
        return others[0] / self.microseconds if others and self.microseconds else None

    def as_json(self) -> dict:
        return {"configuration": values_of(self.chosen), "used": self.used, "state": self.state, "text": self.text,
                "predicted": self.predicted, **self.figures, "ratio": self.ratio}


def rank(candidate: Candidate) -> tuple:
    """The order of a report: measured by their ratios, as times of different minutes do not compare; then by prediction."""
    if candidate.state == MEASURED:
        return (0, -candidate.ratio) if candidate.ratio else (0, candidate.microseconds)
    return 1, candidate.predicted if candidate.predicted is not None else float("inf")


@dataclass
class Report:
    """All problems of a search. `device` is the name of the GPU, None where nothing was measured; `chip` the target of the
    compilation."""

    operator: Operator
    chip: str
    device: str | None
    found: dict[Problem, list[Candidate]] = field(default_factory=dict)

    @property
    def problems(self) -> list[Problem]:
        return list(self.found)

    def best(self, problem: Problem) -> Candidate | None:
        """The best that was measured; where nothing was, the one predicted to be the best. None if all were left out."""
        wanted = MEASURED if self.device else RANKED
        return min((one for one in self.found[problem] if one.state == wanted), key=rank, default=None)

    def rows(self) -> list[dict]:
        """A row of configs.json for each problem with something measured."""
        best = {problem: self.best(problem) for problem in self.found}
        return [self.operator.row(problem, one.chosen) for problem, one in best.items() if one and one.state == MEASURED]

    def as_json(self) -> dict:
        return {"operator": self.operator.name, "chip": self.chip, "device": self.device, "measured": self.device is not None,
                "problems": [{"problem": str(problem), "candidates": [one.as_json() for one in sorted(found, key=rank)]}
                             for problem, found in self.found.items()]}

    def __str__(self) -> str:
        parts = [self._of(problem, found) for problem, found in self.found.items()]
        return "\n\n".join(parts if self.device else [*parts, NOTHING])

    def _of(self, problem: Problem, found: list[Candidate]) -> str:
        name = said_of(found)
        best, tail = self.best(problem), []
        here = [one for one in sorted(found, key=rank) if one.state in (MEASURED, RANKED)]
        where = f"on {self.device}" if self.device else f"predicted for {self.chip}"
        lines = [f"{self.operator.name} {problem} {where}: {len(found)} candidates, {len(here)} "
                 f"{'measured' if self.device else 'compiled and ranked'}"]
        if here:
            lines.append(_table(self.operator, problem, here[:SHOWN], name))
        if best:
            tail.append(f"best: {name(best)}{_against(best, found)}")
        for why in dict.fromkeys(one.text for one in here if one.text):
            tail.append(f"not predicted: {', '.join(name(one) for one in here if one.text == why)}: {why}")
        left = [one for one in found if one not in here]
        tail += [f"left out, {one.state}: {name(one)}: {one.text}" for one in sorted(left, key=lambda one: (one.state, rank(one)))]
        return "\n".join(lines + tail)


def said_of(found: list[Candidate]):
    """A function that says a candidate by the fields in which candidates differ."""
    values = [values_of(one.chosen) for one in found]
    differ = [name for name in values[0] if len({repr(one[name]) for one in values}) > 1] or list(values[0])
    return lambda one: " ".join(f"{name}={value}" for name, value in values_of(one.chosen).items() if name in differ)


def _against(best: Candidate, found: list[Candidate]) -> str:
    """A comparison of the best with the library's present choice, in words."""
    today = next((one for one in found if one.used), None)
    if best.used:
        return " (the library's own choice)"
    if today is None or best.ratio is None or today.ratio is None:
        return ""
    to = next(iter(best.figures["baselines"]))
    return f" ({best.ratio / today.ratio:.3f} x the library's own choice, by their ratios to {to})"


def _table(operator: Operator, problem: Problem, here: list[Candidate], name) -> str:
    baselines = list(here[0].figures.get("baselines", {}))
    measured = here[0].state == MEASURED
    headers = ["configuration", "predicted us", "registers", "shared"]
    headers += ["us", "", *(f"x {one}" for one in baselines), "error"] if measured else []
    rows = []
    for one in here:
        figures = one.figures
        row = [name(one) + (" *" if one.used else ""), "-" if one.predicted is None else f"{one.predicted:.1f}",
               figures.get("registers", "-"), figures.get("shared", "-")]
        if measured:
            row += [f"{one.microseconds:.1f}", operator.rate(problem, one.microseconds)]
            row += [f"{figures['baselines'][each] / one.microseconds:.3f}" for each in baselines] + [f"{figures['error']:.1e}"]
        rows.append(row)
    return table(headers, rows, right=headers[1:])
