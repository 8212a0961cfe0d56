"""Places to stop at: lines, barriers, buffers, tasks, waits.

Input: a text, as typed behind `b` and `u`. Output: a `Place`, which says of each event whether it is meant. For example:

    21                  the line of the kernel's file; pipes.py:40 of another one
    full[0]             a phase of this barrier completes; `full`, of any of its array; `phase`, of any barrier
    ring[1]             this slot of a buffer is written; `ring`, any of its slots
    load                task 'load' goes on, after others did
    wait                a task begins to wait; `wait load`: this one
    21 if row == 3      an expression over the names of the task at that line
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ...errors import SimulatorMisuse
from .events import OP, PHASE, WAIT, Event, is_on

_LINE = re.compile(r"(?:(.+):)?(\d+)")
_CONDITION = re.compile(r"^(.*?)\s+if\s+(.+)$")


@dataclass(frozen=True)
class Place:
    """A place and, where it has one, its condition. `kind` is line, barrier, buffer, task or wait."""

    kind: str
    name: str
    line: int = 0
    condition: str = ""

    def __str__(self) -> str:
        shown = {"line": f"{self.name}:{self.line}" if self.name else f"line {self.line}",
                 "barrier": f"a phase of {self.name}" if self.name else "any phase", "buffer": f"a write of {self.name}",
                 "task": f"task '{self.name}' goes on", "wait": f"a wait of '{self.name}'" if self.name else "any wait"}[self.kind]
        return f"{shown} if {self.condition}" if self.condition else shown

    def meets(self, log: Sequence[Event], number: int) -> bool:
        """True if the event of that number is at the place, whatever the condition."""
        event = log[number]
        if self.kind == "line":
            return event.kind == OP and is_on(event.op.site, self.name, self.line) and (
                event.again or not is_on(event.before, self.name, self.line))
        if self.kind == "barrier":
            return event.kind == PHASE and (not self.name or _is_of(event.what, self.name))
        if self.kind == "buffer":
            return _is_of(event.into, self.name)
        if self.kind == "wait":
            return event.kind == WAIT and (not self.name or event.task == self.name)
        return event.kind == OP and event.task == self.name and (not number or log[number - 1].actor != event.actor)


def _is_of(found: str, name: str) -> bool:
    """True if a barrier or buffer is the one that is named, or a part of it."""
    return found == name or found.startswith(f"{name}[")


def place(text: str, tasks: Collection[str], barriers: Collection[str], buffers: Collection[str]) -> Place:
    """The place that `text` names; SimulatorMisuse for none. `barriers` and `buffers` are the names of arrays of them."""
    found = _CONDITION.match(text)
    text, condition = (found[1].strip(), found[2]) if found else (text.strip(), "")
    if line := _LINE.fullmatch(text):
        return Place("line", line[1] or "", int(line[2]), condition)
    first, _, rest = text.partition(" ")
    if first == "wait" and (not rest or rest in tasks):
        return Place("wait", rest, condition=condition)
    if text == "phase":
        return Place("barrier", "", condition=condition)
    if text in tasks:
        return Place("task", text, condition=condition)
    if text.partition("[")[0] in barriers:
        return Place("barrier", text, condition=condition)
    if text.partition("[")[0] in buffers:
        return Place("buffer", text, condition=condition)
    raise SimulatorMisuse(f"{text!r} is no line, barrier, buffer or task of the kernel", hint=f"a line (21, file.py:21), a barrier "
                          f"({', '.join(barriers) or 'it has none'}), a buffer ({', '.join(buffers) or 'it has none'}), a task "
                          f"({', '.join(tasks)}), `phase`, `wait` or `wait TASK`; any of them with `if EXPRESSION` behind it")
