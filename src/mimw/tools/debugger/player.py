"""A run that stands still: the machine in a thread of its own, which waits at any event.

Input: a launch, and which run of it. Output: a run that goes on until it is told to stand. For example:

    player = Player(launch, seed=0, races=True, trace=False, log=[])
    player.go(lambda number, event: event.kind == PHASE)        stands at the first completed phase: True
    player.machine, player.at, player.writers                   what there is to look at
    player.end()                                                the thread is over

A thread, as a machine is a stack of Python's own frames: nothing can copy it, and nothing else can leave it as it stands. To go
back is to run again, up to an earlier event (`session.py`).
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import numpy as np

from ...errors import SimulationError
from ...ir import Op, Program
from ...runtime.simulate import Launch
from ...simulator import Guide, Hooks, bind_launch
from ...simulator.machine.constants import constants
from ...simulator.machine.machine import Machine
from ...simulator.machine.one_thread import one_thread
from ...simulator.memory.views import View
from ...simulator.memory.writers import Writers
from ...simulator.memory_model.shadow import owner_of
from .events import LAND, OP, PHASE, WAIT, Event, barrier_label

LOOK = 0.1      # seconds between looks for an interrupt: one that comes right before a wait does not end the wait
Stop = Callable[[int, Event], bool]


_STANDING: WeakSet[Player] = WeakSet()


@atexit.register
def _end_all() -> None:
    """At Python's exit no run is left standing: its thread would hold on to what Triton wants back."""
    for player in list(_STANDING):
        player.end()


def _stand(number: int, event: Event) -> bool:
    return True


class _Over(BaseException):
    """Ends the thread of a run that nobody looks at any more."""


@dataclass(frozen=True)
class Written:
    """The latest write of some memory: the number of its event, who wrote, and by which op."""

    number: int
    task: Any
    op: Op
    view: View


