"""What a deadlock really is: a phase that is off by one, where one wait with the other parity mends it.

Input: a finding, the launch that shows it, `attempt(seed, launch)`, which runs a launch and gives the error it ends in, and
`over()`, whether there is no time for another run. Output: the finding, or one that says more. For example:

    diagnosed(finding, launch, attempt, over).kind      "PhaseOffByOne", where it was "Deadlock"
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...errors import PhaseOffByOne
from ...runtime.simulate import Launch
from ...simulator import flipped_waits, verb_of_pipe
from ..findings import Finding
from .outcomes import kinds_of


def diagnosed(finding: Finding, launch: Launch, attempt: Callable, over: Callable[[], bool]) -> Finding:
    """A deadlock that is over as soon as one wait names the other parity is a phase that is off by one."""
    if "Deadlock" not in finding.kinds:
        return finding
    for site in finding.sites:
        program = None if over() else flipped_waits(launch.program, site)
        if program is not None and attempt(finding.seed, replace(launch, program=program)) is None:
            pipe = verb_of_pipe(launch.program, site)
            message = (f"the {pipe or 'wait'} at {site} names the wrong {'chunk' if pipe else 'parity'}: with the other one "
                       f"nobody gets stuck.\n{finding.message}")
            sites = (site, *(other for other in finding.sites if other is not site))
            mend = ("number the chunks 0, 1, 2, ... in the writer and in every reader, each once" if pipe else
                    "wait for the other parity, phase ^ 1: a fresh barrier has completed parity 1, so a task "
                    "that fills empty slots starts with 1, and one that reads full slots with 0")
            return replace(finding, kind="PhaseOffByOne", kinds=kinds_of(PhaseOffByOne), message=message, sites=sites, hint=mend)
    return finding
