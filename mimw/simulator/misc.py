"""Program ids, clocks, fences, prints and assertions."""

from __future__ import annotations

import numpy as np

from ..errors import SimulationError
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
    """A task is simulated as its first thread: axis 0 is that thread's number in the CTA, the others are 0.

    Tasks are numbered in the order of their regions, the default task from 0. Code under `if thread_id(0) == n` of
    another thread of the task does not run.
    """
    task.env[op.result] = np.int32(32 * task.first_warp if op.args[0] == 0 else 0)


@handles("clock64")
def clock64(task, op):
    task.env[op.result] = np.int64(task.clock)


@handles("barrier", "fence", "grid_dependency_wait", "grid_dependency_launch_dependents")
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
