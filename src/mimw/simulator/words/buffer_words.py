"""Accesses at offsets from one pointer, as AMD's buffer instructions do them.

Input: a task at an op with a base and offsets. Output: what the same access through pointers gives, once the offsets are found to
be in range and as the author promised. For example:

    buffer_load %pointers, base=%x, at=%at, contiguity=4      OutOfBounds if one of %at lies 2 GiB or more behind %x

The instruction has 2^31 - 2 bytes from the base on as its range, whatever the tensor's size is: beyond them it reads zero and
writes nothing, without a word.
"""

from __future__ import annotations

import numpy as np

from ...errors import BufferMisuse, OutOfBounds, fail
from ..machine.table import handles
from . import copies, memory
from .atomics import combining

_RANGE = (1 << 31) - 2  # bytes: num_records of the descriptor that Triton makes
_PAIR = 4               # bytes of two elements that one atomic adds to


@handles("buffer_load", switches=lambda op: op.is_volatile)
def buffer_load(task, op):
    _check(task, op, op.contiguity)
    memory.masked_load(task, op)


@handles("buffer_store")
def buffer_store(task, op):
    _check(task, op)
    (memory.store if op.mask is None else memory.masked_store)(task, op)


@handles("buffer_atomic_add", switches=True)
def buffer_atomic_add(task, op):
    _check(task, op, op.contiguity)
    mask = memory.optional(task, op, op.mask)
    pointer, value = task.used(op.pointer, op, mask), task.used(op.value, op, mask)
    if value.dtype.itemsize * 2 == _PAIR:
        _check_pairs(task, op, np.asarray(pointer), mask)
    task.env[op.result] = memory.update(task, op, pointer, mask, value.dtype, combining("ADD", value.dtype), value)


@handles("buffer_load_to_local", switches=True)
def buffer_load_to_local(task, op):
    _check(task, op)
    copies.async_load(task, op)


def _check(task, op, contiguity: int = 1) -> None:
    """Refuse offsets that are out of range or not as promised."""
    mask = memory.optional(task, op, op.mask)
    pointer, base = np.asarray(task.used(op.pointer, op, mask), np.uint64), np.uint64(task.read(op.base, op))
    distance = (pointer - base).view(np.int64)
    on = np.ones(distance.shape, bool) if mask is None else np.broadcast_to(mask, distance.shape)
    size = op.pointer.type.element.pointee.bytes
    wrong = on & ((distance < 0) | (distance >= _RANGE))
    if wrong.any():
        first = int(distance[wrong][0])
        raise fail(OutOfBounds, task, op, f"{op.name} at offset {first // size} from {task.memory.name_at(int(base))}: {first} "
                   f"bytes, and the instruction reaches from 0 to 2^31 - 2", hint="move the pointer on in 64 bits, "
                   "ptr + start.to(tl.int64), and count the offsets from there")
    each = min(contiguity, distance.shape[-1])
    if each > 1:
        _check_runs(task, op, distance // size, on, each)


def _check_runs(task, op, offsets: np.ndarray, on: np.ndarray, each: int) -> None:
    """Refuse neighbours that do not follow each other; a masked one may lie anywhere."""
    start = (offsets - np.arange(offsets.shape[-1]) % each).reshape(-1, each)
    on = on.reshape(-1, each)
    low, high = np.where(on, start, start.max()).min(axis=1), np.where(on, start, start.min()).max(axis=1)
    if (wrong := (low < high)).any():
        told = ", ".join(map(str, offsets.reshape(-1, each)[wrong][0].tolist()))
        raise fail(BufferMisuse, task, op, f"{op.name} has contiguity={op.contiguity}, and neighbours at the offsets {told}",
                   hint="promise no longer runs than the offsets have")


def _check_pairs(task, op, pointer: np.ndarray, mask) -> None:
    """Refuse a pair that is masked in part, and one that does not lie at a multiple of its size."""
    pairs = np.ones(pointer.shape, bool) if mask is None else np.broadcast_to(mask, pointer.shape)
    pairs = pairs.reshape(-1, 2)
    if (cut := pairs[:, 0] != pairs[:, 1]).any():
        raise fail(BufferMisuse, task, op, f"{op.name} adds two elements of 16 bits at once, and the mask of elements "
                   f"{2 * int(np.flatnonzero(cut)[0])} and {2 * int(np.flatnonzero(cut)[0]) + 1} takes one of them",
                   hint="mask both of a pair alike, or add in tl.float32")
    if (odd := pairs[:, 0] & (pointer.reshape(-1, 2)[:, 0] % _PAIR != 0)).any():
        place = task.memory.named(int(pointer.reshape(-1, 2)[odd][0, 0]))
        raise fail(BufferMisuse, task, op, f"{op.name} adds two elements of 16 bits at once, and a pair begins at {place}, which "
                   "is no multiple of 4 bytes", hint="begin pairs at even elements of a tensor at a multiple of 4 bytes")
