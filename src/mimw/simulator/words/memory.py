"""Loads, stores and atomics on global memory.

Input: a task at an op of `ir/ops/memory.py`. Output: elements read or written; each access is told to the order of accesses. For
example:

    %old = atomic_rmw ADD %pointer %value      one step of the scheduler

An atomic op that changes nothing, and a volatile load, count as a round of a spin. When spinning is all that goes on, the machine
says so instead of going on for ever.
"""

from __future__ import annotations

import numpy as np

from ...ir.types import Pointer
from ..costs.abstract import POLL
from ..machine.poison import Poisoned, data_of, poisoned
from ..machine.table import handles
from ..memory.values import numpy_type
from . import lanes
from .atomics import combining, exchange_if, in_turns


def _volatile(op) -> bool:
    return bool(op.is_volatile)


def _pointee(op) -> np.dtype:
    type_ = op.pointer.type
    pointer = type_ if isinstance(type_, Pointer) else type_.element
    return numpy_type(pointer.pointee, op.site)


def optional(task, op, arg):
    """The value of an operand, None if it was left out."""
    return None if not hasattr(arg, "type") else task.read(arg, op)


def _atomic(op, read: bool) -> dict:
    """The keywords that describe an atomic op to the order of accesses."""
    order = getattr(op.order, "name", str(op.order)).lower()
    return dict(order={"acquire_release": "acq_rel"}.get(order, order), scope=scope_of(op), read=read)


def scope_of(op) -> str:
    """The scope of an atomic op: cta, gpu or sys."""
    scope = getattr(op.scope, "name", str(op.scope)).lower()
    return {"system": "sys"}.get(scope, scope)


_VOLATILE = dict(order="relaxed", scope="sys", read=True)     # PTX: a volatile load is relaxed at system scope


@handles("load", switches=_volatile)
def load(task, op):
    task.machine.polls += _volatile(op)
    if task.machine.tells_threads_apart:
        task.env[op.result] = lanes.load(task, op, task.read(op.pointer, op), None, None)
        return
    memory, pointer, dtype = task.memory, task.read(op.pointer, op), _pointee(op)
    memory.touch(task, op, pointer, None, dtype.itemsize, write=False, atomic=_VOLATILE if _volatile(op) else None)
    task.env[op.result] = memory.read(pointer, None, dtype, None, task, op)


@handles("masked_load", switches=_volatile)
def masked_load(task, op):
    """Load where the mask, if there is one, holds."""
    task.machine.polls += _volatile(op)
    mask = optional(task, op, op.mask)
    pointer, other = task.used(op.pointer, op, mask), task.take(op.other, op) if hasattr(op.other, "type") else None
    found = read_where(task, op, pointer, mask, data_of(other))
    if other.__class__ is Poisoned and mask is not None:
        found = poisoned(found, other.mask & ~np.asarray(mask), other.origin)
    task.env[op.result] = found


def read_where(task, op, pointer, mask, other):
    """The elements at `pointer` where `mask` holds, `other` elsewhere."""
    if task.machine.tells_threads_apart:
        return lanes.load(task, op, pointer, mask, other)
    memory, dtype = task.memory, _pointee(op)
    memory.touch(task, op, pointer, mask, dtype.itemsize, write=False, atomic=_VOLATILE if _volatile(op) else None)
    return memory.read(pointer, mask, dtype, other, task, op)


@handles("store")
def store(task, op):
    task.machine.wrote()
    if task.machine.tells_threads_apart:
        lanes.store(task, op, task.read(op.pointer, op), task.read(op.value, op), None)
        return
    memory, pointer, value = task.memory, task.read(op.pointer, op), task.read(op.value, op)
    memory.touch(task, op, pointer, None, value.dtype.itemsize, write=True)
    memory.write(pointer, value, None, task, op)


@handles("masked_store")
def masked_store(task, op):
    task.machine.wrote()
    mask = task.read(op.mask, op)
    pointer, value = (task.used(arg, op, mask) for arg in (op.pointer, op.value))
    if task.machine.tells_threads_apart:
        lanes.store(task, op, pointer, value, mask)
        return
    task.memory.touch(task, op, pointer, mask, value.dtype.itemsize, write=True)
    task.memory.write(pointer, value, mask, task, op)


