"""Local memories that software manages: boxes to and from global memory, values, arithmetic, views.

Input: a task at an op of `ir/ops/dsa.py`. Output: elements moved, tiles and views in the task's environment. For example:

    dsa_load %pointers %a [%n]      a[0:n] is written, and the other elements keep what they had, written or not

Elements that nobody has written may be computed with, as a tail leaves them so; they are poison in what is computed, and to store
one of them to global memory is an error (`machine/poison.py`).
"""

from __future__ import annotations

import numpy as np

from ...errors import OutOfBounds, PartlyOverwritten, fail
from ...ir import Op
from ..costs.abstract import COPY_LATENCY
from ..machine.operands import enabled, position
from ..machine.poison import Poisoned, elementwise
from ..machine.table import handles
from ..machine.tasks import InFlight, Task
from ..memory.views import View
from ..memory_model.shadow import address_of
from .copies import issue


def _leading(task: Task, op: Op) -> tuple[np.ndarray, View] | None:
    """The pointers of the leading box, and the box of the buffer; None for an empty one."""
    view, pointer = task.env[op.buffer], np.asarray(task.read(op.pointer, op))
    pointer = pointer.reshape(pointer.shape or (1, ) * view.data.ndim)
    extents = tuple(max(0, position(task, op, extent)) for extent in op.extents)
    for axis, (extent, room, given) in enumerate(zip(extents, view.extents, pointer.shape)):
        if extent > min(room, given):
            raise fail(OutOfBounds, task, op, f"a box of {extent} elements along axis {axis}, where {view.name} has {room} and the "
                       f"pointers {given}", hint="take the smaller one: tl.minimum(n - start, BLOCK)")
    if not all(extents):
        return None
    box = tuple(slice(0, extent) for extent in extents)
    part = view if extents == view.extents else view.kept(extents) or view.keep(extents, view.cut(box, f"[{_text(extents)}]"))
    return pointer[box], part


def _text(extents) -> str:
    return ", ".join(f":{extent}" for extent in extents)


@handles("dsa_load", switches=True)
def dsa_load(task, op):
    found = _leading(task, op)
    if found is None:
        return
    pointer, part = found
    dtype = part.data.dtype
    task.memory.touch(task, op, pointer, None, dtype.itemsize, write=False)
    part.touch(task, op, write=True)
    part.write(task.memory.read(pointer, None, dtype, None, task, op))


@handles("dsa_fetch", switches=True)
def dsa_fetch(task, op):
    task.env[op.result] = None
    found = _leading(task, op) if enabled(task, op, op.predicate) else None
    if found is None:
        return
    pointer, part = found
    memory, dtype = task.memory, part.data.dtype
    memory.read(pointer, None, dtype, None, task, op)     # a wrong address is the issuing line's error

    def land(copy: InFlight) -> None:
        part.arrive(copy, memory.read(pointer, None, dtype, None, task, op))

    copy = issue(task, op, "copy", "cp.async", part.data.nbytes, COPY_LATENCY, land, part.name, destination=part, group="cp.async",
                 lands_by=lambda: f"the group it is in: {task.where} commits and waits for that")
    memory.touch(copy, op, pointer, None, dtype.itemsize, write=False)
    part.touch(copy, op, write=True)
    part.expect(copy)
    task.copies.append(copy)


@handles("dsa_store", switches=True)
def dsa_store(task, op):
    task.machine.wrote()
    found = _leading(task, op)
    if found is None:
        return
    pointer, part = found
    part.touch(task, op, write=False)
    part.check(task, op)
    value = part.tile
    task.memory.touch(task, op, pointer, None, value.dtype.itemsize, write=True)
    task.memory.write(pointer, value, None, task, op)


@handles("dsa_move", switches=True)
def dsa_move(task, op):
    source, view = task.env[op.source], task.env[op.buffer]
    box = tuple(slice(0, max(0, position(task, op, extent))) for extent in op.extents)
    found = taken(task, op, source)[box]
    view.touch(task, op, write=True)
    view.write(found, box)


@handles("dsa_to_tensor", switches=True)
def dsa_to_tensor(task, op):
    task.env[op.result] = taken(task, op, task.env[op.buffer])


def taken(task: Task, op: Op, view: View) -> np.ndarray | Poisoned:
    """The elements of a buffer, as an access of the task."""
    view.touch(task, op, write=False)
    return view.read(task, op)


