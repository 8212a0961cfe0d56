"""Program ids, clocks, fences, prints and assertions."""

from __future__ import annotations

import numpy as np

from ..errors import SimulationError
from . import lanes
from .table import handles
from .tasks import fail


@handles("get_program_id")
def get_program_id(task, op):
    task.env[op.result] = np.int32(task.cta.index[op.args[0]])


@handles("get_num_programs")
def get_num_programs(task, op):
    task.env[op.result] = np.int32(task.machine.grid[op.args[0]])


@handles("thread_id")
def thread_id(task, op):
    """Axis 0 is the number of each thread in the CTA; a CTA has no other axes, so they are 0."""
    first = lanes.WARP * task.first_warp
    numbers = np.arange(first, first + lanes.threads(task), dtype=np.int32)
    task.env[op.result] = lanes.settled(numbers) if op.args[0] == 0 else np.int32(0)


@handles("vote_ballot")
def vote_ballot(task, op):
    task.env[op.result] = lanes.ballot(task, op, op.args[0], task.read(op.args[1], op))


@handles("clock64")
def clock64(task, op):
    task.env[op.result] = np.int64(task.clock)


@handles("time_base")
def time_base(task, op):
    """Stamps are for a GPU; the simulator's timeline is its own."""
    task.env[op.result] = np.int64(0)


@handles("time_stamp")
def time_stamp(task, op):
    task.env[op.result] = np.int32(task.read(op.args[1], op) + 1)


@handles("prefetch", "prefetch_descriptor", "tma_prefetch")
def cache_hint(task, op):
    """There are no caches here."""


@handles("fence")
def fence(task, op):
    """Changes no value here; what it orders, the order knows."""
    task.machine.order.fence(task, op.args[0])


@handles("wait_stamp", "wait_words", "watched_wait")
def noted_for_a_watchdog(task, op):
    """The stamps of a watched kernel change nothing that the kernel computes."""


@handles("barrier", "grid_dependency_wait", "grid_dependency_launch_dependents")
def ordered_already(task, op):
    """A task runs its ops one after the other, and every launch has ended before the next begins."""


@handles("hint")
def hint(task, op):
    """What Triton may believe of a value changes no result; that it is true is the author's word."""


@handles("print")
def print_(task, op):
    prefix, hex_, values, _ = op.args
    shown = [task.read(value, op) for value in values]
    text = ", ".join(np.array2string(value, formatter={"int": hex}) if hex_ else str(value) for value in shown)
    print(f"{task.cta.index} {task.name}{prefix}{text}")


@handles("assert")
def assert_(task, op):
    if not np.all(task.read(op.args[0], op)):
        raise fail(SimulationError, task, op, f"the assertion does not hold: {op.args[1]}")


@handles("assume")
def assume(task, op):
    if not np.all(task.read(op.args[0], op)):
        raise fail(SimulationError, task, op, "the compiler was told to assume something that is not true here",
                   hint="what is assumed must hold for every program: the GPU would run wrong code")
