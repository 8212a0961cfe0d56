"""What is really wrong where a finding shows elsewhere: a wait that names the other parity, or what the program shows by itself.

Input: a finding, the launch that shows it, `attempt(seed, launch)`, which runs a launch and gives the error it ends in, and
`over()`, whether there is no time for another run. Output: the finding, or one that says more. For example:

    diagnosed(finding, launch, attempt, over).kind      "PhaseOffByOne", where it was "Deadlock"

A deadlock of which one wait with the other parity is the cause is a `PhaseOffByOne`. A race, a read of what nobody has written, or
a missed phase keeps its kind, and names the wait that returned at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...compiler.analysis.barrier_ops import waits
from ...compiler.analysis.likely import likely_mend
from ...errors import PhaseOffByOne
from ...runtime.simulate import Launch
from ...simulator import flipped_waits, verb_of_pipe
from ..findings import Finding
from .outcomes import kinds_of

# What a wait leads to that does not wait.
EARLY = ("UnwrittenRead", "PhaseMissed", "SlotReusedEarly", "CopyReadEarly", "OperandOverwritten")
SEEDS = range(8)        # that find nothing with the other parity
MOST = 8                # waits that are tried


def diagnosed(finding: Finding, launch: Launch, attempt: Callable, over: Callable[[], bool]) -> Finding:
    """The finding, by its cause where that is known."""
    if "Deadlock" in finding.kinds:
        return _stuck(finding, launch, attempt, over)
    if not any(kind in finding.kinds for kind in EARLY):
        return finding
    likely = likely_mend(launch.program)
    return replace(finding, hint=likely) if likely else _early(finding, launch, attempt, over)


def _stuck(finding: Finding, launch: Launch, attempt: Callable, over: Callable[[], bool]) -> Finding:
    """A deadlock that is over as soon as one wait names the other parity is a phase that is off by one."""
    for site in finding.sites:
        program = None if over() else flipped_waits(launch.program, site)
        if program is not None and attempt(finding.seed, replace(launch, program=program)) is None:
            pipe = verb_of_pipe(launch.program, site)
            message = (f"the {pipe or 'wait'} at {site} names the wrong {'chunk' if pipe else 'parity'}: with the other one "
                       f"nobody gets stuck.\n{finding.message}")
            mend = ("number the chunks 0, 1, 2, ... in the writer and in every reader, each once" if pipe else
                    "wait for the other parity, phase ^ 1: a fresh barrier has completed parity 1, so a task "
                    "that fills empty slots starts with 1, and one that reads full slots with 0")
            return replace(finding, kind="PhaseOffByOne", kinds=kinds_of(PhaseOffByOne), message=message,
                           sites=_first(site, finding), hint=mend)
    return finding


def _early(finding: Finding, launch: Launch, attempt: Callable, over: Callable[[], bool]) -> Finding:
    """A finding that is gone as soon as one wait names the other parity comes of that wait, which returned at once."""
    sites = dict.fromkeys(one.op.site for one in waits(launch.program) if "method" not in one.op.attrs)
    for site in list(sites)[:MOST]:
        program = flipped_waits(launch.program, site)
        changed = replace(launch, program=program) if program is not None else None
        if changed is None or over() or attempt(finding.seed, changed) is not None:
            continue
        if all(not over() and attempt(seed, changed) is None for seed in SEEDS):
            message = (f"the wait at {site} names the wrong parity, so that it returns too early: with the other one nothing is "
                       f"found.\n{finding.message}")
            mend = (f"wait for the other parity at {site}: a fresh barrier has completed parity 1, so a task that reads full "
                    "slots starts with 0, and one that fills empty slots with 1")
            return replace(finding, message=message, sites=_first(site, finding), hint=mend)
    return finding


def _first(site, finding: Finding) -> tuple:
    return (site, *(other for other in finding.sites if other is not site))
