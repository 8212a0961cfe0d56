"""Texts about a run that stands still: tasks, source, barriers, buffers, pipes, waits.

Input: a `Session`. Output: `Text`s, which a prompt, a notebook and `print` show alike. For example, `where`:

    CTA (0, 0, 0)
    > add    row_sums.py:20  is about to do breakpoint
      load   row_sums.py:27  waits for parity 1 of 'free'[0]: ..., since event 98
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from ...compiler.analysis import pipe_resources
from ...compiler.analysis.barrier_ops import signals
from ...compiler.analysis.pipe_words import pipe_sides
from ...ir import Buffer, Program
from ...simulator.machine.deadlock import waiting_lines
from ...simulator.memory.views import WRITTEN, View
from ...simulator.memory_model.shadow import owner_of
from .events import OP, WAIT, barrier_label
from .lines import here as line_of
from .lines import length, shown, source, users
from .standing import Standing
from .values import seen, statistics

AROUND = 4          # lines of source before and behind the one of a task
CTAS = 8            # of which a table says everything


class Text(str):
    """A text that a prompt shows as it is."""

    __slots__ = ()

    __repr__ = str.__str__

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


def barrier_names(program: Program) -> tuple[str, ...]:
    """The names of the arrays of barriers, as `places` takes them: "full", or "ring.free" of a pipe."""
    sides = pipe_sides(program)
    names = []
    for op in program.where(lambda row: row.allocates == "barriers"):
        side = sides.get(op.result)
        names.append(f"{side.name}.{side.side}" if side is not None else op.result.name or f"barriers of line {op.site.line}")
    return tuple(dict.fromkeys(names))


def buffer_names(program: Program) -> tuple[str, ...]:
    """The names of the arrays of buffers, as `places` takes them."""
    arrays = program.where(lambda row: row.allocates == "buffer")
    return tuple(dict.fromkeys(op.result.name or f"buffer of line {op.site.line}" for op in arrays))


def here(session: Standing) -> Text:
    """Event, task and line; at the end the error, or how long the run was."""
    event, note = session.event, f"\n{session.note}" if session.note else ""
    if event is None:
        machine = session.player.machine
        if session.error is None:
            return Text(f"the run has ended after {session.number} events, at cycle {machine.end:,.0f}; nothing was wrong{note}")
        return Text(f"the run has ended after {session.number} events, in an error\n"
                    f"{session.error}{note}")
    calls = users(event.op.site)[:session.depth]
    lines = [f"event {session.number}, cycle {event.clock:,.0f}: {event}"]
    for mark, (file, line) in zip(("->", *["called from:"] * len(calls)), reversed(calls)):
        if text := source(file, line):
            lines.append(f"-> {line:>4} {text}" if mark == "->" else f"{mark} {Path(file).name}:{line} {text.strip()}")
    return Text("\n".join(lines) + note)


def where(session: Standing) -> Text:
    """Each task of each CTA that runs."""
    running, rows = session.player.running(), []
    for key in _first(session, running):
        rows.append((f"CTA {key}", "", ""))
        for task in session.player.tasks_of(key):
            mark = ">" if (key, task.name) == session.actor else " "
            op = session.player.at.get(task)
            rows.append((f"{mark} {task.name}", shown(op.site) if op is not None else "has not begun", _doing(session, task)))
    if len(running) > CTAS:
        rows.append((f"and {len(running) - CTAS} more CTAs", "", ""))
    return _table(rows, "no task runs")


def _first(session: Standing, rows: list) -> list:
    """The CTAs of which a table tells, with the one that is looked at."""
    mine = session.actor[0]
    return rows[:CTAS] if mine in rows[:CTAS] or mine not in rows else [mine, *rows[:CTAS - 1]]


def _doing(session: Standing, task: Any) -> str:
    """The state of a task, behind its line."""
    if waits := waiting(session, task):
        return waits
    player = session.player
    op = player.at.get(task)
    if op is None:
        return "can go on"
    if player.machine.stopped is task:
        return f"ended the run at {op.name}"
    event = session.event
    if event is not None and event.kind == OP and event.op is op and event.actor == (task.cta.key, task.name):
        return f"is about to do {op.name}"
    return f"can go on, has come to {op.name}"


def waiting(session: Standing, task: Any) -> str:
    """The wait of a task in words, with the event since when; "" if it can go on."""
    player, event = session.player, session.event
    since = player.since.get(task, 0)
    if event is not None and event.kind == WAIT and since == session.number and event.actor == (task.cta.key, task.name):
        return f"waits for {event.what}, since event {since}"       # the machine is told behind this event
    if task in player.machine.blocked and task.wait is not None:
        return f"waits for {task.wait.detail()}, since event {since}"
    return ""


def markers(session: Standing, key: tuple[int, ...]) -> dict[tuple[str, int], list[str]]:
    """By line, the tasks of a CTA that stand there."""
    found: dict[tuple[str, int], list[str]] = defaultdict(list)
    for task in session.player.tasks_of(key):
        op = session.player.at.get(task)
        if op is not None:
            found[line_of(op.site)].append(task.name)
    return found


def source_lines(session: Standing) -> Text:
    """The source around the line of each task, with the tasks' names in front."""
    marked = markers(session, session.actor[0])
    if not marked and session.error is not None:
        marked = {line_of(site): ["error"] for site in session.error.sites[:2]}
    if not marked:
        return Text("no task of this CTA runs")
    width = max(len(", ".join(names)) for names in marked.values())
    lines: list[str] = []
    for file in dict.fromkeys(file for file, _ in marked):
        wanted = sorted({near for other, line in marked if other == file for near in range(line - AROUND, line + AROUND + 1)})
        lines.append(file)
        before = None
        for line in wanted:
            if not 0 < line <= length(file):
                continue
            if before is not None and line > before + 1:
                lines.append(f"{'':>{width}}   ...")
            names = ", ".join(marked.get((file, line), ()))
            lines.append(f"{names:>{width}} {'>' if names else ' '} {line:>4} {source(file, line)}".rstrip())
            before = line
    return Text("\n".join(lines))


