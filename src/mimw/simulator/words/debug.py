"""Prints, assertions, hints, and the stamps of profiles and of the watchdog.

Input: a task at an op of `ir/ops/debug.py`. Output: a printed line, an error, or nothing. For example:

    assert %condition "m is a multiple of 64"      SimulationError if the condition is false in any element
"""

from __future__ import annotations

import numpy as np

from ...errors import SimulationError, fail
from ...ir import Scalar
from ..machine.table import handles
from .printf import printf


@handles("time_base")
def time_base(task, op):
    """Stamps are for a GPU; the simulator's timeline is its own."""
    task.env[op.result] = np.int64(0)


@handles("time_stamp")
def time_stamp(task, op):
    task.env[op.result] = np.int32(task.read(op.count, op) + 1)


@handles("wait_stamp", "wait_words", "watched_wait")
def noted_for_a_watchdog(task, op):
    """The stamps of a watched kernel change nothing that the kernel computes."""


@handles("hint")
def hint(task, op):
    """Refuse a wrong `tl.multiple_of`. What Triton believes of a value changes no result, but accesses are made as wide as that
    allows: of a number that is no such multiple the GPU makes a misaligned address. Of tiles what Triton believes of each
    element depends on further hints."""
    if op.attribute != "tt.divisibility" or not isinstance(op.value.type, Scalar) or op.value.type.is_float:
        return
    value, (wanted, ) = int(task.read(op.value, op)), op.numbers
    if value % wanted:
        raise fail(SimulationError, task, op, f"the kernel promises that this is a multiple of {wanted}, and it is {value}",
                   hint="a promise of tl.multiple_of must hold for every program: the GPU would access misaligned addresses")


@handles("breakpoint")
def breakpoint_(task, op):
    """A debugger sees the op before it runs; without one nothing happens."""


@handles("print")
def print_(task, op):
    shown = [task.read(value, op) for value in op.values]
    text = ", ".join(np.array2string(value, formatter={"int": hex}) if op.hex else str(value) for value in shown)
    print(f"{task.cta.index}{task.cta.gpu.label} {task.name}{op.prefix}{text}")


@handles("print_lanes")
def print_lanes(task, op):
    """Lane after lane: on a GPU the order is another one."""
    values = [task.read(value, op) for value in op.values]
    mask = np.ones(np.shape(task.read(op.lane, op)), bool) if op.mask is None else task.read(op.mask, op)
    print("".join(printf(op.format, [value[lane] for value in values]) for lane in np.flatnonzero(mask)), end="")


@handles("assert")
def assert_(task, op):
    if not np.all(task.read(op.condition, op)):
        raise fail(SimulationError, task, op, f"the assertion does not hold: {op.message}")


@handles("assume")
def assume(task, op):
    if not np.all(task.read(op.condition, op)):
        raise fail(SimulationError, task, op, "the kernel assumes something that is not true here",
                   hint="an assumption must hold for every program: the GPU would run wrong code")