@handles("dsa_to_buffer", switches=True)
def dsa_to_buffer(task, op):
    view = task.env[op.buffer]
    view.touch(task, op, write=True)
    view.write(task.take(op.value, op))


@handles("dsa_binary", switches=True)
def dsa_binary(task, op):
    lhs, rhs, out = task.env[op.lhs], task.env[op.rhs], task.env[op.out]
    for name, read in (("lhs", lhs), ("rhs", rhs)):
        if _partly(out.data, read.data):
            raise fail(PartlyOverwritten, task, op, f"`out`, {out.name}, overlaps `{name}`, {read.name}: which elements are "
                       "overwritten before they are read is not defined",
                       hint="write to a buffer of its own, or to exactly the elements that are read")
    unsigned = bool(op.attrs.get("unsigned"))
    with np.errstate(all="ignore"):
        found = elementwise(lambda *tiles: computed(op.kind, *tiles, unsigned), taken(task, op, lhs), taken(task, op, rhs))
    out.touch(task, op, write=True)
    out.write(found)


def _partly(written: np.ndarray, read: np.ndarray) -> bool:
    """True if some elements are in both, at other places."""
    if written is read or not np.may_share_memory(written, read):
        return False
    same = address_of(written) == address_of(read) and (written.shape, written.strides) == (read.shape, read.strides)
    return not same and np.shares_memory(written, read)


def computed(kind: str, lhs: np.ndarray, rhs: np.ndarray, unsigned: bool) -> np.ndarray:
    """`kind` of two arrays of one type, in that type; floats of 16 bits are divided in fp32."""
    dtype = lhs.dtype
    if unsigned:
        lhs, rhs = (one.view(f"u{dtype.itemsize}") for one in (lhs, rhs))
    if kind == "div":
        found = _quotient(lhs, rhs)
    else:
        found = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[kind](lhs, rhs)
    return found.view(dtype) if unsigned else found.astype(dtype, copy=False)


def _quotient(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """lhs / rhs; of integers towards zero, and 0 for a divisor of 0, which only elements of nobody may have."""
    if lhs.dtype.kind not in "iu":
        wide = np.float32 if lhs.dtype.itemsize < 4 else lhs.dtype
        return lhs.astype(wide) / rhs.astype(wide)
    divisor = np.where(rhs == 0, np.ones_like(rhs), rhs)
    floor = np.floor_divide(lhs, divisor)
    towards_zero = floor + ((floor < 0) & (floor * divisor != lhs)).astype(lhs.dtype)
    return np.where(rhs == 0, np.zeros_like(lhs), towards_zero)


# ---- boxes ------------------------------------------------------------------------------------------------------------------

def _slices(task: Task, op: Op, extents: tuple[int, ...], what: str) -> tuple[slice, ...]:
    """The numpy index of the box of an op."""
    found = []
    for axis, (offset, size, stride, extent) in enumerate(zip(op.offsets, op.sizes, op.strides, extents)):
        start = position(task, op, offset)
        last = start + (size - 1) * stride
        if start < 0 or last >= extent:
            raise fail(OutOfBounds, task, op, f"elements {start} to {last} along axis {axis} of {what}, which has {extent} there")
        found.append(slice(start, last + 1, stride))
    return tuple(found)


@handles("dsa_subview")
def dsa_subview(task, op):
    view = task.env[op.buffer]
    box = _slices(task, op, view.extents, view.name)
    text = ", ".join(f"{one.start}:{one.stop}" + (f":{one.step}" if one.step > 1 else "") for one in box)
    task.env[op.result] = view.kept(text) or view.keep(text, view.cut(box, f"[{text}]"))


@handles("dsa_extract_slice")
def dsa_extract_slice(task, op):
    tile = task.read(op.value, op)
    task.env[op.result] = tile[_slices(task, op, tile.shape, "a tensor")].copy()


@handles("dsa_insert_slice")
def dsa_insert_slice(task, op):
    tile = task.read(op.value, op).copy()
    tile[_slices(task, op, tile.shape, "a tensor")] = task.read(op.part, op)
    task.env[op.result] = tile


@handles("dsa_extract_element")
def dsa_extract_element(task, op):
    tile = task.read(op.value, op)
    index = tuple(position(task, op, one) for one in op.indices)
    for axis, (at, extent) in enumerate(zip(index, tile.shape)):
        if not 0 <= at < extent:
            raise fail(OutOfBounds, task, op, f"element {at} along axis {axis} of a tensor, which has {extent} there")
    task.env[op.result] = tile[index]
