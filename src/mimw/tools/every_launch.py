"""Every launch of a session is checked before it runs; launches that are equal once.

Input: launches, as `runtime.before_launch` reports them. Output: a `Tally` of what was checked and found. For example:

    checks = EveryLaunch(seeds=8, found=print)
    with looking(checks.look):
        add[(4, )](x, y, out, 1000, BLOCK=256)      print(report), if a check of this launch finds something
    print(checks.tally)                             1 launch of 1 kernel, 1 different one checked under 8 ...

Launches are equal if kernel, specialisation, grid, numbers, shapes and strides are; the contents of arrays do not count. A check
runs on the arrays as they are before the launch, and leaves them so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

from ..compiler.pipeline import refusing
from ..compiler.triton_port.runtime import is_gluons
from ..errors import NotYet, SimulatorMisuse
from ..ir.world import PerRank, at_rank
from ..runtime.call import Given
from ..runtime.fits import check_fits
from ..runtime.simulate import Launch, prepare
from ..target import Target, wanted
from .check import check
from .findings import Report

SEEDS = 8
FEW = 16            # CTAs that all run; of a larger grid a sample does
SECONDS = 30.0      # for the check of one launch; after so long no further run begins
MENDING = 5.0       # for the search of a change that mends what was found


@dataclass
class Tally:
    """The count of launches, the reports on those that differ, and why some have none, by kernel."""

    seeds: int = SEEDS
    launches: int = 0
    reports: list[Report] = field(default_factory=list)
    unchecked: dict[str, str] = field(default_factory=dict)

    def add(self, other: Tally) -> None:
        """Count what another process has counted."""
        self.launches += other.launches
        self.reports += other.reports
        self.unchecked |= other.unchecked

    @property
    def found(self) -> list[Report]:
        return [report for report in self.reports if not report.ok]

    def __str__(self) -> str:
        if not self.launches:
            return "no kernel was launched, so none was checked"
        kernels = len({report.kernel for report in self.reports} | set(self.unchecked))
        findings = sum(len(report.findings) for report in self.found)
        wrong = sorted({report.kernel for report in self.found})
        told = f"{_many(findings, 'finding')} in {', '.join(wrong)}" if wrong else "nothing found"
        text = [f"{_many(self.launches, 'launch', 'es')} of {_many(kernels, 'kernel')}, "
                f"{_many(len(self.reports), 'different one')} checked under {_many(self.seeds, 'interleaving')}: {told}"]
        late = sum(bool(report.stopped) for report in self.reports)
        parts = sum(bool(report.unseen) for report in self.reports)
        text += [f"{_many(late, 'check')} not complete: after {SECONDS:g} s no further run began"] if late else []
        text += [f"of {_many(parts, 'launch', 'es')} with more than {FEW} CTAs a sample ran"] if parts else []
        return "\n".join([*text, *(f"{kernel} was launched unchecked: {why}" for kernel, why in self.unchecked.items())])


def _many(count: int, what: str, ending: str = "s") -> str:
    return f"{count} {what}{ending * (count != 1)}"


class EveryLaunch:
    """`look` is for `looking`; `found(report)` is called for each launch in which something was found, and may raise."""

    def __init__(self, seeds: int, found: Callable[[Report], None]):
        self.tally, self._found, self._known = Tally(seeds), found, {}

    def look(self, kernel, grid, args: tuple, keywords: dict[str, Any]) -> None:
        """Check a launch. What does not fit is raised as by a launch on a GPU, so an autotuner goes on with its next configuration.
        An error that the launch itself will end in is left to it; of what is not read in a kernel of Gluon's the summary tells."""
        chip = wanted()
        self.tally.launches += 1
        try:
            launch = prepare(Given(kernel, keywords), grid, args, {}, chip.name)
        except NotYet as error:
            if is_gluons(kernel):
                self._unchecked(kernel.__name__, error)
            return
        except Exception:
            return
        with refusing(launch.specialisation.fn):
            check_fits(launch.specialisation, launch.program)
        key = _key(launch)
        if key not in self._known:
            self._known[key] = self._report(Given(kernel, keywords), grid, args, chip, prod(launch.grid))
        report = self._known[key]
        if report is not None and not report.ok:
            self._found(report)

    def _report(self, kernel: Given, grid, args: tuple, chip: Target, ctas: int) -> Report | None:
        try:
            report = check_this(kernel, grid, args, chip, ctas, self.tally.seeds)
        except Exception as error:      # a check that fails is no finding, and the launch runs all the same
            self._unchecked(kernel.fn.__name__, error)
            return None
        self.tally.reports.append(report)
        return report

    def _unchecked(self, name: str, error: Exception) -> None:
        kind = type(error).__name__
        self.tally.unchecked[name] = " ".join((str(error) if str(error).startswith(kind) else f"{kind}: {error}").split())[:300]


def check_this(kernel: Given, grid, args: tuple, chip: Target, ctas: int, seeds: int) -> Report:
    """The check of one launch of so many CTAs. CTAs of a large grid that wait for each other run all."""
    options = dict(target=chip.name, seeds=seeds, shrink=False, rounds=False, jobs=1, time_limit=SECONDS, mends=MENDING)
    if ctas > FEW:
        try:
            return check(kernel, grid, *args, ctas="sample", **options)
        except SimulatorMisuse:
            pass
    return check(kernel, grid, *args, **options)


def _key(launch: Launch) -> tuple:
    """A key that equal launches share."""
    code = launch.specialisation.fn.fn.__code__
    return (code.co_filename, code.co_firstlineno, launch.specialisation.key, launch.grid,
            tuple((path, _form(value)) for path, value in sorted(launch.values.items())))


def _form(value: Any) -> Any:
    """A number as it is; of an array shape and strides, of a descriptor also its block."""
    if isinstance(value, PerRank):
        return tuple(_form(at_rank(value, rank)) for rank in range(len(value)))
    if hasattr(value, "block_shape"):
        return tuple(value.shape), tuple(value.strides), tuple(value.block_shape)
    if hasattr(value, "shape") and hasattr(value, "dtype") and value.shape != ():
        steps = value.stride() if callable(getattr(value, "stride", None)) else value.strides
        return tuple(value.shape), tuple(steps)
    return repr(value)