class Player:
    """A run of a launch. `number` is the event at which it stands: that one is about to happen, or has just happened if it is a
    wait or a phase. Once it has `ended` it stands behind the last one, with the `error` that ended it or None."""

    def __init__(self, launch: Launch, *, seed: Any, races: bool, trace: bool, log: list[Event], book: Writers | None = None):
        self.number, self.ended, self.error = -1, False, None
        self.log, self.book = log, book         # of who wrote what in global memory, where results are compared
        self.at: dict[Any, Op] = {}             # by task: the op that it did last, or is about to do
        self.since: dict[Any, int] = {}         # by task: the event at which it began to wait
        self.writers: dict[tuple[int, int, int], Written] = {}     # by memory and bytes
        self._shown, self._firsts = _shown_ops(launch.program), _first_ops(launch.program)
        self._stop: Stop = _stand
        self._goes, self._stands = threading.Semaphore(0), threading.Semaphore(0)
        self._over = False
        bound = bind_launch(launch.program, launch.values, launch.gpus, launch.memory)
        self.machine = Machine(launch.program, (*launch.grid, 1, 1)[:3], bound.arguments, bound.memory,
                               seed=Guide(seed) if isinstance(seed, tuple) else seed, trace=trace, check_unwritten=True,
                               races=races, hooks=Hooks(observer=self, writers=book), gpus=bound.gpus)
        self._thread = threading.Thread(target=copy_context().run, args=(self._run, ), daemon=True, name="mimw debugger")
        self._thread.start()
        _STANDING.add(self)

    # ---- the one who looks ------------------------------------------------------------------------------------------

    def running(self) -> list[tuple[int, ...]]:
        """The program ids of the CTAs that run, in the order in which they began."""
        return [cta.key for cta in self.machine.ctas.values() if cta.tasks]

    def tasks_of(self, key: tuple[int, ...]) -> list[Any]:
        """The tasks of a CTA that have not ended, the kernel's body first; without the body while its tasks run."""
        tasks = [task for cta in self.machine.ctas.values() if cta.key == key for task in cta.tasks if not task.finished]
        parents = {task.parent for task in tasks}
        return [task for task in tasks if task not in parents]

    def task(self, actor: tuple[tuple[int, ...], str]) -> Any:
        """The task of that CTA and name; None if it has ended, or has not begun."""
        return next((task for task in reversed(self.tasks_of(actor[0])) if task.name == actor[1]), None)

    def go(self, stop: Stop) -> bool:
        """Go on until `stop(number, event)` is true of an event behind this one; False if the run has ended before. An interrupt by
        the keyboard lets it stand at the next event."""
        if self.ended:
            return False
        self._stop = stop
        with one_thread():
            self._goes.release()
            stands = False
            while not stands:
                try:
                    stands = self._stands.acquire(timeout=LOOK)
                except KeyboardInterrupt:
                    self._stop = _stand
        self._stop = _stand     # what was meant knows the session, which is to end with its last reader
        if isinstance(self.error, Exception) and not isinstance(self.error, SimulationError):
            raise self.error
        return not self.ended

    def end(self) -> None:
        """Let go of the run, wherever it stands."""
        if not self._over:
            self._over = True
            self._goes.release()
            if threading.current_thread() is not self._thread:      # which may collect a session as garbage
                self._thread.join()
            self.machine.close()

    # ---- the thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        self._goes.acquire()
        try:
            if not self._over:
                with np.errstate(all="ignore"):
                    self.machine.run()
        except _Over:
            return
        except Exception as error:
            self.error = error
        self.number += 1
        self.ended = True
        self._stands.release()

    def _happens(self, event: Event) -> None:
        self.number += 1
        if self.number == len(self.log):
            self.log.append(event)
        if self._stop(self.number, event):
            self._stands.release()
            self._goes.acquire()
            if self._over:
                raise _Over

    # ---- the observer of the machine --------------------------------------------------------------------------------

    def does(self, task: Any, op: Op) -> None:
        if op not in self._shown:
            return
        before = self.at.get(task)
        self.at[task] = op
        into = next((_label(task.env.get(getattr(op, name))) for name, how in op.row.touches if how == "write"), "")
        self._happens(Event(OP, task.cta.key, task.name, op, task.clock, before=before.site if before is not None else None,
                            again=op in self._firsts, into=into))
        for name in op.row.writes:
            self._wrote(task, op, task.env.get(getattr(op, name)))

    def waits(self, task: Any, wait: Any) -> None:
        self.since[task] = self.number + 1
        self._happens(Event(WAIT, task.cta.key, task.name, wait.op, task.clock, wait.detail()))

    def lands(self, operation: Any) -> None:
        task = operation.task
        self._happens(Event(LAND, task.cta.key, task.name, operation.op, operation.end, operation.kind,
                            into=_label(operation.destination)))
        self._wrote(task, operation.op, operation.destination)

    def completes(self, barrier: Any, task: Any, op: Op) -> None:
        self._happens(Event(PHASE, task.cta.key, task.name, op, task.clock, barrier_label(barrier), barrier.phase - 1))

    def _wrote(self, task: Any, op: Op, view: Any) -> None:
        if isinstance(view, View) and view.data.size:
            low, high = np.lib.array_utils.byte_bounds(view.data)
            self.writers[id(owner_of(view.data)), low, high] = Written(self.number, task, op, view)


def _label(view: Any) -> str:
    """A buffer as `places` names it: "ring[1]"; "" for what is none."""
    return f"{view.allocation.name}{view.path}" if isinstance(view, View) else ""


def _shown_ops(program: Program) -> frozenset[Op]:
    """The ops of a program less those of functions that tiles are reduced, scanned or mapped by: these are part of one step. So are
    the ops of MLIR text, which stand in no program."""
    outer = program.where(lambda row: "combines" in row.traits or "maps" in row.traits)
    inner = {within for op in outer for within in op.walk() if within is not op}
    return frozenset(op for op in program.walk() if op not in inner)


def _first_ops(program: Program) -> frozenset[Op]:
    """The op with which each trip of a loop begins."""
    _, done = constants(program)
    loops = program.where(lambda row: "loop" in row.traits)
    firsts = (next((op for op in block.ops if op not in done), None) for loop in loops for block in loop.blocks[:1])
    return frozenset(op for op in firsts if op is not None)
