"""The debugger: a simulated launch that stands still at any event, steps forward and back, and tells everything.

Input: a launch. Output: a `Session`, a prompt, a page. For example:

    session = mimw.debug(row_sums, (1, ), rows, y, 7, N=64); session.go(); print(session.where())

The files:

    launch.py       `mimw.debug`, and what a launch calls whose kernel says `breakpoint()`
    session.py      where the run stands, and how it moves
    player.py       one run of the machine, in a thread that waits at any event
    events.py       what happens in a run, numbered
    places.py       where to stop: lines, barriers, tasks, waits
    lines.py        the author's lines at which ops stand
    scope.py        which value a name stands for at an op
    expressions.py  expressions over these names
    values.py       values as numpy shows them
    looks.py        texts about tasks, source, barriers, buffers, pipes, waits
    standing.py     a session as these texts see it
    commands.py     the prompt
    page.py         the run as a page; page.css and page.js
"""

from .launch import at_breakpoints, debug
from .session import Session

__all__ = ["Session", "at_breakpoints", "debug"]