def barriers(session: Standing) -> Text:
    """Each barrier of the CTA."""
    rows = [(barrier_label(barrier), f"phase {barrier.phase} (parity {barrier.phase & 1})",
             f"{barrier.arrived} of {barrier.count} arrivals", f"{barrier.pending_bytes} bytes pending", around(session, barrier))
            for barrier in barriers_of(session)]
    return _table(rows, "this CTA has no barriers now")


def barriers_of(session: Standing) -> list[Any]:
    """The barriers of the CTA that is looked at."""
    cta = cta_of(session, session.actor[0])
    return [barrier for array in cta.barriers.values() for barrier in array] if cta is not None else []


def around(session: Standing, barrier: Any) -> str:
    """The tasks that wait for a barrier, and what is on its way to it."""
    blocked = session.player.machine.blocked
    waiting = dict.fromkeys(task.name for task in barrier.waiters if task in blocked)
    parts = [f"{', '.join(waiting)} wait{'s' * (len(waiting) == 1)}"] if waiting else []
    if barrier.life is not None and not barrier.life.alive:
        parts.append("not initialised")
    coming: dict[str, list[str]] = defaultdict(list)
    for copy in barrier.coming:
        coming[copy.kind].append(shown(copy.op.site))
    parts += [f"{kind} of {', '.join(dict.fromkeys(places))} on its way" for kind, places in coming.items()]
    return "; ".join(parts)


def cta_of(session: Standing, key: tuple[int, ...]) -> Any:
    """The CTA with a program id; None if it does not run."""
    return next((cta for cta in session.player.machine.ctas.values() if cta.key == key), None)


def slots_of(cta: Any) -> list[tuple[str, View]]:
    """(name, memory) of each slot of each buffer of a CTA."""
    found: list[tuple[str, View]] = []
    for value, view in (cta.memory.items() if cta is not None else ()):
        if not isinstance(view, View) or not isinstance(value.type, Buffer):
            continue
        name = value.name or view.allocation.name
        if not value.type.count:
            found.append((name, view))
            continue
        for index in range(value.type.count):
            select = index if view.group_size == 1 else divmod(index, view.group_size)
            found.append((f"{name}[{index}]", view.part(select, f"[{index}]")))
    return found


def buffers(session: Standing) -> Text:
    """Each slot of each buffer."""
    rows = []
    for name, view in slots_of(cta_of(session, session.actor[0])):
        who = writer_of(session, view)
        rows.append((name, state(view), written(who), statistics(seen(view)) if who is not None else ""))
    return _table(rows, "this CTA has no buffers now")


def state(view: View) -> str:
    """The numbers of elements of a slot that are written, on their way, poison."""
    marks, all_ = view.marks, view.marks.size
    counts = {"written": np.count_nonzero(marks == WRITTEN), "on its way": np.count_nonzero(marks == view.byte(0x01)),
              "poison": np.count_nonzero(marks == view.byte(0x02)), "not written": np.count_nonzero(marks == 0)}
    parts = [what if count == all_ else f"{count} of {all_} {what}" for what, count in counts.items() if count]
    return ", ".join(parts) or "partly written"


