"""Shared memory: allocations, views, and plain reads and writes.

Input: a task at an op of `ir/ops/buffers.py`. Output: views in the task's environment, tiles read from them, elements written.

    local_load %tiles[0]      a copy of the buffer's elements; an error if one of them has not been written
"""

from __future__ import annotations

import numpy as np

from ...errors import OutOfBounds, SimulatorMisuse, fail
from ...ir import Value
from ..machine.operands import position
from ..machine.poison import spaced
from ..machine.table import handles
from ..memory.outside import Outside
from ..memory.tensor_memory import TensorMemory
from ..memory.views import StorageBytes, View, allocate


@handles("alias_storage")
def alias_storage(task, op):
    size = op.attrs["bytes"]
    if op.space == "tmem":
        task.env[op.result] = TensorMemory.of_columns(size)
        return
    task.env[op.result] = StorageBytes(np.full(size, 0xFF, np.uint8), np.zeros(size, np.uint8))


@handles("local_alloc")
def local_alloc(task, op):
    before = task.cta.memory.get(op.result) if op.attrs.get("again") else None
    if before is not None:
        before.vacate(task, op)
        task.env[op.result] = before
        return
    name, place = op.result.name or f"buffer of line {op.site.line}", op.attrs.get("place")
    if place is None:
        view = allocate(name, op.result.type, op.site)
    else:
        in_pairs = (task.machine.program.in_pairs, "doubled" in op.attrs) if op.result.type.space == "tmem" else ()
        view = task.env[op.reuse].array(name, op.result.type, place, op.site, *in_pairs)
    if len(task.cta.cluster.ctas) > 1:
        view.allocation.owner = f" of {task.cta}"
    task.env[op.result] = task.cta.memory[op.result] = view


@handles("local_free")
def local_free(task, op):
    """Forget what was in the array: a later read is one of elements that nobody has written."""
    task.env[op.buffer].vacate(task, op)


@handles("buffer_index")
def buffer_index(task, op):
    view, index = task.env[op.buffer], position(task, op, op.index)
    if "lazy" in op.attrs and not 0 <= index < view.count:
        task.env[op.result] = Outside(lambda: _no_such(task, op, view, index))
        return
    task.env[op.result] = view.kept(index) or view.keep(index, _indexed(task, op, view, index))


def _indexed(task, op, view: View, index: int) -> View:
    if not 0 <= index < view.count:
        raise _no_such(task, op, view, index)
    select = slice(index, index + 1) if view.data.ndim == 1 else index
    return view.part(select if view.group_size == 1 else divmod(index, view.group_size), f"[{index}]")


def _no_such(task, op, view: View, index: int) -> Exception:
    return fail(OutOfBounds, task, op, f"index {index} of {view.name}, which has {view.count}")


@handles("buffer_slice")
def buffer_slice(task, op):
    view, shape = task.env[op.buffer], op.shape
    offsets = tuple([position(task, op, offset) for offset in op.offsets])
    what = offsets, shape
    task.env[op.result] = view.kept(what) or view.keep(what, _sliced(task, op, view, offsets, shape))


def _sliced(task, op, view: View, offsets: tuple[int, ...], shape: tuple[int, ...]) -> View:
    for axis, (offset, size, extent) in enumerate(zip(offsets, shape, view.extents)):
        if offset < 0 or offset + size > extent:
            raise fail(OutOfBounds, task, op, f"elements {offset} to {offset + size} along axis {axis} of {view.name}, "
                       f"which has {extent} there")
        if offset % size and isinstance(op.offsets[axis], Value):
            raise fail(OutOfBounds, task, op, f"{size} elements from {offset} along axis {axis} of {view.name}: a box begins at a "
                       "multiple of its extent, and which one the GPU takes otherwise is undefined",
                       hint="slice smaller boxes, or read elements by tlx.local_gather")
    box = tuple(slice(offset, offset + size) for offset, size in zip(offsets, shape))
    text = ", ".join(f"{offset}:{offset + size}" for offset, size in zip(offsets, shape))
    return view.cut(box, f"[{text}]")


@handles("buffer_trans")
def buffer_trans(task, op):
    task.env[op.result] = task.env[op.buffer].trans(op.order)


@handles("buffer_reinterpret")
def buffer_reinterpret(task, op):
    view, type_ = task.env[op.buffer], op.type
    found = view.seen_as(type_, op.site)
    if found is None:
        raise fail(SimulatorMisuse, task, op, f"{view.name} as {type_}: its bytes do not follow each other",
                   hint="reinterpret the buffer first, slice or transpose then")
    task.env[op.result] = found


@handles("local_load", switches=True)
def local_load(task, op):
    view = task.env[op.buffer]
    if op.mask is None:
        view.touch(task, op, write=False)
        task.env[op.result] = view.read(task, op)
        return
    where = np.nonzero(task.read(op.mask, op))
    view.touch(task, op, write=False, where=where)
    task.env[op.result] = view.read(task, op, where)


@handles("local_store", switches=True)
def local_store(task, op):
    view, tile = task.env[op.buffer], task.take(op.value, op)
    if op.mask is None:
        view.touch(task, op, write=True)
        view.write(tile)
        return
    where = np.nonzero(task.read(op.mask, op))
    view.touch(task, op, write=True, where=where)
    view.write(tile[where], where)


@handles("local_gather", switches=True)
def local_gather(task, op):
    view, indices, axis = task.env[op.buffer], task.read(op.indices, op), op.axis
    where = _picked(task, op, view, indices, axis)
    if op.mask is None:
        view.touch(task, op, write=False, where=where)
        task.env[op.result] = view.pick(task, op, where)
        return
    on = task.read(op.mask, op)
    where = tuple(index[on] for index in where)
    view.touch(task, op, write=False, where=where)
    task.env[op.result] = spaced(view.pick(task, op, where), on)


@handles("local_scatter", switches=True)
def local_scatter(task, op):
    """Of equal indices the last one in row-major order wins here; on hardware any."""
    view, tile, indices = task.env[op.buffer], task.take(op.value, op), task.read(op.indices, op)
    where = _picked(task, op, view, indices, op.axis)
    view.touch(task, op, write=True, where=where)
    view.write(tile, where)


def _picked(task, op, view: View, indices: np.ndarray, axis: int) -> tuple[np.ndarray, ...]:
    """The numpy index of the elements that `indices` along `axis` pick."""
    outside = (indices < 0) | (indices >= view.data.shape[axis])
    if outside.any():
        at = tuple(int(i) for i in np.argwhere(outside)[0])
        raise fail(OutOfBounds, task, op, f"{op.name}: index {indices[at]} at {at} is outside the {view.data.shape[axis]} elements "
                   f"of {view.name} along axis {axis}", hint="mask or clamp the indices")
    where = list(np.ogrid[tuple(slice(0, extent) for extent in indices.shape)])
    where[axis] = indices
    return tuple(np.broadcast_arrays(*where))


