"""Copies by the tensor data mover of gfx1250, also those of Triton's own descriptors.

Input: an op of `ir/ops/mover.py`, or an access by a descriptor. Output: Triton's ops for TDM, which have builder methods:

    tdm_place %d (%i, %j) clamp        amdg.update_tensor_descriptor %d add_offsets = [%i, %j] {clamp_bounds}
    tdm_load %there %tile              amdg.async_tdm_copy_global_to_local %there into %tile
    fill_descriptor_slot %slot ..      tt.make_tensor_descriptor, and stores of what it is made of
    descriptor_load %d (%i, %j)        a tile for this call; both of the above; amdg.async_tdm_wait {num = 0}; ttg.local_load

Each warp of the task copies its part, and waits for its own part; Triton's membar lets the task's warps meet behind a wait, and
before what overwrites a tile.
"""

from __future__ import annotations

from ....ir import Op
from ...triton_port.builder import mlir
from ..emitter import Emitter, emits
from ..predicates import predicate
from ..words.descriptors import make_tensor_descriptor
from .barriers import fence

_MODIFIERS = {"": "NONE", ".ca": "CA", ".cg": "CG", ".cs": "CS", ".cv": "CV"}


@emits("tdm_place")
def tdm_place(emitter: Emitter, op: Op):
    copies = mlir.value() if op.predicate is None else emitter.builder.create_int_cast(
        emitter.of(op.predicate), emitter.builder.get_int32_ty(), False)
    return _place(emitter, op.descriptor, emitter.of(op.add), emitter.of(op.bounds), copies, op.attrs.get("clamp", False))


def _place(emitter: Emitter, descriptor, add: list, bounds: list, copies, clamp: bool):
    return emitter.builder.create_update_tensor_descriptor(emitter.of(descriptor), add, bounds, copies, clamp)


@emits("tdm_load")
def tdm_load(emitter: Emitter, op: Op):
    """One copy; or a fused one, of this load and those right behind it that belong to it."""
    cache = getattr(mlir.CACHE_MODIFIER, _MODIFIERS[op.attrs.get("cache", "")])
    members = [op]

    def belongs(one: Op) -> bool:
        found = one.name == op.name and members[-1].attrs.get("more", False)
        if found:
            members.append(one)
        return found

    emitter.take(belongs)
    places, tiles = ([emitter.of(getattr(one, name)) for one in members] for name in ("descriptor", "buffer"))
    if len(members) == 1:
        emitter.builder.create_async_tdm_copy_global_to_local(places[0], tiles[0], mlir.value(), cache, op.attrs.get("warps"))
    else:
        emitter.builder.create_async_tdm_fused_copy_global_to_local(places, tiles, [one.attrs["warps"] for one in members], cache)
    return []


@emits("tdm_store")
def tdm_store(emitter: Emitter, op: Op):
    _store(emitter, emitter.of(op.descriptor), emitter.of(op.buffer))


def _store(emitter: Emitter, place, tile) -> None:
    emitter.builder.create_async_tdm_copy_local_to_global(place, tile, mlir.value(), mlir.CACHE_MODIFIER.NONE)


@emits("tdm_wait")
def tdm_wait(emitter: Emitter, op: Op):
    emitter.builder.create_async_tdm_wait(op.pending)
    return []


@emits("tdm_prefetch")
def tdm_prefetch(emitter: Emitter, op: Op):
    emitter.builder.create_tdm_prefetch(emitter.of(op.descriptor), emitter.of(op.offsets), predicate(emitter, op.predicate),
                                        op.attrs.get("speculative", False), False)


@emits("descriptor_load", assembly="gfx12")
def descriptor_load(emitter: Emitter, op: Op):
    """`desc.load(offsets)`: a copy into a tile of its own, waited for by the calling task, then read."""
    builder, tile = emitter.builder, _staging(emitter, op)
    place = _place(emitter, op.descriptor, emitter.of(op.offsets), [], mlir.value(), True)
    builder.create_async_tdm_copy_global_to_local(place, tile, mlir.value(), mlir.CACHE_MODIFIER.NONE, None)
    builder.create_async_tdm_wait(0)
    value = builder.create_local_load(emitter.mlir_type(op.result), tile)
    builder.create_local_dealloc(tile)
    return value


@emits("descriptor_store", assembly="gfx12")
def descriptor_store(emitter: Emitter, op: Op):
    """`desc.store(offsets, value)`: through a tile of its own, complete when the call returns."""
    builder, tile = emitter.builder, _staging(emitter, op)
    builder.create_local_store(tile, emitter.operand(op, "value"))
    _store(emitter, _place(emitter, op.descriptor, emitter.of(op.offsets), [], mlir.value(), True), tile)
    builder.create_async_tdm_wait(0)
    builder.create_local_dealloc(tile)


@emits("fill_descriptor_slot", assembly="gfx12")
def fill_descriptor_slot(emitter: Emitter, op: Op):
    """A descriptor is a value in registers; its slot holds what it is made of, one number of 64 bits behind the other."""
    if op.slot is not None:
        builder, wide = emitter.builder, emitter.builder.get_int64_ty()
        numbers = [builder.create_ptr_to_int(emitter.of(op.base), wide),
                   *(builder.create_int_cast(extent, wide, True) for extent in emitter.of(op.shape)), *emitter.of(op.strides)]
        for index, number in enumerate(numbers):
            builder.create_store(_entry(emitter, op, index), number, builder.get_cache_policy("none", "evict_normal"))
        fence(emitter, "gpu")
    return make_tensor_descriptor(emitter, op)


@emits("view_descriptor_slot", assembly="gfx12")
def view_descriptor_slot(emitter: Emitter, op: Op):
    """The descriptor made once more, of numbers that are read past the caches: another task may have written them."""
    builder, type_ = emitter.builder, op.result.type
    base, *rest = (builder.create_load(_entry(emitter, op, index), builder.get_cache_policy("cv", "evict_normal"), False)
                   for index in range(2 * len(type_.shape)))
    extents, steps = rest[:len(type_.shape)], rest[len(type_.shape):]
    pointer = builder.get_ptr_ty(emitter.types.element(type_.element), "global")
    return builder.create_make_tensor_descriptor(
        emitter.mlir_type(op.result), builder.create_int_to_ptr(base, pointer),
        [builder.create_int_cast(extent, builder.get_int32_ty(), True) for extent in extents], [*steps, builder.get_int64(1)],
        mlir.PADDING_OPTION.PAD_ZERO)


def _entry(emitter: Emitter, op: Op, index: int):
    """A pointer to a number in a slot."""
    builder = emitter.builder
    numbers = builder.create_bitcast(emitter.of(op.slot), builder.get_ptr_ty(builder.get_int64_ty(), "global"))
    return builder.create_addptr(numbers, builder.get_int32(index)) if index else numbers


def _staging(emitter: Emitter, op: Op):
    type_ = op.descriptor.type
    return emitter.builder.create_local_alloc(emitter.types.buffer(type_.element, type_.shape,
                                                                   emitter.layouts.descriptors[op.descriptor]))
