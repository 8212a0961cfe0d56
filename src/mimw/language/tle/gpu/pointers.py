"""`local_ptr`: pointers into shared memory, which Triton's own loads, stores and atomics take.

Input: a buffer of a kernel's call and the indices of elements. Output: the op `local_ptr`. For example, with `row` of
64 fp16:

    tl.load(tle.gpu.local_ptr(row))             %p = local_ptr %row, shape=[64], pointee=fp16 : shared *fp16[64]
                                                %t = load %p, ..
    tle.gpu.local_ptr(row, [at])                local_ptr %row, [%at], [64], pointee=fp16

A buffer of `tle.remote` gives a `remote_ptr` behind the `local_ptr`.
"""

from __future__ import annotations

import triton.language.core as tl

from ...core import word
from ...refuse import refuse
from ...tlx import types as tlx
from ...tlx.arguments import is_int
from ..remote import remote_pointer
from ..remote_buffer import remote_buffer


@word
def local_ptr(buffer, indices=None, _semantic=None):
    """Pointers to elements of an array in shared memory.

    args:      buffer  - an array of `tle.gpu.alloc`, a `slot` of one, or a buffer of TLX; or one that is `remote`
               indices - (opt) one entry a dimension: integer tensors or scalars; without, every element. They broadcast as
                         numpy's do: rows of [32, 1] and columns of [64] give [32, 64], and a scalar goes with any shape
    returns:   a tile of pointers of the indices' shape (of the buffer's, without indices), or a scalar pointer. They are
               Triton pointers: add to them (row-major, in elements), broadcast, carry them through loops, pass them on.
    orders:    within one partition, program order; between partitions nothing
    not:       checked at run time: an index out of range is undefined (the simulator refuses it)
    errors:    ValueError
    lowers to: ttg.local_load, local_store, local_gather, local_scatter and local_atomic_scatter_rmw where it is used
    example:   x = tl.load(tle.gpu.local_ptr(tile))
    """
    if isinstance(buffer, remote_buffer):
        return remote_pointer(local_ptr(buffer.buffer, indices, _semantic=_semantic), buffer.rank, _semantic)
    if not isinstance(buffer, tlx.buffered_tensor):
        refuse(ValueError, f"tle.gpu.local_ptr: `buffer` must be a buffered_tensor, got {buffer}")
    if buffer.type.storage is not tlx.storage_kind.smem:
        refuse(ValueError, f"tle.gpu.local_ptr: `buffer` must be in shared memory, it is in {buffer.type.storage.value}")
    return pointers_into("tle.gpu.local_ptr", buffer, logical_shape(buffer), buffer.dtype, indices, _semantic)


def pointers_into(name: str, buffer, shape: tuple[int, ...], dtype, indices, semantic) -> tl.tensor:
    """The pointers that `local_ptr` gives for a buffer with the logical extents `shape`."""
    builder, handles = semantic.builder, None
    if indices is None:
        block = shape
        if block:
            tl.block_type(dtype, list(block))  # Triton's own rule for tiles: powers of two
    else:
        handles, block = _indices(name, indices, shape, semantic)
    handle = builder.record("local_ptr", buffer.handle, handles, shape, dtype.to_ir(builder)).results[0]
    pointer = tl.pointer_type(dtype, "shared")
    pointer.name = f"shared {pointer.name}"  # for Triton's messages, which do not name the space
    return tl.tensor(handle, tl.block_type(pointer, list(block)) if block else pointer)


def logical_shape(buffer) -> tuple[int, ...]:
    """The extents that indices run over; an array of TLX has its number of buffers in front."""
    if type(buffer) is tlx.buffered_tensor and buffer.num:
        return (buffer.num, *buffer.shape)
    return tuple(buffer.shape)


def _indices(name: str, indices, shape: tuple[int, ...], semantic) -> tuple[tuple, tuple[int, ...]]:
    """The indices as i32 handles, and the shape of the pointers."""
    if not isinstance(indices, (tuple, list)):
        refuse(ValueError, f"{name}: `indices` must be a tuple or list, one entry a dimension, got {indices}")
    if len(indices) != len(shape):
        refuse(ValueError, f"{name}: {len(indices)} indices for a buffer of rank {len(shape)}, {list(shape)}")
    values = [semantic.to_tensor(index) if is_int(index) else index for index in indices]
    for position, value in enumerate(values):
        if not isinstance(value, tl.tensor) or not value.dtype.is_int():
            refuse(ValueError, f"{name}: index {position} must be an integer or a tensor of integers, got "
                               f"{value.type if isinstance(value, tl.tensor) else value}")
    whole = _spread_shape(name, [tuple(value.type.shape) if value.type.is_block() else () for value in values])
    return tuple(semantic.cast(_spread(value, whole, semantic), tl.int32).handle for value in values), whole


def _spread_shape(name: str, shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape to which indices of these shapes are spread, by numpy's rule: shapes are right-aligned, missing extents are 1."""
    rank = max(map(len, shapes), default=0)
    axes = list(zip(*((1, ) * (rank - len(shape)) + shape for shape in shapes)))
    if any(len(set(axis) - {1}) > 1 for axis in axes):
        given = ", ".join(str(list(shape)) for shape in shapes)
        refuse(ValueError, f"{name}: indices of the shapes {given} do not broadcast to one shape: extents that meet, counted from "
                           "the last, are equal or 1")
    return tuple(map(max, axes))


def _spread(value: tl.tensor, whole: tuple[int, ...], semantic) -> tl.tensor:
    """An index of the shape `whole`."""
    if value.type.is_block():
        for _ in range(len(whole) - len(value.type.shape)):
            value = semantic.expand_dims(value, 0)
    return value if tuple(value.shape) == whole else semantic.broadcast_impl_shape(value, list(whole))
