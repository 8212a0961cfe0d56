"""A whole run as data for a page: what each event changed of tasks, barriers, buffers, values and flights.

Input: a session. Output: a `Recording`, whose `data` is JSON's. For example:

    recorded(session).data["cells"]["barriers"]["full[0]"]      [[0, 41, 60], [3, 7, 9]]: texts 3, 7, 9 from events 0, 41, 60 on

A cell is one thing that the page shows, kept as the events at which it changed and the texts from there on; equal texts are kept
once. Recorded are the CTAs of one cluster, that of the task which the session looks at, on every GPU. The session runs anew for
it, and then stands where it stood.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...report.page.lines import Lines
from . import looks
from .events import OP, Event, barrier_label
from .standing import Standing
from .values import seen, statistics

MOST = 20_000       # events of a page
_ACTOR = 4          # the place of the task in an event of a page
_PRINTED = dict(threshold=40, edgeitems=4, linewidth=96, precision=5, suppress=True)


@dataclass
class Cell:
    """One thing that the page shows: the text from each of `since` on."""

    since: list[int] = field(default_factory=list)
    texts: list[int] = field(default_factory=list)


@dataclass
class Recording:
    """The content of a page about a run. `lines` gives its lines their keys; `start` is the event at which the session stands."""

    lines: Lines = field(default_factory=Lines)
    start: int = 0
    events: list[list] = field(default_factory=list)
    actors: list[str] = field(default_factory=list)
    left_out: int = 0       # events beyond MOST
    _texts: dict[str, int] = field(default_factory=dict)
    _cells: dict[str, dict[str, Cell]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(Cell)))

    @property
    def data(self) -> dict[str, Any]:
        cells = {kind: {name: [cell.since, cell.texts] for name, cell in cells.items()} for kind, cells in self._cells.items()}
        return {"start": self.start, "events": self.events, "actors": self.actors, "texts": list(self._texts), "cells": cells}

    def text(self, text: str) -> int:
        """The number of a text."""
        return self._texts.setdefault(text, len(self._texts))

    def put(self, kind: str, name: str, text: str) -> None:
        """From the event on that comes next, or is under way, the cell shows `text`."""
        cell, number = self._cells[kind][name], self.text(text)
        if cell.texts and cell.texts[-1] == number:
            return
        cell.since.append(max(0, len(self.events) - 1))
        cell.texts.append(number)


class _Recorder:
    """Looks at every event of a run."""

    def __init__(self, session: Standing):
        self.session, self.recording = session, Recording()
        self.keys = _keys(session)
        self._values: dict[tuple[str, str], Any] = {}       # the object that a name held last
        self._stale = False     # buffers may have changed

    def look(self, number: int, event: Event) -> bool:
        """Note the event; the run goes on."""
        if event.cta not in self.keys:
            return False
        recording = self.recording
        if len(recording.events) >= MOST:
            recording.left_out += 1
            return False
        actor = self._label(event.cta, event.task)
        key = recording.lines.keys(event.op.site).split(" ")[0]
        recording.events.append([number, round(event.clock), recording.text(str(event)), key, recording.actors.index(actor),
                                 event.kind])
        self._note(event)
        return False

    def end(self) -> None:
        """The state behind the last event, with the error of the run."""
        recording, session = self.recording, self.session
        if recording.left_out:
            return
        told = f"the run has ended after {session.number} events"
        if session.error is not None:
            told += f", in an error: {type(session.error).__name__}: {recording.lines.short(session.error.message)}"
        recording.events.append([session.number, round(session.player.machine.end), recording.text(told), "", -1, "end"])
        self._stale = True
        self._note(None)

    def in_order(self) -> Recording:
        """The recording with the tasks of a CTA together, as they began there: the seed decides which CTA begins."""
        found = self.recording
        order = sorted(range(len(found.actors)), key=lambda place: found.actors[place].partition(" @")[2])
        for event in found.events:
            event[_ACTOR] = order.index(event[_ACTOR]) if event[_ACTOR] >= 0 else -1
        found.actors = [found.actors[place] for place in order]
        return found

    def _note(self, event: Event | None) -> None:
        present = set()
        for key in self.keys:
            cta = looks.cta_of(self.session, key)
            for task in self.session.player.tasks_of(key):
                present.add(self._task(task))
            if cta is not None:
                self._barriers(cta)
                self._buffers(cta)
        waiting = {self._label(task.cta.key, task.name) for task in self.session.player.machine.blocked
                   if task.cta.key in self.keys and task.wait.kind == "join"}
        for actor in self.recording.actors:
            if actor not in present:
                self.recording.put("tasks", actor, "\twaits for its tasks to end" if actor in waiting else "\thas ended")
        flights = [looks.flight(one) for one in self.session.player.machine.inflight if one.task.cta.key in self.keys]
        self.recording.put("flights", "", "\n".join(flights))
        if event is not None and event.kind == OP:
            self._names(event)
        self._stale = event is not None and (event.kind != OP or bool(event.op.row.writes))

    def _label(self, key: tuple[int, ...], name: str) -> str:
        label = self._at(key, name)
        if label not in self.recording.actors:
            self.recording.actors.append(label)
        return label

    def _task(self, task: Any) -> str:
        """Note the line and the state of a task; its label."""
        actor, op = self._label(task.cta.key, task.name), self.session.player.at.get(task)
        key = self.recording.lines.keys(op.site).split(" ")[0] if op is not None else ""
        state = looks.waiting(self.session, task) or (f"at {op.name}" if op is not None else "has not begun")
        self.recording.put("tasks", actor, f"{key}\t{state}")
        return actor

    def _barriers(self, cta: Any) -> None:
        for barrier in (barrier for array in cta.barriers.values() for barrier in array):
            told = (f"{barrier.phase} (parity {barrier.phase & 1})", f"{barrier.arrived} of {barrier.count}",
                    str(barrier.pending_bytes), looks.around(self.session, barrier))
            self.recording.put("barriers", self._at(cta.key, barrier_label(barrier)), "\t".join(told))

    def _buffers(self, cta: Any) -> None:
        if not self._stale:
            return
        for name, view in looks.slots_of(cta):
            who = looks.writer_of(self.session, view)
            told = "\t".join((looks.state(view), looks.written(who), _shown(seen(view)) if who is not None else ""))
            self.recording.put("buffers", self._at(cta.key, name), told)

    def _at(self, key: tuple[int, ...], name: str) -> str:
        """A name with the rank of its CTA in the cluster, or of its GPU, where there are several."""
        return f"{name} @{self.keys.index(key)}" if len(self.keys) > 1 else name

    def _names(self, event: Event) -> None:
        """Note the tiles and numbers that the names of a task have come to hold."""
        session, actor = self.session, self._label(event.cta, event.task)
        task = session.player.task(event.actor)
        if task is None:
            return
        for name, value in session.names.held(task, event.op):
            if self._values.get((actor, name)) is not value:
                self._values[actor, name] = value
                self.recording.put("values", f"{actor}\t{name}", _shown(seen(value)))


def _keys(session: Standing) -> list[tuple[int, ...]]:
    """The CTAs of a page: the cluster of the one that is looked at, on every GPU of the launch."""
    key = session.actor[0]
    cta = looks.cta_of(session, key)
    keys = [one.key for one in cta.cluster.ctas] if cta is not None else [key]
    gpus = session.player.machine.gpus
    return keys if len(gpus) == 1 else [(*one[:3], gpu.rank) for gpu in gpus for one in keys]


def _shown(value: Any) -> str:
    """A value in a few lines."""
    if isinstance(value, np.ndarray) and value.ndim:
        with np.printoptions(**_PRINTED):
            return f"{statistics(value)}\n{value}"
    return str(value)


def recorded(session: Standing) -> Recording:
    """The run of a session, from its start to its end."""
    number, recorder = session.number, _Recorder(session)
    session.again(recorder.look)
    recorder.end()
    session.goto(number)
    found = recorder.in_order()
    found.start = next((place for place, event in enumerate(found.events) if event[0] >= number), len(found.events) - 1)
    return found
