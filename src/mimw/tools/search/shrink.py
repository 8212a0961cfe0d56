"""The smallest launch that shows a finding: extents of the grid and integer arguments halved for as long as it does.

Input: a launch and its finding. Output: the finding as the smallest launch shows it, and that launch. For example:

    Shrinker(attempt, over, ctas).shrunk(given, best, what, finding)       (finding, launch), the smallest of SHRINK_RUNS tried
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from ...errors import SimulatorMisuse
from ...runtime.simulate import Launch
from ...simulator import explore, schedule_of
from ..findings import Finding
from .outcomes import finding_of, same

SHRINK_RUNS, SHRINK_SCHEDULES = 24, 16


class Shrinker:
    """`attempt(seed, launch)` runs it and gives the error it ends in; `over()` says that there is no time for another run;
    `ctas(seed, launch)` says which CTAs run, () for all."""

    def __init__(self, attempt: Callable, over: Callable[[], bool], ctas: Callable[..., tuple]):
        self.attempt, self.over, self.ctas = attempt, over, ctas

    def shrunk(self, given: Launch, best: Launch, what: tuple, finding: Finding) -> tuple[Finding, Launch]:
        """The finding as it shows in the smallest launch, and that launch: `best` or a smaller one. `given` is the launch of the
        check, with whose sizes the finding's are compared."""
        runs, moving = 0, True
        while moving and runs < SHRINK_RUNS:
            moving = False
            for smaller in _halves(best):
                if self.over():
                    break
                runs += 1
                shown = self._shown(smaller, what, finding.seed)
                if shown is not None:
                    best, finding, moving = smaller, shown, True
                    break
                if runs >= SHRINK_RUNS:
                    break
        names = {param.path: param.name for param in best.program.params}
        sizes = {names[path]: value for path, value in best.values.items() if value is not given.values[path]}
        return replace(finding, sizes=sizes), best

    def _shown(self, launch: Launch, what: tuple, seed) -> Finding | None:
        """The finding in `launch`, by the seed given or, for a schedule, by one of the first few; None if it does not show."""
        try:
            error = self.attempt(seed, launch)
            if error is not None and same(error) == what:
                return finding_of(error, seed, launch.grid, self.ctas(seed, launch))
            errors = []
            limit = SHRINK_SCHEDULES if isinstance(seed, tuple) else 0
            for guide in explore(lambda guide: errors.append(self.attempt(guide, launch)), limit):
                if errors[-1] is not None and same(errors[-1]) == what:
                    return finding_of(errors[-1], schedule_of(guide.steps), launch.grid, self.ctas(guide, launch))
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
