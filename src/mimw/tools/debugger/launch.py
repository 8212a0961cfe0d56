"""`mimw.debug`: a launch on the simulator that stands still, steps, and goes back.

Input: a kernel, a grid and arguments, as for `mimw.simulate`. Output: a `Session`. For example:

    session = mimw.debug(row_sums, (1, ), rows, y, 7, N=64)
    session.until("full[1]"), session["total"], session.where()

`at_breakpoints` is what a simulated launch calls whose kernel says `breakpoint()`: the prompt, in the midst of the launch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...errors import SimulatorMisuse
from ...runtime.call import tool
from ...runtime.results import Expected, expectations
from ...runtime.simulate import Launch, prepare
from ...simulator import Run, check_seed
from ...target import wanted
from ..findings import Finding
from .commands import Prompt, read
from .session import Session


@tool
def debug(kernel, grid, *args: Any, target: str | Any = None, num_warps: int | Any = None, num_stages: int | Any = None,
          gpus: int | Any = None, seed: int | tuple | Any = 0, races: bool | Any = True, finding: Finding | Any = None,
          memory: Sequence[Any] | Any = (), expected: Any = None, tolerance: Any = None, **meta: Any) -> Session:
    """Begin a launch of `kernel` on the simulator and stand at its first event.

    args:      kernel, grid, args, target, num_warps, num_stages, gpus, memory, meta   as for `mimw.simulate`
               seed      which run: as for `mimw.simulate`, also the schedule of a finding
               races     whether to look for races as well; the run then ends at the first one
               finding   one of `mimw.check`'s: its seed, its grid and its sizes, so that the run ends in it
               expected, tolerance   as for `mimw.simulate`: the run ends in a WrongResult where an array is not as expected
    returns:   Session: `step`, `next`, `switch`, `phase`, `until`, `go` move forward, with `back=True` backwards;
               `session["total"]` evaluates an expression; `where`, `source`, `barriers`, `buffers`, `pipes`, `waits` and
               `flights` tell; at the end of a notebook's cell, and by `save_html`, the whole run is a page
    errors:    those of `mimw.simulate` for a launch that cannot be made ready. An error of the run is no exception: the run ends
               there, and `session.error` is the error
    """
    launch = prepare(kernel, grid, args, dict(meta), target, gpus, memory)
    given = launch
    if finding is not None:
        if finding.seed is None:
            raise SimulatorMisuse("this finding is the compiler's: no run shows it", hint="its lines and its mend say what it is")
        launch, seed = of_finding(launch, finding), finding.seed
    check_seed(seed)
    whole = launch.grid == given.grid and launch.values == given.values     # of a smaller launch nothing is expected
    return Session(launch, seed=seed, races=races, target=wanted(target),
                   expected=expectations(expected, tolerance, launch) if whole else ())


def of_finding(launch: Launch, finding: Finding) -> Launch:
    """The launch in which `mimw.check` has found it: perhaps a smaller one than was checked."""
    paths = {param.name: param.path for param in launch.program.params}
    sizes = {paths[name]: value for name, value in finding.sizes.items()}
    return replace(launch, grid=tuple(finding.grid), values=launch.values | sizes)


def at_breakpoints(launch: Launch, *, seed: Any, trace: bool, races: bool, expected: Sequence[Expected] = ()) -> Run:
    """Run a launch whose kernel says `breakpoint()`, with a prompt at each; the result is that of `simulator.run`. `expected`: what
    arrays are to hold at the end.

    errors:    the error in which the run ends, once its reader has left the prompt; KeyboardInterrupt if he leaves before the end
    """
    with Session(launch, seed=seed, races=races, trace=trace, expected=expected) as session:
        prompt = Prompt(session, in_launch=True)
        if not prompt.moved(session.go()):
            read(prompt)
        if session.error is not None:
            raise session.error
        if session.event is not None:
            raise KeyboardInterrupt("the debugger was left before the launch had ended")
        machine = session.player.machine
        return Run(machine.end, machine.counts(), machine.trace, machine.lines() if trace else Counter())
