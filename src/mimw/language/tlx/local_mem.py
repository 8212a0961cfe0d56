"""Buffers in on-chip memory: allocation, views, and the way between buffers and registers.

Input: the arguments of a kernel's call. Output: ops of `ir/ops/buffers.py`. For example:

    tiles = tlx.local_alloc((64, 64), tl.float16, 4)      %tiles = local_alloc buffer<fp16[64, 64] x 4>
    tlx.local_view(tiles, i)                              %tile = buffer_index %tiles, %i : buffer<fp16[64, 64]>
    tlx.local_store(tile, x)                              local_store %tile, %x
"""

from __future__ import annotations

import triton.language.core as tl

from ...errors import KernelError
from ..core import not_yet, word
from ..described import element_type
from ..refuse import refuse
from . import tmem
from .alias import storage_alias_spec_type_class
from .arguments import handle_of, index_handle, is_int, one_buffer, positive_int, row_as_it_is, single_buffer
from .layouts import permuted, shared_layout_encoding
from .require import register_layout
from .types import async_token, buffered_tensor, buffered_tensor_type, clc_response, mbarrier, storage_kind

__all__ = ["local_alloc", "local_load", "local_slice", "local_store", "local_trans", "local_view"]


@word
def local_alloc(shape: tl.constexpr, dtype: tl.constexpr, num: tl.constexpr, storage: tl.constexpr = storage_kind.smem,
                reuse: buffered_tensor | storage_alias_spec_type_class | None = None, layout: tl.constexpr = None,
                _semantic=None) -> buffered_tensor:
    """Reserve `num` buffers in on-chip memory; their contents are undefined.

    args:      shape   - extents of one buffer, any positive ints (docs/EXTENTS.md lists those that take more than powers of two)
               dtype   - element type
               num     - how many; buffer i starts at byte i * prod(shape) * size_of(dtype)
               storage - smem; or tmem, tensor memory (sm_100): (64 or 128 rows, columns) of 8, 16 or 32 bits; 8-bit integers
                         are tables of block scales. A CTA has 512 columns of 32 bits, else OutOfTensorMemory with the sum
               reuse   - (opt) a storage alias spec, as one of the arrays that share it; or another buffer, whose start
                         address this array gets (the memory behind both is as large as the larger one)
               layout  - (opt) a shared layout, then fixed; by default the solver picks it to suit the uses
    errors:    ValueError for extents or a `num` that are no ints > 0, another dtype or storage, and a `reuse` that is no buffer
               or spec of the same storage; TypeError for a `layout` that is no shared layout;
               NotYet for a layout that this release cannot make; for tmem AssertionError on chips without tensor memory,
               NotImplementedError with a `layout`
    not:       zeroed; never overlaid with buffers that other tasks, copies or CTAs still use
    lowers to: ttg.local_alloc, an array as a leading dimension; columns of the kernel's one ttng.tmem_alloc
    example:   A = tlx.local_alloc((BM, BK), tl.float16, STAGES)
               acc = tlx.local_alloc((128, 64), tl.float32, 1, tlx.storage_kind.tmem)
    """
    shape = shape if isinstance(shape, tuple) else (shape, ) if is_int(shape) else tuple(shape)
    positive_int("local_alloc: num", num)
    for extent in shape:
        positive_int("local_alloc: each extent of shape", extent)
    if not shape:
        refuse(ValueError, "local_alloc: shape must have at least one dimension")
    if not isinstance(dtype, tl.dtype) or dtype.is_block():
        refuse(ValueError, f"local_alloc: dtype must be an element type such as tl.float16, got {dtype}", mend=element_type(dtype))
    if not isinstance(storage, storage_kind):
        refuse(ValueError, f"local_alloc: storage must be a tlx.storage_kind, got {storage!r}")
    if storage is storage_kind.smemCluster:
        refuse(ValueError, "local_alloc: smemCluster names another CTA's memory; only remote_view gives it")
    _check_reuse(reuse, storage)
    if layout is not None:
        if storage is storage_kind.tmem:
            refuse(NotImplementedError, "local_alloc: `layout` is not supported for tmem")
        if not isinstance(layout, shared_layout_encoding):
            refuse(TypeError, f"`layout` must be a tlx.shared_layout_encoding, got {type(layout).__name__}")
    if storage is storage_kind.tmem:
        tmem.check_allocation(shape, dtype, _semantic)
    pinned = None if layout is None else layout.to_ir(shape, dtype.primitive_bitwidth)
    if layout is not None and pinned is None:
        raise not_yet(_semantic, f"local_alloc(layout={type(layout).__name__})")
    type_ = buffered_tensor_type(dtype, shape, num, storage, layout)
    builder = _semantic.builder
    return type_.value(builder.record("local_alloc", type_.to_ir(builder), handle_of(reuse), layout=pinned).results[0])


