"""A launch that is debugged: it stands at an event and moves forward and back.

Input: a launch made ready, a seed. Output: a `Session`. For example:

    session = mimw.debug(row_sums, (1, ), rows, y, 7, N=64)
    session.go()                        to the next `breakpoint()`, to what `stop_at` names, to an error or the end
    session.until("full[1]")            until a phase of full[1] has completed
    session.step(back=True)             the event before
    session["total[0, :4]"]             an expression over the names of the task that stands there
    print(session.where())              each task, its line, what it waits for and since when

To go back is to run again from the start, up to an earlier event: a run is deterministic. What the arrays of the launch hold goes
back with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...compiler.analysis.barrier_ops import task_names
from ...errors import SimulationError, SimulatorMisuse
from ...ir import Op
from ...ir.shown import Shown
from ...runtime.results import Expected, first_wrong, wrong_result
from ...runtime.simulate import Launch
from ...simulator.memory.writers import Writers
from ...target import Target
from ..search.arrays import Arrays
from . import looks
from .events import OP, Event
from .expressions import Names
from .lines import moved, users
from .looks import Text
from .places import Place, place
from .player import Player
from .scope import Scopes

Meant = Callable[[int, Event], bool]


class Session(Shown):
    """A run that stands at event `number`. All that moves returns where the run stands then; `back=True` moves back.

    `event` is None behind the last one: `error` is then the error that ended the run, or None. `note` says why the run stands where
    it does, if that is not what was asked for.
    """

    def __init__(self, launch: Launch, *, seed: Any = 0, races: bool = True, trace: bool = False, target: Target | None = None,
                 expected: Sequence[Expected] = ()):
        """`expected`: what arrays are to hold at the end; the run ends in a WrongResult where they do not."""
        self.launch, self.seed, self.races, self.trace, self.target = launch, seed, races, trace, target
        self.log: list[Event] = []
        self.stops: dict[int, Place] = {}       # by number
        self.note = ""
        self.depth: int | None = None       # of the function in which `next` goes from line to line; None for the innermost
        self.last_error: SimulationError | None = None      # in which the run ended when it last came to its end
        self.names = Names(launch, Scopes(launch.program))
        regions = launch.program.named("warp_specialize")
        self.tasks = tuple(dict.fromkeys(["default", *(name for op in regions for name in task_names(op))]))
        self._expected = tuple(expected)
        self._arrays = Arrays(launch.arrays())
        self._chosen: tuple[tuple[int, ...], str] | None = None
        self.player = self._begun()
        self._run(lambda number, event: True)

    def _begun(self) -> Player:
        return Player(self.launch, seed=self.seed, races=self.races, trace=self.trace, log=self.log,
                      book=Writers() if self._expected else None)

    def _run(self, stop: Meant) -> None:
        """Let the run go on until it is to stop, or to its end, where its results are compared."""
        player = self.player
        player.go(stop)
        if self._expected and player.ended and player.error is None and (wrong := first_wrong(self._expected)) is not None:
            player.error = wrong_result(wrong, self.launch.program, player.book)

    def close(self) -> None:
        """End the run where it stands: its arrays keep what has been written until then."""
        self.player.end()

    def __del__(self) -> None:
        if hasattr(self, "player"):
            self.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    # ---- where it stands --------------------------------------------------------------------------------------------

    @property
    def number(self) -> int:
        """The number of the event at which the run stands; behind the last one, how many there are."""
        return self.player.number

    @property
    def event(self) -> Event | None:
        return None if self.player.ended else self.log[self.number]

    @property
    def error(self) -> SimulationError | None:
        return self.player.error

    @property
    def actor(self) -> tuple[tuple[int, ...], str]:
        """(program id, task) that expressions and `next` are about: the one chosen, else the one of the event."""
        if self._chosen is not None:
            return self._chosen
        stopped = self.player.machine.stopped
        if self.event is None and stopped is not None:
            return stopped.cta.key, stopped.name
        return (self.event or self.log[-1]).actor

    @property
    def task(self) -> Any:
        """The machine's task of `actor`; None if it is over, or has not begun."""
        return self.player.task(self.actor)

    @property
    def op(self) -> Op | None:
        """The op at which that task stands."""
        task = self.task
        if task is None:
            return None
        return self.event.op if self.event is not None and self.event.kind == OP and self.event.actor == self.actor else \
            self.player.at.get(task)

    def choose(self, task: str = "", cta: tuple[int, ...] | None = None) -> Text:
        """Let expressions, `next` and `source` be about another task: of this program, or of the one with id `cta`."""
        key, name = self.actor
        key = key if cta is None else (*cta, 0, 0)[:3] + tuple(cta[3:])
        names = [one.name for one in self.player.tasks_of(key)]
        wanted = task or (name if name in names else "default")
        if wanted not in names:
            raise SimulatorMisuse(f"CTA {key} has no task {wanted!r} now", hint=f"it has {', '.join(names)}" if names else
                                  f"these CTAs run: {', '.join(map(str, self.player.running())) or 'none'}")
        self._chosen = key, wanted
        return self.source()

    # ---- moves ------------------------------------------------------------------------------------------------------

    def step(self, count: int = 1, *, back: bool = False) -> Text:
        """Go to the next event, or the one after `count` of them: an op of any task, a wait, a landing, a phase."""
        return self.goto(self.number - count if back else self.number + count)

    def next(self, *, back: bool = False) -> Text:
        """Go to the next line of this task, past what the line calls; the other tasks run on as they would."""
        actor, op, task = self.actor, self.op, self.task
        if op is None:
            return self.step(back=back)
        depth = self.depth or len(users(op.site))
        if back:
            self.goto(self._line_before(actor, op, depth))
        else:
            def left(number: int, event: Event) -> bool:
                if task.finished:
                    self.note = f"task '{actor[1]}' has finished"
                    return event.kind == OP
                return event.kind == OP and event.actor == actor and (event.again or moved(op.site, event.op.site, depth))

            self._move(left)
        if self.event is not None and self.event.actor == actor and len(users(self.event.op.site)) > depth:
            self.depth = depth      # the line begins inside of what it calls
        return self.here()

    def switch(self, *, back: bool = False) -> Text:
        """Go on until another task does."""
        actor = (self.event or self.log[-1]).actor
        return self._move(lambda number, event: event.kind == OP and event.actor != actor, back)

    def phase(self, barrier: str = "", *, back: bool = False) -> Text:
        """Go on until a phase of a barrier has completed, such as `full[0]` or any of `full`; of any barrier by default."""
        return self.until(barrier or "phase", back=back)

    def until(self, text: str, *, back: bool = False) -> Text:
        """Go to the next time that the run comes to a place (`places.py`): a line, a barrier, a write of a buffer, a task,
        `wait TASK`; any of them with `if EXPRESSION` behind it."""
        wanted = self.place(text)
        found = self._to_places([wanted], back)
        if self.event is not None or self.error is not None:
            return found
        self.note = f"it did not come to {wanted} any more"
        return self.here()

    def go(self, *, back: bool = False) -> Text:
        """Go to the next `breakpoint()` or place of `stop_at`, or to the end: the last event, or the error."""
        return self._to_places(list(self.stops.values()), back, breakpoints=True)

    def goto(self, number: int) -> Text:
        """Go to the event of that number; a number beyond the last one is the end."""
        self._chosen, self.note, self.depth = None, "", None
        self._play(max(0, number))
        return self.here()

    def again(self, look: Meant) -> None:
        """Run from the start to where `look(number, event)` is true, or to the end."""
        self._chosen, self.note, self.depth = None, "", None
        self._restart()
        self._run(look)

    def _line_before(self, actor, op: Op, depth: int) -> int:
        """The event with which the line began that this task did before the line at which it stands."""
        mine = [number for number in range(self.number) if self.log[number].kind == OP and self.log[number].actor == actor]
        while mine and not moved(op.site, self.log[mine[-1]].op.site, depth) and not self.log[mine[-1]].again:
            mine.pop()
        if not mine:
            return 0
        if not moved(op.site, self.log[mine[-1]].op.site, depth):       # the first op of this trip: the line began there
            mine.pop()
        last = self.log[mine[-1]] if mine else None
        while len(mine) > 1 and not self.log[mine[-1]].again and not moved(last.op.site, self.log[mine[-2]].op.site, depth):
            mine.pop()
        return mine[-1] if mine else 0

    def _to_places(self, places: list[Place], back: bool, breakpoints: bool = False) -> Text:
        def met(number: int, event: Event) -> bool:
            if breakpoints and event.kind == OP and event.op.name == "breakpoint":
                return True
            return any(one.meets(self.log, number) and self._holds(one, event) for one in places)

        return self._move(met, back, conditions=any(one.condition for one in places))

    def _holds(self, wanted: Place, event: Event) -> bool:
        """The condition of a place, over the names of the task of an event; one that cannot be evaluated stops, and says why."""
        if not wanted.condition:
            return True
        self.note = ""
        try:
            return bool(self.names.evaluated(wanted.condition, self._places(event.actor, event.op))[0])
        except Exception as error:
            self.note = f"the condition {wanted.condition!r}: {error}"
            return True

    def _move(self, meant: Meant, back: bool = False, conditions: bool = False) -> Text:
        self._chosen, self.note, self.depth = None, "", None
        if not back:
            self._run(meant)
            return self.here()
        before = self.number
        if conditions:      # which are about the state of the run: all of it runs again, once more than without
            found = self._last(meant, before)
        else:
            found = next((number for number in reversed(range(before)) if meant(number, self.log[number])), None)
        self._play(found or 0)
        if found is None:
            self.note = "this is the beginning: nothing before was meant"
        return self.here()

    def _last(self, meant: Meant, before: int) -> int | None:
        """The last event before a number that is meant, where only the run itself can say so."""
        found = []

        def look(number: int, event: Event) -> bool:
            if number < before and meant(number, event):
                found.append(number)
            return number >= before - 1

        self.again(look)
        return found[-1] if found else None

    def _play(self, number: int) -> None:
        if number < self.number:
            self._restart()
        if number > self.number:
            self._run(lambda at, event: at >= number)

    def _restart(self) -> None:
        self.last_error = self.player.error or self.last_error
        self.player.end()
        self._arrays.restore()
        self.player = self._begun()

    # ---- stops ------------------------------------------------------------------------------------------------------

    def place(self, text: str) -> Place:
        """The place that a text names (`places.py`)."""
        program = self.launch.program
        return place(text, self.tasks, looks.barrier_names(program), looks.buffer_names(program))

    def stop_at(self, text: str) -> int:
        """Let `go` stop at a place; the number by which `clear` takes it back."""
        number = max(self.stops, default=0) + 1
        self.stops[number] = self.place(text)
        return number

    def clear(self, number: int | None = None) -> None:
        """Forget a place of `stop_at`, or all of them."""
        if number is not None and number not in self.stops:
            raise SimulatorMisuse(f"there is no stop {number}", hint=f"there are {', '.join(map(str, self.stops)) or 'none'}")
        self.stops = {} if number is None else {one: at for one, at in self.stops.items() if one != number}

    # ---- looks ------------------------------------------------------------------------------------------------------

    def __getitem__(self, expression: str) -> Any:
        """The value of an expression over the kernel's names (`expressions.py`)."""
        return self.value(expression)[0]

    def value(self, expression: str) -> tuple[Any, list[str]]:
        """The same, and which names in it are those of another task of this CTA, as this one does not know them."""
        return self.names.evaluated(expression, self.places())

    def places(self) -> list[tuple[Any, Op | None]]:
        """The tasks over whose names expressions are, each with the op at which it stands."""
        return self._places(self.actor, self.op)

    def _places(self, actor: tuple, op: Op | None) -> list[tuple[Any, Op | None]]:
        """The task of an actor with its op, then the others of its CTA."""
        first = self.player.task(actor)
        others = [task for task in self.player.tasks_of(actor[0]) if task is not first]
        return [(first, op)] * (first is not None) + [(task, self.player.at.get(task)) for task in others]

    def here(self) -> Text:
        """The place where the run stands: event, task and line; at the end the error."""
        return looks.here(self)

    def where(self) -> Text:
        """Each task of each CTA that runs: its line, what it waits for, since when."""
        return looks.where(self)

    def source(self) -> Text:
        """The source around the current line of each task of this CTA, with the tasks' names at their lines."""
        return looks.source_lines(self)

    def barriers(self) -> Text:
        """The barriers of this CTA: phase, arrivals and bytes pending, who waits, what is on its way."""
        return looks.barriers(self)

    def buffers(self) -> Text:
        """The buffers of this CTA, slot by slot: how much is written, on its way or poison, and who wrote it last."""
        return looks.buffers(self)

    def pipes(self) -> Text:
        """The pipes of this CTA, slot by slot: which chunk is there, and what becomes of it."""
        return looks.pipes(self)

    def waits(self) -> Text:
        """The waits: whose, for what, since when, and which ops could bring it."""
        return looks.waits(self)

    def flights(self) -> Text:
        """Operations in flight: copies and products that have been started and have not landed."""
        return looks.flights(self)

    def variables(self) -> Text:
        """The names that have a value here, with their values in a line each."""
        return looks.variables(self)

    def _page(self) -> Any:
        from .page import page
        return page(self)

    def __str__(self) -> str:
        return str(self.here())

    def __repr__(self) -> str:
        return f"<mimw.debug of {self.launch.name}, grid {self.launch.grid}, seed {self.seed}: event {self.number}>"
