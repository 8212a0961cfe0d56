"""Hooks: how a caller takes part in a run of a machine. They are given when the machine is made, and nothing of it is replaced.

Input: which clusters run, who looks between steps, what is not computed, who notes writes. Output: `Hooks`, an argument of
`simulator.run` and of a `Machine`. For example:

    run(program, grid, args, hooks=Hooks(clusters=([(0, 0, 0)], )))     of the grid, one CTA alone
    run(program, grid, args, hooks=Hooks(look=meter))                   `meter(machine)` before each step, until it returns False
    run(program, grid, args, hooks=Hooks(skipped=TileData(launch)))     zeros for tiles that decide nothing
    run(program, grid, args, hooks=Hooks(observer=debugger))            `debugger.does(task, op)` before each op, and so on
    run(program, grid, args, hooks=Hooks(writers=Writers()))            which op of which task wrote each element of global memory

Which task goes on next and when an operation in flight lands is the strategy `seed`: a number, or a `Guide`, whose `choose` names
the task or operation of each step. A caller that does not call `run` itself sees the machine by `watching`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ...ir import Block, Op, Value
from .code import Code
from .protocols import Scheduler


class Skipped(Protocol):
    """The ops that a run leaves out. `given` are values that every task knows from the start, in place of what these ops make."""

    given: Mapping[Value, Any]

    def code(self, block: Block, num_warps: int, done: Collection[Op]) -> Code:
        """A block made ready, as `interpreter.prepare` does it, less what is left out; `done` are ops that take no step."""


class Observer(Protocol):
    """A debugger: it is told of each thing that happens, when it happens, and may keep the run waiting there."""

    def does(self, task: Any, op: Op) -> None:
        """`task` is about to do `op`."""

    def waits(self, task: Any, wait: Any) -> None:
        """`task` cannot go on: `wait` says why."""

    def lands(self, operation: Any) -> None:
        """An operation in flight is about to land."""

    def completes(self, barrier: Any, task: Any, op: Op) -> None:
        """A phase of `barrier` has completed by `op` of `task`, the next one has begun."""


class Notes(Protocol):
    """A book of the writes to global memory. `actor` is the task that writes, or its copy in flight."""

    def elements(self, actor: Any, op: Op, region: Any, offsets: Any, size: int, atomic: bool) -> None:
        """Elements of `size` bytes are written, at these offsets in a region of global memory."""

    def box(self, actor: Any, op: Op, region: Any, part: Any, atomic: bool) -> None:
        """A box of a region is written, `part` as a numpy view of it."""


@dataclass(frozen=True)
class Hooks:
    """The part that a caller takes in a run, besides its seed.

    clusters   the clusters that run, in the order in which they start, each as the program ids of its CTAs; () for all of the grid
    look       called with the machine before each step, until it returns False; it changes nothing of the machine
    skipped    the ops that are not computed; None for no op. A run that needs what it has skipped ends in `poison.DataNeeded`
    writers    notes each write to global memory (`memory.writers.Writers`); None where nobody asks who wrote what
    observer   told of each op, wait, landing and phase (`observed.py`); None for nobody
    """

    clusters: Sequence[Sequence[tuple[int, int, int]]] = ()
    look: Callable[[Scheduler], bool] | None = None
    skipped: Skipped | None = None
    writers: Notes | None = None
    observer: Observer | None = None
