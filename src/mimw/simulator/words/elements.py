"""Accesses to picked elements of a flat buffer: masked stores and atomics.

Input: a task at such an op, with tiles of indices. Output: elements that are changed; of an atomic, what was there. For example:

    %old = local_atomic_rmw ADD %buffer %value %indices %mask

An atomic op is one step of the scheduler; equal elements take turns in row-major order, on hardware in any. Atomics order
nothing, and do not race with each other.
"""

from __future__ import annotations

import numpy as np

from ...errors import OutOfBounds, SimulatorMisuse, fail
from ..machine.table import handles
from ..memory.views import WRITTEN, View
from .atomics import combining, exchange_if, in_turns


@handles("buffer_flat")
def buffer_flat(task, op):
    view = task.env[op.buffer]
    flat = view.seen_as(op.result.type, op.site)
    if flat is None:
        raise fail(SimulatorMisuse, task, op, f"{view.name} element by element: its elements do not follow each other",
                   hint="take the pointers into the whole buffer")
    task.env[op.result] = flat


@handles("local_ptr")
def local_ptr(task, op):
    raise fail(SimulatorMisuse, task, op, "the pass shared_pointers has not run")


@handles("local_masked_scatter", switches=True)
def local_masked_scatter(task, op):
    """Of equal indices the last one wins here; on hardware any."""
    view, tile, indices, mask = task.env[op.buffer], task.take(op.value, op), *(task.read(arg, op) for arg in (op.indices, op.mask))
    where = picked(task, op, view, indices[mask])
    view.touch(task, op, write=True, where=(where, ))
    view.write(tile[mask], where)


@handles("local_atomic_rmw", switches=True)
def local_atomic_rmw(task, op):
    value, indices = task.read(op.value, op), task.read(op.indices, op)
    lanes = slice(None) if op.mask is None else np.flatnonzero(task.read(op.mask, op))
    _update(task, op, task.env[op.buffer], indices, lanes, combining(op.kind, value.dtype), value)


@handles("local_atomic_cas", switches=True)
def local_atomic_cas(task, op):
    compare, value, indices = (task.read(arg, op) for arg in (op.compare, op.value, op.indices))
    _update(task, op, task.env[op.buffer], indices, slice(None), exchange_if, value, compare)


def _update(task, op, view: View, indices: np.ndarray, lanes: np.ndarray | slice, function, *operands) -> None:
    """Replace the elements at `indices[lanes]` by `function(old, *operands)`; the result of `op` is what was there."""
    where = picked(task, op, view, indices[lanes])
    view.touch(task, op, write=True, where=(where, ), scope="gpu")
    view.check(task, op, (where, ))
    old = np.zeros(indices.size, view.data.dtype)
    old[lanes], view.data[where] = in_turns(function, where, view.data[where], *(operand[lanes] for operand in operands))
    view.marks[where] = WRITTEN
    task.env[op.result] = old


def picked(task, op, view: View, indices: np.ndarray) -> np.ndarray:
    """The indices, which must be inside the flat buffer."""
    outside = np.flatnonzero((indices < 0) | (indices >= view.data.size))
    if outside.size:
        raise fail(OutOfBounds, task, op, f"{op.name}: element {indices[outside[0]]} is outside the {view.data.size} elements of "
                   f"{view.name}", hint="mask or clamp the indices")
    return indices
