"""Accesses to picked elements of other CTAs' shared memory. Atomics on one element are atomic whoever does them."""

from __future__ import annotations

import numpy as np

from ..machine.table import handles
from ..memory.peers import peer, view_of
from ..memory.views import WRITTEN, View
from .atomics import KINDS, exchange_if, in_turns
from .elements import picked
from .memory import scope_of


def _parts(task, op, buffer, position, rank, mask):
    """For each CTA that is reached: (its flat view of the buffer, lanes of the tile, their positions there)."""
    positions, ranks = task.read(position, op), task.read(rank, op)
    on = np.ones(positions.shape, bool) if mask is None else task.read(mask, op)
    for number in np.unique(ranks[on]):
        lanes = np.flatnonzero(on & (ranks == number))
        view = _flat(view_of(peer(task, op, int(number)), task.env[buffer], task, op))
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
    buffer, position, rank, mask, other = op.args
    shape = op.result.type.shape
    found = np.zeros(shape, task.env[buffer].data.dtype) if other is None else np.array(task.read(other, op))
    for view, lanes, at in _parts(task, op, buffer, position, rank, mask):
        view.touch(task, op, write=False, where=(at, ))
        view.check(task, op, (at, ))
        found[lanes] = view.data[at]
    task.env[op.result] = found


@handles("remote_scatter", switches=True)
def remote_scatter(task, op):
    """Of equal elements the last one wins here; on hardware any."""
    buffer, position, rank, value, mask = op.args
    tile = task.read(value, op)
    for view, lanes, at in _parts(task, op, buffer, position, rank, mask):
        view.touch(task, op, write=True, where=(at, ))
        view.data[at] = tile[lanes]
        view.marks[at] = WRITTEN


@handles("remote_rmw", switches=True)
def remote_rmw(task, op):
    kind, buffer, position, rank, value, mask, *_ = op.args
    _update(task, op, (buffer, position, rank, mask), KINDS[getattr(kind, "name", kind)], task.read(value, op))


@handles("remote_cas", switches=True)
def remote_cas(task, op):
    buffer, position, rank, compare, value, *_ = op.args
    _update(task, op, (buffer, position, rank, None), exchange_if, task.read(value, op), task.read(compare, op))


def _update(task, op, place, function, *operands) -> None:
    result = np.zeros(op.result.type.shape, operands[0].dtype)
    for view, lanes, at in _parts(task, op, *place):
        view.touch(task, op, write=True, where=(at, ), scope=scope_of(op))
        view.check(task, op, (at, ))
        result[lanes], view.data[at] = in_turns(function, at, view.data[at], *(operand[lanes] for operand in operands))
        view.marks[at] = WRITTEN
    task.env[op.result] = result
