"""A finding again, with its timeline: the run that shows the finding, up to the error.

Input: the launch that was checked, and a finding. Output: a `Replayed`, for pages. For example:

    Replay(launch, choice, chip)(finding)        Replayed(trace, at=1210.0, error=OperandOverwritten(...))
    Replay(launch, choice, chip)(None)           the run of seed 0, of a launch in which nothing was found

Arrays are put back as they were, before and after.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ...errors import SimulationError
from ...runtime.fits import AsCompiled, as_compiled
from ...runtime.simulate import Launch
from ...simulator import Hooks, Trace, cut_short, run, watching
from ...target import Target
from ..findings import Finding
from .arrays import Arrays
from .clusters import cluster_of


@dataclass(frozen=True)
class Replayed:
    """`at` is the time of the error, None if the run came to its end."""

    trace: Trace
    at: float | None = None
    error: SimulationError | None = None


@dataclass(frozen=True)
class Replay:
    """Runs of one launch by the rules of `target`. `ctas(seed, launch)` gives the clusters that a run has, () for all."""

    launch: Launch
    ctas: Callable[..., tuple]
    target: Target

    def memory(self) -> AsCompiled | None:
        """The shared memory of the kernel as it would be compiled."""
        return as_compiled(self.launch.specialisation, self.launch.program)

    def __call__(self, finding: Finding | None = None) -> Replayed:
        """The run that shows the finding, or that of seed 0."""
        launch, seed = self.launch, finding.seed if finding else 0
        clusters = self.ctas(seed, launch)
        if finding is not None:
            paths = {param.name: param.path for param in launch.program.params}
            sizes = {paths[name]: value for name, value in finding.sizes.items()}
            launch = replace(launch, grid=tuple(finding.grid), values=launch.values | sizes)
            clusters = tuple(dict.fromkeys(cluster_of(launch, index) for index in finding.ctas))
        machines: list = []
        saved, token = Arrays(launch.arrays()), watching.set(machines.append)
        try:
            return Replayed(run(launch.program, launch.grid, launch.values, seed=seed, trace=True, races=finding is not None,
                                gpus=launch.gpus, memory=launch.memory, hooks=Hooks(clusters)).trace)
        except SimulationError as error:
            if not machines:
                raise
            return Replayed(*cut_short(machines[0]), error)
        finally:
            watching.reset(token)
            saved.restore()
