"""Atomics and barriers of ranks on the machine with a clock: really done where others go by them, and seen by other GPUs in time.

Input: a timed task at an atomic op through pointers into global memory, or at a barrier of ranks. Output: memory that has changed,
and a later clock of the task. For example, words that carry data and a flag:

    atomic_store %there, %words        at a peer: in flight, and in memory half of `link.put_ns` after the last byte has left
    atomic_load %here                  `atomic.ns`; in a loop until the flags are there

Tiles of words are done where something depends on them, which is what loops that look at them do.
"""

from __future__ import annotations

import numpy as np

from ...ir import Op, Tensor
from ..machine.table import HANDLERS
from ..machine.tasks import InFlight, Task
from ..words.memory import scope_of
from .table import skip, timed


@timed("world_barrier")
def world_barrier(task, op):
    """Behind the puts of the task's SM; the last rank's arrival is seen `link.barrier_ns` later."""
    machine = task.machine
    if machine.ways is not None:
        machine.advance(task, task.cta.sm.performed)
    yield from HANDLERS["world_barrier"].run(task, op)
    if machine.ways is not None:
        task.wait_until(task.clock + machine.cycles("link.barrier_ns"), op, "barrier of ranks")
        task.floor = task.clock


@timed("fence")
def fence(task, op):
    """Run a fence. What the task releases by it arrives first, as with an atomic op that releases."""
    if task.machine.ways is not None and op.scope in ("gpu", "sys"):
        task.machine.ways.release(task, op, op.scope)
    HANDLERS["fence"].run(task, op)


@timed("atomic_rmw", "atomic_cas", "atomic_load", "atomic_store", "buffer_atomic_add")
def atomic(task, op):
    """Really done where the address is one number, since others may go by it. The programs that are not simulated add what this
    one adds: a counter from which all draw their next tile goes on as fast as it does on the GPU."""
    machine = task.machine
    ways, peer = machine.ways, None if machine.ways is None else machine.ways.peer(task, op)
    known = task.needed.values.issuperset(op.operands)
    released = task.clock
    if ways is not None and op.row.releases and getattr(op.order, "name", str(op.order)).lower() != "relaxed":
        released = ways.release(task, op, scope_of(op))     # what it releases is there first
    if known and not isinstance(op.pointer.type, Tensor):
        machine.remember(task.env[op.pointer], op.pointer.type.pointee.bytes)
        HANDLERS[op.name].run(task, op)
        if peer is not None:
            machine.signal_times[int(task.env[op.pointer])] = ways.told(released)
        counts = ways is None or bool(machine.uses[op.result] if op.results else ())
        if "kind" in op.row.places and getattr(op.kind, "name", op.kind) == "ADD" and counts:
            cell = task.memory.cell(int(task.env[op.pointer]), task.env[op.result].dtype, task, op, "adds to")
            cell[...] += task.env[op.value] * (machine.programs // len(machine.living) - 1)
    elif known and ways is not None:
        _words(task, op, peer)
    else:
        skip(task, op)
    answers = any(machine.uses[result] for result in op.results)        # else the chip reduces, and the task goes on
    machine.advance(task, task.clock + (machine.cycles("atomic.ns") if answers else 0.0))


@timed("multimem_load_reduce", "multimem_store", "multimem_reduce")
def all_ranks_at_once(task, op):
    """Nobody has measured what the switch takes: the model says which figure is missing."""
    task.machine.advance(task, task.clock + task.machine.cycles("link.multicast_ns"))


def _words(task: Task, op: Op, peer: int | None) -> None:
    """A tile of words. Those that go to a peer are in its memory when they have come there."""
    machine, addresses = task.machine, np.asarray(task.env[op.pointer], np.uint64)
    item = op.pointer.type.element.pointee.bytes
    low, size = int(addresses.min()), int(addresses.max() - addresses.min()) + item
    machine.remember(low, size)
    part = None if peer is None or op.results else machine.bytes_at(low, size)
    if part is None:
        HANDLERS[op.name].run(task, op)
        return
    before = part.copy()
    HANDLERS[op.name].run(task, op)
    after = part.copy()
    part[...] = before
    changed = after != before
    left, _ = machine.ways.put(task, op, peer, op.pointer.type.numel * item)

    def land(copy: InFlight) -> None:
        part[changed] = after[changed]

    machine.start(InFlight("put", task, op, left + machine.cycles("link.put_ns") / 2, land))
