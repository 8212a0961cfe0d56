"""Buffers in tensor memory: one allocation for the kernel, arrays as views of its columns, and the way to registers.

Input: an op on a buffer whose space is "tmem". Output: Triton's ops on tensor memory:

    %acc = local_alloc {place: columns 0 and 128}     ttg.memdesc_reinterpret of ttng.tmem_subslice of the one ttng.tmem_alloc
    %x = tmem_load %acc[0]                            ttng.tmem_load

All arrays come from one allocation: Triton lays several over each other by the liveness that Triton sees, which knows nothing of
other tasks and of operations in flight. A view keeps the layout of the array it is cut from.
"""

from __future__ import annotations

from dataclasses import replace

from ....ir import Buffer, Op, Place, Tensor
from ....ir.layouts import Linear, RegisterLayout, TensorMemory
from ....ir.tensor_memory import ATOMS, LANES, holds_scales, layout_of, lying, tile_of
from ....ir.types import I32
from ..anchor import anchored
from ..choice import chosen
from ..emitter import Emitter, Placement, emits
from .descriptors import memory_type, part
from .halves import half_load, half_store
from .tables import table, table_slice

SPACE = "tmem"


def backing(emitter: Emitter, op: Op):
    """The one allocation, of all columns that the kernel takes."""
    columns = emitter.tensor_columns = op.attrs["bytes"]
    emitter.placed[op.result] = Placement(TensorMemory(LANES, columns), (LANES, columns))
    return emitter.builder.create_tmem_alloc(memory_type(emitter, I32, (LANES, columns), emitter.placed[op.result]), None)


