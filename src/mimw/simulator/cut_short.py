"""The timeline of a run that ended in an error: what was under way is in it, too, up to the moment of the error.

Input: a machine that kept a trace and stopped. Output: the trace, and the time at which the run ended. For example, of a deadlock:

    cut_short(machine)        (Trace([..., Event(0, "mma", "wait", 480.0, 1210.0, "parity 0 of 'full'[0]")]), 1210.0)

A task that works has a stretch to its own clock, and one that waits has the wait, which a finished run would have recorded at its
end. The error is at the clock of the task that raised the error, or where nobody can go on any more.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir.trace import Trace

FOR_EVER = 0.06     # of the run, which the waits of a deadlock are drawn beyond the last thing that happened


def cut_short(machine) -> tuple[Trace, float]:
    """The trace, in the order in which events ended, and when the run stopped."""
    tasks = [task for cta in machine.ctas.values() for task in cta.tasks if not task.finished]
    for task in tasks:
        task.end_stretch()
    trace = replace(machine.trace, events=list(machine.trace.events))
    last = max([trace.end, *(task.clock for task in tasks)])
    end = last if machine.stopped else last * (1 + FOR_EVER) or 1.0
    for task in machine.blocked:
        if task.wait is not None and task.wait.kind != "join":
            machine.record(task.cta, task.name, "wait", task.clock, end, task.wait.detail().split(": ")[0], task.wait.op)
    trace.events += machine.trace.events[len(trace.events):]
    trace.events.sort(key=lambda event: event.end)
    return trace, machine.stopped.clock if machine.stopped else last
