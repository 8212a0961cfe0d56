"""Pipes whose ends are used in a way that cannot work: an end in two tasks of one region, a commit of another chunk than was
acquired, or a slot given back too early.

Input: a program before the pass `expand_pipes`. Output: nothing, or an error in the words of the pipe. For example:

    %x, %closed = pipe_wait %p, chunk=%k
    %sum = async_dot %x, %y, %acc
    pipe_release %p, chunk=%k              ProtocolError: the product may still read %x

The products that are under way where a slot is given back are found by going through the program in order, a loop a second time if
its round leaves products under way: those are under way at the start of the next, too. Slots are the same only where their chunks
certainly are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...errors import ProtocolError, TaskError
from ...ir import Block, Buffer, Op, Program, Task, Value
from ...target import Target
from ..analysis.pipes import pipe_label, pipes_of
from .commit_chunks import check_commits


def check_pipes(program: Program, target: Target) -> None:
    """Raise `TaskError` for an end that two tasks use, `ProtocolError` for a commit of another chunk than was acquired, or a slot
    that is released while a product reads it."""
    makes = pipes_of(program)
    if not makes:
        return
    _check_ends(program.body, makes, None, {})
    check_commits(program, makes)
    covered = {makes[make.over]: make for make in makes.values() if make.over is not None}
    for op in program.named("pipe_release"):
        if makes[op.pipe] in covered:
            over = pipe_label(covered[makes[op.pipe]])
            raise ProtocolError(f"{pipe_label(makes[op.pipe])} is released by its own reader, though {over} is written over its "
                                "chunks.", op.site, covered[makes[op.pipe]].site,
                                hint=f"leave that to the reader of {over}, whose release frees the slot.")
    if program.named("async_dot"):
        _Products(makes).visit(program.body)


def _check_ends(block: Block, makes: dict[Value, Op], task: Task | None, owners: dict) -> None:
    """`owners` says which task of the region has taken an end of a pipe."""
    for op in block.ops:
        if op.row.end and task is not None:
            name = op.attrs.get("reader")
            role = "the writer" if op.row.end == "writer" else f"reader {name!r}" if name else "the reader"
            owner = owners.setdefault((makes[op.pipe], role), task)
            if owner is not task:
                label = pipe_label(makes[op.pipe])
                raise TaskError(f"{label}: {role} is used in two partitions, '{owner.name}' and '{task.name}'.", op.site,
                                hint="let one partition write a pipe." if op.row.end == "writer" else
                                'declare a reader for each, `readers=("first", "second")`.')
        if op.name == "warp_specialize":
            taken: dict = {}
            for one, inner in zip(op.attrs["tasks"], op.blocks, strict=True):
                _check_ends(inner, makes, one, taken)
        else:
            for inner in op.blocks:
                _check_ends(inner, makes, task, owners)


@dataclass(frozen=True)
class _Slot:
    """A buffer of a field, in the slot of a chunk."""

    field: Value
    chunk: Any

    def is_released(self, make: Op, chunk: Any) -> bool:
        """True if it is certainly in the slot of the pipe's chunk: the same one, or numbers that are a round apart."""
        if self.field not in make.fields:
            return False
        numbers = isinstance(self.chunk, int) and isinstance(chunk, int)
        return make.capacity == 1 or (self.chunk % make.capacity == chunk % make.capacity if numbers else self.chunk == chunk)


class _Number:
    """A stand-in for a value of the running program."""


class _Products:
    """One walk in the order in which a task runs. `spelled` gives each value a `_Number`, the same to values that are computed
    alike, or the constant that it is."""

    def __init__(self, makes: dict[Value, Op]):
        self.makes = makes
        self.spelled: dict[Value, Any] = {}
        self.computed: dict[Any, _Number] = {}              # by op and operands
        self.slots: dict[Value, _Slot] = {}
        self.started: list[tuple[Op, list[_Slot]]] = []     # all products so far, and what they read
        self.running = 0                                    # how many of the newest may be under way

    def visit(self, block: Block) -> None:
        for value in block.args:
            self.spelled[value] = _Number()
        for op in block.ops:
            self.op(op)

    def op(self, op: Op) -> None:
        if op.row.end and op.results:
            chunk = self.spell(op.chunk)
            self.slots |= {view: _Slot(whole, chunk) for whole, view in zip(self.makes[op.pipe].fields, op.results)}
        elif op.name == "pipe_release":
            self.release(op)
        elif op.row.view_of and op.results and isinstance(op.result.type, Buffer):
            self.slots[op.result] = self.view(op)
        elif op.name == "async_dot":
            self.started.append((op, [self.slots[value] for value in op.operands if self.slots.get(value)]))
            self.running += 1
        elif op.name == "async_dot_wait":
            self.running = min(self.running, op.pending)
        for inner in op.blocks:
            self.visit(inner)
        if self.running and "loop" in op.row.traits:    # else a second round finds what the first found
            for inner in op.blocks:
                self.visit(inner)
        for index, result in enumerate(op.results):
            if op.name == "constant":
                self.spelled[result] = op.value
            elif op.blocks:
                self.spelled[result] = _Number()
            else:
                self.spelled[result] = self.computed.setdefault((op.name, index, *map(self.spell, op.args)), _Number())

    def view(self, op: Op) -> _Slot | None:
        """The slot that a view is of: of a slot, or of the pipe's whole buffer."""
        base = getattr(op, op.row.view_of)
        if op.name == "buffer_index" and base not in self.slots:
            return _Slot(base, self.spell(op.index))
        return self.slots.get(base)

    def spell(self, arg: Any) -> Any:
        if isinstance(arg, tuple):
            return tuple(map(self.spell, arg))
        return self.spelled.setdefault(arg, _Number()) if isinstance(arg, Value) else arg

    def release(self, op: Op) -> None:
        make, chunk = self.makes[op.pipe], self.spell(op.chunk)
        for dot, slots in reversed(self.started[len(self.started) - self.running:]):
            if not make.attrs.get("one_shot") and any(slot.is_released(make, chunk) for slot in slots):
                raise ProtocolError(f"{pipe_label(make)} is released while the async_dot of line {dot.site.line} may still read "
                                    "the slot.", op.site, dot.site,
                                    hint="put an async_dot_wait in between, or release the chunk one step later.")