def _check_reuse(reuse, storage: storage_kind) -> None:
    if isinstance(reuse, buffered_tensor):
        if reuse.type.storage is not storage:
            refuse(ValueError, f"reuse tensor has different storage: {reuse.type.storage.value}, not {storage.value}")
    elif isinstance(reuse, storage_alias_spec_type_class):
        if reuse.storage is not storage:
            refuse(ValueError, f"storage_alias_spec storage ({reuse.storage.value}) doesn't match "
                               f"local_alloc storage ({storage.value})")
    elif reuse is not None:
        refuse(ValueError, f"reuse must be a buffered_tensor or storage_alias_spec, got {type(reuse).__name__}")


@word
def local_view(buf, idx, _semantic=None):
    """One element of an array of buffers or barriers; `buf[idx]` is the same.

    args:      buf - a buffer or barrier array; or a single buffer, which loses its leading dimension (a buffer of rank 1
                     gives a view of one element)
               idx - int or integer scalar; out of range is undefined, and refused when it is known
    errors:    KernelError for anything but an array or a buffer, and for an index that is no integer
    not:       a copy: the view shares the memory
    lowers to: ttg.memdesc_index
    example:   tile = tlx.local_view(A, i % STAGES)     # A[i % STAGES]
    """
    if not isinstance(buf, (buffered_tensor, mbarrier, clc_response)):
        refuse(KernelError, f"local_view takes a buffered_tensor or an mbarrier, got {buf}")
    return buf.at(idx, _semantic)


@word
def local_slice(buf, offset, shape: tl.constexpr, _semantic=None) -> buffered_tensor:
    """A box of one buffer, as a view.

    args:      buf    - one buffer
               offset - one int or integer scalar a dimension, a multiple of the box's extent there. Of tensor memory constants: all
                        rows, columns as `subslice` has them
               shape  - extents of the box
    errors:    KernelError for a `buf` that is not one buffer, a box that is known to be outside it or to begin at no multiple of
               its extent, or an offset that is no integer; ValueError for another rank or extents that are no ints > 0
    not:       checked on the GPU: out of range or misaligned is undefined; the simulator reports both as OutOfBounds
    lowers to: ttg.memdesc_subslice
    example:   upper = tlx.local_slice(A[0], [0, 0], [32, 64])
    """
    buf = one_buffer("local_slice", "buf", buf)
    if len(offset) != len(buf.shape) or len(shape) != len(buf.shape):
        refuse(ValueError, f"local_slice: offset {list(offset)} and shape {list(shape)} must have the rank of {buf}")
    if buf.type.storage is storage_kind.tmem:
        if not is_int(offset[0]) or offset[0] != 0 or shape[0] != buf.shape[0]:
            refuse(KernelError, f"local_slice: a slice of tensor memory has all {buf.shape[0]} rows; got {shape[0]} from "
                                f"{offset[0]}")
        return tmem.columns(buf, offset[1], shape[1], "local_slice", _semantic)
    offsets = []
    for axis, (start, size, extent) in enumerate(zip(offset, shape, buf.shape, strict=True)):
        positive_int("local_slice: each extent of shape", size)
        if size > extent or is_int(start) and not 0 <= start <= extent - size:
            refuse(KernelError, f"local_slice: {size} elements from {start} are outside the {extent} of dimension {axis}")
        if is_int(start) and start % size:
            refuse(KernelError, f"local_slice: {size} elements from {start} of dimension {axis}: a box begins at a multiple of its "
                                "extent", mend="slice smaller boxes, or read elements by tlx.local_gather")
        offsets.append(start if is_int(start) else index_handle("local_slice: each offset", start, _semantic))
    type_ = buf.type.with_(shape=tuple(shape))
    return type_.value(_semantic.builder.record("buffer_slice", buf.handle, tuple(offsets), tuple(shape)).results[0])