@handles("atomic_load", switches=True)
def atomic_load(task, op):
    task.machine.polls += 1
    pointer, mask = task.read(op.pointer, op), optional(task, op, op.mask)
    task.memory.touch(task, op, pointer, mask, _pointee(op).itemsize, write=False, atomic=_atomic(op, True))
    task.env[op.result] = task.memory.read(pointer, mask, _pointee(op), None, task, op)


@handles("atomic_store", switches=True)
def atomic_store(task, op):
    task.machine.wrote()
    mask = optional(task, op, op.mask)
    pointer, value = task.used(op.pointer, op, mask), task.used(op.value, op, mask)
    task.memory.touch(task, op, pointer, mask, value.dtype.itemsize, write=True, atomic=_atomic(op, False))
    task.memory.write(pointer, value, mask, task, op)
    if not np.shape(pointer):
        signalled(task, op, pointer, value)


@handles("atomic_rmw", switches=True)
def atomic_rmw(task, op):
    mask = optional(task, op, op.mask)
    pointer, value = task.used(op.pointer, op, mask), task.used(op.value, op, mask)
    task.env[op.result] = update(task, op, pointer, mask, value.dtype, combining(op.kind, value.dtype), value)


@handles("atomic_cas", switches=True)
def atomic_cas(task, op):
    pointer, compare, value = (task.read(arg, op) for arg in (op.pointer, op.compare, op.value))
    task.env[op.result] = update(task, op, pointer, None, value.dtype, exchange_if, value, compare)


def update(task, op, pointer, mask, dtype, function, *operands):
    """Replace what is at `pointer` by `function(old, *operands)`; the old values. Equal addresses take turns."""
    memory, shape = task.memory, np.shape(pointer)
    memory.touch(task, op, pointer, mask, dtype.itemsize, write=True, atomic=_atomic(op, True))
    if not shape and (mask is None or mask):
        old = memory.read(pointer, None, dtype, None, task, op)
        new = np.asarray(function(old, *operands)).astype(dtype, copy=False)
        memory.write(pointer, new, None, task, op)
        if new.tobytes() == old.tobytes():
            task.machine.polls += 1
        else:
            task.machine.wrote()
            signalled(task, op, pointer, new)
        return old
    flat = np.asarray(pointer).reshape(-1)
    lanes = slice(None) if mask is None else np.flatnonzero(np.broadcast_to(mask, shape).reshape(-1))
    places, result, changed = flat[lanes], np.zeros(flat.size, dtype), False
    if places.size:
        operands = (np.broadcast_to(operand, shape).reshape(-1)[lanes] for operand in operands)
        old, new = in_turns(function, places, memory.read(places, None, dtype, None, task, op), *operands)
        result[lanes], changed = old, new.tobytes() != old.tobytes()
        memory.write(places, new, None, task, op)        # of equal places the last lane's
    if changed:
        task.machine.wrote()
    else:
        task.machine.polls += 1
    return result.reshape(shape)[()]


def signalled(task, op, pointer, value) -> None:
    """One word has changed, which others may wait for."""
    machine, address = task.machine, int(pointer)
    if task.cta.gpu.others:
        machine.signal_times[address] = task.clock
    if machine.order.looks:
        machine.order.signalled(task, op, address, value[()], task.memory.named(address))


@handles("atomic_poll")
def atomic_poll(task, op):
    """Looks until every element has its expected value, or the timeout (in nanoseconds, taken as cycles) is over."""
    pointer, expected, timeout = (optional(task, op, arg) for arg in (op.pointer, op.expected, op.timeout))
    end = None if timeout is None else task.clock + float(timeout)
    task.loops.append(op)
    while True:
        yield None
        matched = task.memory.read(pointer, None, expected.dtype, None, task, op) == expected
        if np.all(matched) or (end is not None and task.clock >= end):
            break
        task.clock += POLL
        task.machine.polls += 1
    task.loops.pop()
    task.memory.touch(task, op, pointer, None, expected.dtype.itemsize, write=False, atomic=_atomic(op, True))
    task.env[op.result] = matched


@handles("prefetch", "prefetch_descriptor")
def cache_hint(task, op):
    """There are no caches here."""


