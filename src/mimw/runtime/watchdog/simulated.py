"""The watchdog of a simulated launch: a limit on its wall-clock time, with the same end as on a GPU.

Input: a launch and what simulates it. Output: what that returns, or a report of the simulator's state and exit status 124.

    watched_simulation(launch, 10.0, lambda: simulate(kernel, grid, *args))
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

from ...compiler.analysis.barrier_ops import signals
from ...ir import Op
from ...simulator import watching
from ...simulator.machine.deadlock import SHOWN, waiting_lines
from .launch import Launch
from .limit import STATUS, VARIABLE, end_process, tell


def watched_simulation(launch: Launch, limit: float, run: Callable[[], Any], ended: Callable[[], Any] = end_process,
                       say: Callable[[str], None] = tell):
    """`run()`, unless it takes longer than `limit` seconds: then the process ends. A deadlock is raised at once, as ever."""
    machines: list = []
    runner = threading.get_ident()

    def expired():
        try:
            launch.extents = machines[-1].grid if machines else ()
            say(f"\nmimw: {launch} has not ended within {limit:g} s on the simulator ({VARIABLE}), so this process ends with "
                f"status {STATUS}.")
            say(state(machines[-1], runner) if machines else "It is still being recorded and checked.")
        finally:
            ended()

    timer = threading.Timer(limit, expired)
    timer.daemon = True
    token = watching.set(machines.append)
    timer.start()
    try:
        return run()
    finally:
        timer.cancel()
        watching.reset(token)


def state(machine, runner: int) -> str:
    """The lines at which the tasks of a machine are, which a thread `runner` goes on running meanwhile."""
    able, lines = signals(machine.program), []
    running, blocked = list(machine.runnable), [task for task in list(machine.blocked) if task.wait.kind != "join"]
    tasks = sorted(running + blocked, key=lambda task: (task.cta.number, task.first_warp))
    ctas = list(dict.fromkeys(task.cta for task in tasks))
    now = _now(runner)
    for task in tasks:
        if task.cta not in ctas[:SHOWN]:
            continue
        if task in blocked:
            lines += waiting_lines(task, able)
        else:
            op = now[1] if now is not None and now[0] is task else _suspended(task)
            lines.append(f"  {task.where} runs" + (f", in {op.name} at {op.site}" if op is not None else ""))
    if len(ctas) > SHOWN:
        lines.append(f"  and {len(ctas) - SHOWN} more CTAs")
    lines.append(f"{len(ctas)} of {machine.grid[0] * machine.grid[1] * machine.grid[2]} CTAs have begun and not ended; "
                 f"{machine.step} steps of tasks were taken.")
    return "\n".join(lines)


def _now(runner: int) -> tuple[Any, Op] | None:
    """The task that a thread runs at this moment and the op that it is in."""
    frame = sys._current_frames().get(runner)
    while frame is not None:
        task, op = frame.f_locals.get("task"), frame.f_locals.get("op")
        if isinstance(op, Op) and hasattr(task, "cta"):
            return task, op
        frame = frame.f_back
    return None


def _suspended(task) -> Op | None:
    """The op at which a task was last interrupted."""
    found, generator = None, task.steps
    while generator is not None and getattr(generator, "gi_frame", None) is not None:
        op = generator.gi_frame.f_locals.get("op")
        found = op if isinstance(op, Op) else found
        generator = generator.gi_yieldfrom
    return found
