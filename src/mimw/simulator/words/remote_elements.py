"""Loads, stores and atomics on picked elements of other CTAs' shared memory.

Input: an op of `ir/ops/cluster.py` whose tiles name for each lane a rank and a row-major position in the same buffer there.
Output: the elements read, or changed, in the CTAs of these ranks. For example:

    remote_load %buffer %position %rank      result[i] = %buffer[%position[i]] of the CTA with rank %rank[i]

Each CTA that any lane names is handled in turn. An atomic op on an element is one step of the scheduler, whichever CTAs work on
that element, so atomics of several CTAs on one element never mix.
"""

from __future__ import annotations

import numpy as np

from ..machine.poison import Poisoned, data_of, mask_of, poisoned
from ..machine.table import handles
from ..memory.peers import peer, view_of
from ..memory.views import WRITTEN, View
from .atomics import combining, exchange_if, in_turns
from .elements import picked
from .memory import scope_of


def _parts(task, op, mask=None):
    """For each CTA that is reached: (its flat view of the buffer, lanes of the tile, their positions there)."""
    positions, ranks = task.read(op.position, op), task.read(op.rank, op)
    on = np.ones(positions.shape, bool) if mask is None else task.read(mask, op)
    for number in np.unique(ranks[on]):
        lanes = np.flatnonzero(on & (ranks == number))
        view = _flat(view_of(peer(task, op, int(number)), task.env[op.buffer], task, op))
        yield view, lanes, picked(task, op, view, positions[lanes])


def _flat(view: View) -> View:
    """Its elements in row-major order; the layout of a buffer that is reached so has them one after the other."""
    data, marks = view.data.reshape(-1), view.marks.reshape(-1)
    assert np.may_share_memory(data, view.data), view.name
    return View(view.allocation, data, marks, view.path)


@handles("remote_ptr")
def remote_ptr(task, op):
    raise AssertionError("the pass shared_pointers has not run")


@handles("remote_load", switches=True)
def remote_load(task, op):
    shape = op.result.type.shape
    found = np.zeros(shape, task.env[op.buffer].data.dtype) if op.other is None else np.array(task.read(op.other, op))
    mask, origin = np.zeros(shape, bool), None
    for view, lanes, at in _parts(task, op, op.mask):
        view.touch(task, op, write=False, where=(at, ))
        part = view.pick(task, op, (at, ))
        found[lanes], mask[lanes] = data_of(part), mask_of([part])
        origin = part.origin if part.__class__ is Poisoned else origin
    task.env[op.result] = poisoned(found, mask, origin)


@handles("remote_scatter", switches=True)
def remote_scatter(task, op):
    """Of equal elements the last one wins here; on hardware any."""
    tile = task.take(op.value, op)
    for view, lanes, at in _parts(task, op, op.mask):
        view.touch(task, op, write=True, where=(at, ))
        view.write(tile[lanes], (at, ))


@handles("remote_rmw", switches=True)
def remote_rmw(task, op):
    value = task.read(op.value, op)
    _update(task, op, op.mask, combining(op.kind, value.dtype), value)


@handles("remote_cas", switches=True)
def remote_cas(task, op):
    _update(task, op, None, exchange_if, task.read(op.value, op), task.read(op.compare, op))


def _update(task, op, mask, function, *operands) -> None:
    result = np.zeros(op.result.type.shape, operands[0].dtype)
    for view, lanes, at in _parts(task, op, mask):
        view.touch(task, op, write=True, where=(at, ), scope=scope_of(op))
        view.check(task, op, (at, ))
        result[lanes], view.data[at] = in_turns(function, at, view.data[at], *(operand[lanes] for operand in operands))
        view.marks[at] = WRITTEN
    task.env[op.result] = result
