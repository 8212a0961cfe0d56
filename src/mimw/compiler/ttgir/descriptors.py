"""Readers of tensor descriptors that a kernel makes in global memory.

Input: `ttng.tensormap_create` and what is around it. Output: ours on slots for descriptors. For example:

    %s = ttg.global_scratch_alloc {alignment = 128, nbytes = 128}           descriptor_slots 1
    ttng.tensormap_create %s, %a, [%64, %128], [%K, %M], [%bytes], [..]     fill_descriptor_slot %s %a (%M, %K) (%bytes / 2, 1)
    %d = ttng.reinterpret_tensor_descriptor %s                              view_descriptor_slot %s, where %d is used

A tensor map lists extents from the innermost on, and strides in bytes without the innermost; ours are from the outermost on, in
elements (CUDA driver API, "cuTensorMapEncodeTiled").
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ...errors import LayoutConflict, MissingFence
from ...ir import Descriptor, DescriptorSlots, Pointer, Scalar, Site, Value
from ..triton_port.mlir_tree import Node
from .cta_parts import part_in
from .reading import Here, reads
from .types import layout_in

_BYTES = 128
_SWIZZLES = {0: 0, 1: 32, 2: 64, 3: 128}     # bytes by the number of a mode: CUDA driver API, CUtensorMapSwizzle
_I32, _I64 = Scalar("i32"), Scalar("i64")


@dataclass
class _Map:
    """A tensor map that the kernel makes: its swizzle, the place, and whether a fence has handed it to the proxy that reads it."""

    mode: int
    site: Site
    acquired: bool = False


@reads("ttg.global_scratch_alloc")
def scratch(here: Here):
    size = here.integer("nbytes")
    if size % _BYTES:
        raise here.unreadable(f"{size} bytes of scratch memory are no tensor descriptors")
    slots = here.value(DescriptorSlots(size // _BYTES))
    here.stands_for(slots)
    return here.op("descriptor_slots", size // _BYTES, results=(slots, ))


@reads("tt.addptr")
def moved(here: Here):
    """In memory of descriptors, one of them; of any other pointer the arithmetic."""
    base, offset = here.operands
    if not isinstance(base.type, DescriptorSlots):
        return here.op("addptr", base, offset)
    size, width = here.number(_BYTES, offset.type)
    index, slot = here.value(offset.type), here.value(DescriptorSlots(0))
    if (known := here.known(offset)) is not None and known % _BYTES:
        raise here.unreadable(f"{known} bytes into memory of tensor descriptors begins none")
    here.stands_for(slot)
    return [size, here.op("sdiv", offset, width, results=(index, )), here.op("descriptor_slot", base, index, results=(slot, ))]


@reads("tt.bitcast")
def seen_otherwise(here: Here):
    """Of memory of descriptors, the same memory."""
    if isinstance(here.operands[0].type, DescriptorSlots):
        here.stands_for(here.operands[0])
        return None
    return here.op("bitcast", here.operands[0], here.types[0])


@reads("ttng.tensormap_create")
def created(here: Here):
    slot, base, *numbers = here.operands
    here.reader.notes.setdefault("maps", {})[slot] = _Map(here.integer("swizzle_mode", 0), here.site)
    rank = (len(numbers) + 1) // 4
    boxes, extents, strides = numbers[:rank], numbers[rank:2 * rank], numbers[2 * rank:3 * rank - 1]
    slot_ops, slot = slot_of(here, slot)
    element = base.type.pointee
    one, unit = here.number(1, _I64)
    size, width = here.number(element.bytes, _I64)
    ops, steps = [*slot_ops, one, size], []
    for stride in reversed(strides):
        steps.append(here.value(_I64))
        ops.append(here.op("sdiv", stride, width, results=(steps[-1], )))
    type_ = _block(here, Descriptor(element, tuple(map(here.known, reversed(boxes)))))
    filled = here.value(type_)
    padding = "PAD_NAN" if here.integer("fill_mode", 0) else "PAD_ZERO"
    return [*ops, here.op("fill_descriptor_slot", slot, base, tuple(reversed(extents)), (*steps, unit), padding, type=type_,
                          results=(filled, ))]


@reads("ttng.tensormap_fenceproxy_acquire")
def acquired(here: Here):
    """A descriptor is read by what stands behind, in the order of the program."""
    if made := here.reader.notes.get("maps", {}).get(here.operands[0]):
        made.acquired = True


@reads("ttng.reinterpret_tensor_descriptor")
def seen_as(here: Here):
    """An address as a descriptor. Passes move that in front of a loop in which the descriptor is made: it is looked at where it is
    used."""
    if made := here.reader.notes.get("maps", {}).get(here.operands[0]):
        _same_swizzle(here, made)
        if not made.acquired:
            raise MissingFence("copies read this tensor map through another proxy than the one that wrote it, and no fence of that "
                               "proxy stands between", made.site, here.site,
                               hint="ttng.tensormap_fenceproxy_acquire behind ttng.tensormap_create")
    ops, slot = slot_of(here, here.operands[0])
    here.reader.slots[here.results[0]] = slot
    return ops


def _same_swizzle(here: Here, made: _Map) -> None:
    """A copy engine swizzles as the map says, and readers of the memory look as the type says: in silence elements would be
    exchanged. That copies and their buffers have one layout, MLIR sees to."""
    said = re.search(r"swizzlingByteWidth = (\d+)", layout_in(here.node.results[0][1]))
    if said and int(said[1]) != _SWIZZLES[made.mode]:
        raise LayoutConflict(f"the tensor map is made with swizzle_mode {made.mode}, {_SWIZZLES[made.mode]} bytes, and looked at "
                             f"as a descriptor with swizzlingByteWidth = {said[1]}: copies put elements in other places than "
                             "readers look", made.site, here.site, hint="0, 1, 2, 3 are 0, 32, 64, 128 bytes")


def _block(here: Here, box: Descriptor) -> Descriptor:
    """The block that copies by a descriptor bring. A tensor map has the box of one instruction, and a copy of a block takes several
    side by side; the block is what the memory is looked at as."""
    looks = here.reader.notes["looks"]
    found = looks.get(here.node.operands[0]) or [one for types in looks.values() for one in types]
    fitting = [one for one in found if one.element == box.element and one.shape[:-1] == box.shape[:-1] and
               one.shape[-1] % box.shape[-1] == 0]
    if len(set(fitting)) > 1:
        raise here.unreadable("which block this descriptor is for is not known")
    return fitting[0] if fitting else box


def looks(nodes: Iterable[Node]) -> dict[int, list[Descriptor]]:
    """The descriptors that memory is looked at as, by the number of the memory's value."""
    found: dict[int, list[Descriptor]] = {}
    same: dict[int, int] = {}       # memory by another type
    for node in nodes:
        if node.name == "tt.bitcast":
            same[node.results[0][0]] = same.get(node.operands[0], node.operands[0])
        if node.name == "ttng.reinterpret_tensor_descriptor":
            found.setdefault(same.get(node.operands[0], node.operands[0]), []).append(part_in(node.results[0][1]))
    return found


def slot_of(here: Here, value: Value):
    """The ops that give a slot, and the slot: the first one where memory for several is named."""
    if isinstance(value.type, Pointer):
        raise here.unreadable("a tensor descriptor in memory of an argument has no meaning in the simulator")
    if not value.type.count:
        return [], value
    slot = here.value(DescriptorSlots(0))
    zero, index = here.number(0, _I32)
    return [zero, here.op("descriptor_slot", value, index, results=(slot, ))], slot
