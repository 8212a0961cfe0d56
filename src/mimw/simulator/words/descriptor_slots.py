"""Descriptor slots: places in global memory that hold one descriptor each.

Input: a task at an op on slots. Output: a descriptor put into a slot, or found there. For example:

    view_descriptor_slot %slots[0]      the descriptor that was made there last; UnwrittenRead if there is none

What a slot holds is visible to all tasks at once. So a missing barrier between the task that makes a descriptor and the task that
uses it shows: the slot is still empty, or holds an older descriptor.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import OutOfBounds, UnwrittenRead, fail
from ..machine.table import handles
from ..memory.global_tensors import GlobalTensor
from ..memory.values import numpy_type
from .descriptors import described


@dataclass(frozen=True, eq=False)
class Slots:
    """The array that one `allocate_tensor_descriptor` made, or (with `index`) one place in it."""

    name: str
    held: list[GlobalTensor | None]
    index: int = 0


@handles("descriptor_slots")
def descriptor_slots(task, op):
    task.env[op.result] = Slots(op.result.name or f"slots of line {op.site.line}", [None] * op.count)


@handles("descriptor_slot")
def descriptor_slot(task, op):
    slots, index = task.env[op.slots], int(task.read(op.index, op))
    if not 0 <= index < len(slots.held):
        raise fail(OutOfBounds, task, op, f"index {index} of {slots.name!r}, which has {len(slots.held)}")
    task.env[op.result] = Slots(slots.name, slots.held, index)


@handles("fill_descriptor_slot", switches=True)
def fill_descriptor_slot(task, op):
    made = described(task, op)
    if op.slot is not None:
        place = task.env[op.slot]
        place.held[place.index] = made
    task.env[op.result] = made


@handles("view_descriptor_slot", switches=True)
def view_descriptor_slot(task, op):
    place, type_ = task.env[op.slot], op.result.type
    held = place.held[place.index]
    name = f"slot {place.index} of {place.name!r}"
    if held is None:
        raise fail(UnwrittenRead, task, op, f"{name} is looked at before any descriptor was made in it",
                   hint="make it first, and put a barrier between the maker and this task")
    if (held.block, held.dtype) != (type_.shape, numpy_type(type_.element, op.site)):
        raise fail(UnwrittenRead, task, op, f"{name} holds a descriptor of {held.dtype} blocks {held.block}, looked at as {type_}",
                   hint="the maker and this task must name one block shape and dtype")
    task.env[op.result] = held