def written(last: Any) -> str:
    """The last write of a slot in words."""
    return "" if last is None else f"by {last.op.name} of '{last.task.name}' at {shown(last.op.site)}, event {last.number}"


def writer_of(session: Standing, view: View) -> Any:
    """The last write of any element of a view, a `player.Written`; None if there was none."""
    memory = id(owner_of(view.data))
    low, high = np.lib.array_utils.byte_bounds(view.data)
    found = [one for (owner, first, last), one in session.player.writers.items()
             if owner == memory and first < high and low < last and np.shares_memory(one.view.data, view.data)]
    return max(found, key=lambda one: one.number, default=None)


def pipes(session: Standing) -> Text:
    """Each slot of each pipe."""
    sides: dict[tuple[str, str], dict[int, Any]] = defaultdict(dict)
    for barrier in barriers_of(session):
        if barrier.pipe is not None:
            sides[barrier.pipe.name, barrier.pipe.side][barrier.index] = barrier
    rows = []
    for resources in pipe_resources(session.launch.program):
        name = resources.name.strip("'")
        full, free = sides.get((name, "full"), {}), sides.get((name, "free"), {})
        for index, barrier in sorted(full.items()):
            rows.append((f"{name}, slot {index}", _chunk(barrier, free.get(index), len(full)), around(session, barrier)))
    return _table(rows, "this kernel has no pipes, or this CTA has ended")


def _chunk(full: Any, free: Any, slots: int) -> str:
    """The chunk that a slot holds, and what becomes of it."""
    begun = full.arrived or full.pending_bytes or full.coming
    coming = f"chunk {full.index + slots * full.phase} is on its way" if begun else ""
    if not full.phase:
        return coming or "empty, nothing has been committed"
    chunk = full.index + slots * (full.phase - 1)
    if free is not None and free.phase >= full.phase:
        return coming or f"free: chunk {chunk} has been released"
    readers = f", released by {free.arrived} of {free.count} readers" if free is not None and free.count > 1 else ""
    return f"holds chunk {chunk}{readers}" + (f"; {coming}" if coming else "")


def waits(session: Standing) -> Text:
    """Each task that waits, of all CTAs, and what could help it."""
    machine = session.player.machine
    stuck = [task for task in machine.blocked if task.wait is not None and task.wait.kind != "join"]
    stuck.sort(key=lambda task: (task.cta.key != session.actor[0], task.cta.number, task.first_warp))
    able, lines = signals(machine.program), []
    for task in stuck[:CTAS]:
        first, *others = waiting_lines(task, able)
        lines += [f"{first.strip()}, since event {session.player.since.get(task, 0)}", *others]
    if len(stuck) > CTAS:
        lines.append(f"and {len(stuck) - CTAS} more tasks")
    return Text("\n".join(lines) or "no task waits")


def flights(session: Standing) -> Text:
    """Each operation in flight."""
    return Text("\n".join(map(flight, session.player.machine.inflight)) or "nothing is in flight")


def flight(one: Any) -> str:
    """An operation in flight in a line."""
    parts = [f"{one.kind} of '{one.task.name}' of CTA {one.task.cta.key} at {shown(one.op.site)}"]
    if isinstance(one.destination, View):
        parts.append(f"into {one.destination.name}")
    parts += [f"lands by {one.lands_by()}"] if one.lands_by is not None else []
    return ", ".join(parts)


def variables(session: Standing) -> Text:
    """The names with their values, a line each."""
    rows = []
    places = session.places()[:1]
    for name in session.names.of(places[0] if places else (None, None)):
        value, _ = session.names.value(name, places)
        rows.append((name, _in_a_line(value)))
    return _table(rows, "no name has a value here")


def _in_a_line(value: Any) -> str:
    if isinstance(value, list):
        return f"barriers in phase {', '.join(str(one.phase) for one in value)}"
    if isinstance(value, np.ndarray) and value.ndim:
        return statistics(value)
    return repr(value) if isinstance(value, str) else str(value)


def _table(rows: list[tuple[str, ...]], empty: str) -> Text:
    """Rows in columns, as wide as their widest cell."""
    if not rows:
        return Text(empty)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return Text("\n".join("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths)).rstrip() for row in rows))