@word
def local_trans(buf, dims: tl.constexpr = (1, 0), _semantic=None) -> buffered_tensor:
    """A permuted view of one buffer: dimension i of the result is dimension `dims[i]` of `buf`. No data moves.

    args:      buf  - one buffer
               dims - a permutation of its dimensions, else ValueError
    errors:    KernelError for a `buf` that is not one buffer; ValueError for other dims, and for a layout that has no
               permuted form; AssertionError for a buffer outside shared memory
    lowers to: ttg.memdesc_trans
    example:   acc = tlx.async_dot(q[0], tlx.local_trans(k[slot]))
    """
    buf = single_buffer("local_trans", "buf", buf, _semantic)
    rank = len(buf.shape)
    if len(dims) != rank:
        refuse(ValueError, f"local_trans: dims {tuple(dims)} has {len(dims)} entries, but the buffer has rank {rank}")
    if sorted(dims) != list(range(rank)):
        refuse(ValueError, f"local_trans: dims {tuple(dims)} is not a permutation of {tuple(range(rank))}")
    dims = tuple(dims)
    layout = None if buf.type.layout is None else buf.type.layout.make_permute(dims)
    type_ = buf.type.with_(shape=tuple(buf.shape[axis] for axis in dims), layout=layout, order=permuted(buf.type.order, dims))
    return type_.value(_semantic.builder.record("buffer_trans", buf.handle, dims).results[0])


@word
def local_load(src, token=None, layout: tl.constexpr = None, relaxed: tl.constexpr = False,
               rematerialize_coordinates: tl.constexpr = False, rematerialize_coordinates_group: tl.constexpr = None,
               _semantic=None) -> tl.tensor:
    """Read one buffer into registers.

    args:      src    - one buffer, in shared or tensor memory; the result has its shape and dtype. From tensor memory the data are
                        there when the call returns; the task has 4, 8 or 16 warps
               token  - (opt) of `async_load_wait_group`: the read comes after that wait
               layout - (opt) a register layout to load in, pinned: `tlx.layout`, or `amd_mfma_layout` and its operands, as
                        MFMA takes them
               relaxed, rematerialize_coordinates(_group) - AMD scheduling hints, no effect elsewhere
    orders:    after this task's earlier writes to the buffer; against other tasks only through barriers
    errors:    KernelError for a `src` that is not one buffer or another token; TypeError for another `layout`; TargetError
               and LayoutConflict for one that the chip, the task or the tile does not have; NotYet for one of several CTAs
    lowers to: ttg.local_load; ttng.tmem_load and its wait
    example:   x = tlx.local_load(A[slot])
    """
    src = one_buffer("local_load", "src", row_as_it_is(src, _semantic))
    if token is not None and not isinstance(token, async_token):
        refuse(KernelError, f"local_load: `token` must be an async_token, got {token}")
    pinned = None if layout is None else register_layout("local_load", layout, _semantic)
    if src.type.storage is storage_kind.tmem:
        handle = _semantic.builder.record("tmem_load", src.handle, layout=pinned).results[0]
    else:
        handle = _semantic.builder.record("local_load", src.handle, handle_of(token), layout=pinned).results[0]
    return tl.tensor(handle, tl.block_type(src.dtype, list(src.shape)))


@word
def local_store(dst, src, _semantic=None) -> None:
    """Write a tile into one buffer, through the generic proxy.

    args:      dst - one buffer
               src - block tensor of its shape and dtype
    orders:    before this task's later reads of the buffer; against other tasks only through barriers
    errors:    KernelError for a `dst` that is not one buffer, or a `src` of another shape or dtype
    not:       before a TMA store or another task's MMA; that takes fence("async_shared")
    lowers to: ttg.local_store; ttng.tmem_store and its wait
    example:   tlx.local_store(A[slot], x)
    """
    dst = one_buffer("local_store", "dst", dst)
    if not isinstance(src, tl.tensor) or not src.type.is_block():
        refuse(KernelError, f"local_store: `src` must be a block tensor, got {src}")
    if tuple(src.type.shape) != dst.shape:
        refuse(KernelError, f"local_store: the tile has shape {list(src.type.shape)}, the buffer {list(dst.shape)}")
    same_dtype("local_store", src, dst, _semantic)
    _semantic.builder.record("tmem_store" if dst.type.storage is storage_kind.tmem else "local_store", dst.handle, src.handle)


def same_dtype(name: str, tile: tl.tensor, buffer: buffered_tensor, semantic) -> None:
    """An error unless the tile's elements are the buffer's."""
    if tile.dtype != buffer.dtype:
        refuse(KernelError, f"{name}: the tile holds {tile.dtype}, the buffer {buffer.dtype}",
                            mend=f"convert first: `src.to(tl.{_spelled(buffer.dtype)})`")


def _spelled(dtype: tl.dtype) -> str:
    names = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64", "fp8e5": "float8e5",
             "fp8e4nv": "float8e4nv"}
    return names.get(dtype.name, dtype.name)