def array(emitter: Emitter, op: Op):
    """The whole allocation as buffers of the array's type, of which an index picks one; where buffers start elsewhere than at whole
    buffers, the allocation as it is, which an index cuts."""
    place, total, doubled = op.attrs["place"], emitter.tensor_columns, "doubled" in op.attrs
    type_ = lying(op.result.type, emitter.program.in_pairs, doubled)
    # Triton has no arrays of tables of scales.
    steady = not holds_scales(type_) and all(place.start(index) % place.size == 0 for index in range(place.count))
    emitter.placed[op.result] = Placement(layout_of(type_), type_.shape, place, 0 if steady else total, doubled=doubled)
    if not steady:
        return emitter.of(op.reuse)
    shape = (total // place.size, *type_.shape)
    whole = memory_type(emitter, type_.element, shape, Placement(layout_of(type_), shape))
    return emitter.builder.create_memdesc_reinterpret(whole, emitter.of(op.reuse))


def buffer_index(emitter: Emitter, op: Op):
    """One buffer of an array."""
    builder, had = emitter.builder, emitter.placed[op.buffer]
    type_ = lying(op.result.type, emitter.program.in_pairs, had.doubled)
    emitter.placed[op.result] = one = Placement(had.layout, type_.shape, doubled=had.doubled)
    place = had.place
    if had.storage_bytes:
        return chosen(emitter, op.index, place.count, lambda number: part(
            emitter, emitter.of(op.buffer), place.start(number), place.size, type_))
    number = _step(emitter, emitter.of(op.index), place)
    return builder.create_memdesc_index(memory_type(emitter, type_.element, type_.shape, one), emitter.of(op.buffer), number)


def _step(emitter: Emitter, number, place: Place):
    """The index of buffer `number` among the buffer-sized pieces of the allocation."""
    builder, group = emitter.builder, place.group_size
    step = number
    if not place.is_contiguous:
        slot = number if group == 1 else builder.create_sdiv(number, builder.get_int32(group))
        step = builder.create_mul(slot, builder.get_int32(place.stride // place.size))
        if group > 1:
            step = builder.create_add(step, builder.create_srem(number, builder.get_int32(group)))
    return builder.create_add(step, builder.get_int32(place.offset // place.size)) if place.offset else step


def buffer_slice(emitter: Emitter, op: Op):
    """Columns of one buffer, from a constant on."""
    if holds_scales(op.buffer.type):
        return table_slice(emitter, op)
    had, offset, width = emitter.placed[op.buffer], op.offsets[1], op.result.type.shape[1]
    lies = lying(op.result.type, emitter.program.in_pairs, had.doubled)
    whole = lying(op.buffer.type, emitter.program.in_pairs, had.doubled)
    if had.half is None and not had.doubled and whole != op.buffer.type and op.result.type != op.buffer.type:
        half, offset = divmod(offset, whole.shape[1])       # `check_pairs`: they all lie in one
        had = replace(had, half=half)
    if had.half is not None:
        lies = replace(op.result.type, shape=(LANES, width))
    emitter.placed[op.result] = had
    type_ = memory_type(emitter, lies.element, lies.shape, had)
    return emitter.builder.create_tmem_subslice(type_, emitter.of(op.buffer), offset, 1)


def buffer_reinterpret(emitter: Emitter, op: Op):
    """The same columns as elements of another type of the same width; the first of them as narrower ones."""
    had = emitter.placed[op.buffer]
    type_ = lying(op.type, emitter.program.in_pairs, had.doubled)
    if op.type.element.bytes < op.buffer.type.element.bytes:
        return _narrower(emitter, op, had, type_)
    emitter.placed[op.result] = had
    if had.storage_bytes:
        return emitter.of(op.buffer)
    if had.half is not None:
        type_ = replace(op.type, shape=(LANES, op.type.shape[1]))
    result = memory_type(emitter, type_.element, type_.shape, had)
    if type_.count:
        shape = (emitter.tensor_columns // had.place.size, *type_.shape)
        result = memory_type(emitter, type_.element, shape, Placement(had.layout, shape))
    return emitter.builder.create_memdesc_reinterpret(result, emitter.of(op.buffer))


def _narrower(emitter: Emitter, op: Op, had: Placement, type_: Buffer):
    """A view with as many columns as the narrower elements take."""
    builder, element = emitter.builder, op.buffer.type.element
    if had.half is not None:
        type_ = replace(op.type, shape=(LANES, op.type.shape[1]))
    emitter.placed[op.result] = Placement(layout_of(type_), type_.shape, half=had.half, doubled=had.doubled)
    rows, columns = type_.shape
    first = memory_type(emitter, element, (rows, columns * type_.element.bytes // element.bytes), had)
    part = builder.create_tmem_subslice(first, emitter.of(op.buffer), 0, 1)
    return builder.create_memdesc_reinterpret(memory_type(emitter, type_.element, type_.shape, emitter.placed[op.result]), part)


@emits("tmem_load")
def tmem_load(emitter: Emitter, op: Op):
    """Load in the layout of the hardware; a pinned layout comes from the shape of `tcgen05.ld` that has it, else from a
    conversion behind the load."""
    want, type_, in_pairs = emitter.layouts.registers[op.result], op.result.type, emitter.program.in_pairs
    shapes = [tile_of(op.buffer.type, emitter.num_warps, atom, in_pairs) for atom in ATOMS]
    tile = next((want for shape in shapes if shape is not None and _same(shape, want)), shapes[0])
    lies = lying(op.buffer.type, in_pairs)
    if holds_scales(op.buffer.type):
        loaded, tile = table(emitter, op), None
    elif emitter.placed[op.buffer].half is not None or emitter.placed[op.buffer].doubled:
        loaded, tile = half_load(emitter, op, shapes[0]), shapes[0]
    elif lies == op.buffer.type:
        loaded = emitter.builder.create_tmem_load(emitter.types.tensor(type_, tile), emitter.of(op.buffer))
    else:
        loaded, tile = _halved_load(emitter, op, lies, shapes[0]), shapes[0]
    loaded = emitter.converted(loaded, type_, tile, want)
    return loaded if op.attrs.get("layout") is None else anchored(emitter, loaded, type_, want)


def _halved_load(emitter: Emitter, op: Op, lies: Buffer, tile):
    """The tile of 64 rows out of 128 lanes, whose halves are those of the rows."""
    builder, type_ = emitter.builder, op.result.type
    held = emitter.types.tensor(Tensor(type_.element, lies.shape), tile_of(lies, emitter.num_warps))
    halves = builder.create_tmem_load(held, emitter.of(op.buffer))
    rows, half = type_.shape[0], lies.shape[1]
    whole = _by_halves(emitter, halves, (2, rows, half), type_.shape)
    return builder.create_convert_layout(emitter.types.tensor(type_, tile), whole)


def _same(one: Linear, other: RegisterLayout) -> bool:
    return isinstance(other, Linear) and (one.registers, one.lanes, one.warps) == (other.registers, other.lanes, other.warps)


@emits("tmem_store")
def tmem_store(emitter: Emitter, op: Op):
    value, type_ = emitter.operand(op, "value"), op.value.type
    if emitter.placed[op.buffer].half is not None or emitter.placed[op.buffer].doubled:
        half_store(emitter, op, value)
        return
    lies = lying(op.buffer.type, emitter.program.in_pairs)
    if lies != op.buffer.type:
        value = _by_halves(emitter, value, (type_.shape[0], 2, lies.shape[1]), lies.shape)
        held = tile_of(lies, emitter.num_warps)
        value = emitter.builder.create_convert_layout(emitter.types.tensor(Tensor(type_.element, lies.shape), held), value)
    emitter.builder.create_tmem_store(emitter.of(op.buffer), value, emitter.builder.get_int1(True))


def _by_halves(emitter: Emitter, value, split: tuple[int, int, int], shape: tuple[int, ...]):
    """The tile split in three axes, the first two of which change places, as a tile of `shape`: no thread gives anything away."""
    builder = emitter.builder
    parts = builder.create_trans(builder.create_reshape(value, list(split), False), [1, 0, 2])
    return builder.create_reshape(parts, list(shape), False)
