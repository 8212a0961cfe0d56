"""Descriptor slots: places in global memory that hold one descriptor each.

Input: a task at an op on slots. Output: a descriptor put into a slot, or found there. For example:

    view_descriptor_slot %slots[0]      the descriptor that was made there last; UnwrittenRead if there is none

What a slot holds is visible to all tasks at once. So a missing barrier between the task that makes a descriptor and the task that
uses it shows: the slot is still empty, or holds an older descriptor. And making one is a write, before which all copies through
the slot's last one have to be over (`descriptor_places`).
"""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import OutOfBounds, UnwrittenRead, fail
from ..machine.table import handles
from ..memory.descriptor_places import DescriptorPlace, own_place
from ..memory.global_tensors import GlobalTensor
from ..memory.values import numpy_type
from .descriptors import described


@dataclass(frozen=True, eq=False)
class Slots:
    """The array that one `allocate_tensor_descriptor` made, or (with `index`) one place in it."""

    name: str
    held: list[GlobalTensor | None]
    places: list[DescriptorPlace]
    index: int = 0


@handles("descriptor_slots")
def descriptor_slots(task, op):
    name = op.result.name or f"slots of line {op.site.line}"
    places = [DescriptorPlace(f"slot {index} of {name!r}") for index in range(op.count)]
    task.env[op.result] = Slots(name, [None] * op.count, places)


@handles("descriptor_slot")
def descriptor_slot(task, op):
    slots, index = task.env[op.slots], int(task.read(op.index, op))
    if not 0 <= index < len(slots.held):
        raise fail(OutOfBounds, task, op, f"index {index} of {slots.name!r}, which has {len(slots.held)}")
    task.env[op.result] = Slots(slots.name, slots.held, slots.places, index)


@handles("fill_descriptor_slot", switches=True)
def fill_descriptor_slot(task, op):
    if op.slot is None:
        task.env[op.result] = described(task, op, own_place(task, op))
        return
    slot = task.env[op.slot]
    task.env[op.result] = slot.held[slot.index] = described(task, op, slot.places[slot.index])


@handles("view_descriptor_slot", switches=True)
def view_descriptor_slot(task, op):
    slot, type_ = task.env[op.slot], op.result.type
    held, place = slot.held[slot.index], slot.places[slot.index]
    name = place.name
    if held is None:
        raise fail(UnwrittenRead, task, op, f"{name} is looked at before any descriptor was made in it",
                   hint="make it first, and put a barrier between the maker and this task")
    if (held.block, held.dtype) != (type_.shape, numpy_type(type_.element, op.site)):
        raise fail(UnwrittenRead, task, op, f"{name} holds a descriptor of {held.dtype} blocks {held.block}, looked at as {type_}",
                   hint="the maker and this task must name one block shape and dtype")
    place.touch(task, op, write=False)
    task.env[op.result] = held
