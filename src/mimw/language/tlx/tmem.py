"""Buffers in tensor memory: what their allocation checks, views of their columns, and copies from shared memory.

Input: the arguments of a kernel's call. Output: the ops of shared memory's buffers, on buffers in the space "tmem". For example:

    acc = tlx.local_alloc((128, 256), tl.float32, 2, tmem)      %acc = local_alloc buffer<fp32[128, 256] x 2 in tmem>
    tlx.subslice(acc[0], 64, 64)                                %half = buffer_slice %acc.0, (0, 64), (128, 64)
"""

from __future__ import annotations

import triton.language.core as tl

from ...errors import KernelError
from ...ir.tensor_memory import LANES, ROWS, is_packed, is_repeated
from ..core import word
from ..refuse import refuse
from .arguments import is_int, needs_tensor_memory, one_buffer
from .types import buffered_tensor, storage_kind

__all__ = ["subslice", "tmem_copy"]

_BYTES = (tl.int8, tl.uint8)
_TILE_ROWS, _TILE_BYTES = 128, 32       # of one tcgen05.cp.128x256b
_SCALE_ROWS = (32, 64, 128, 256, 512)


def check_allocation(shape: tuple[int, ...], dtype: tl.dtype, semantic) -> None:
    """An error unless tensor memory holds buffers of that shape and type."""
    needs_tensor_memory("tmem", semantic)
    if len(shape) != 2:
        refuse(ValueError, f"local_alloc: a buffer in tensor memory has rank 2 (lanes and columns), got shape {list(shape)}",
               mend="give a vector of one value a row the shape (rows, 1)")
    rows, columns = shape
    if dtype.primitive_bitwidth < 8 or dtype.primitive_bitwidth > 32:
        refuse(ValueError, f"local_alloc: tensor memory holds elements of 8, 16 or 32 bits, got {dtype}")
    scales = dtype in _BYTES
    allowed = _SCALE_ROWS if scales else ROWS
    if rows not in allowed:
        what = "a table of scales (8-bit integers)" if scales else "a buffer in tensor memory"
        refuse(ValueError, f"local_alloc: {what} has {', '.join(map(str, allowed[:-1]))} or {allowed[-1]} rows, got {rows}")
    if columns & (columns - 1) and scales and rows != LANES:
        refuse(ValueError, f"local_alloc: a table of scales in tensor memory has a power of two of columns, got {columns}",
               mend="allocate the next power of two, and take a subslice of it")


def columns(buf: buffered_tensor, offset, size, name: str, semantic) -> buffered_tensor:
    """Columns [offset, offset + size) of one buffer in tensor memory."""
    rows, extent = buf.shape
    if not is_int(offset):
        refuse(KernelError, f"{name}: columns of tensor memory are cut at a constexpr offset, got {offset}",
               mend="allocate an array of narrower buffers and index it by the run-time number")
    if not is_int(size) or size <= 0 or size & (size - 1):
        refuse(ValueError, f"{name}: the size must be a positive power of two, known at compile time, got {size!r}")
    if not 0 <= offset <= extent - size:
        refuse(KernelError, f"{name}: {size} columns from {offset} are outside the {extent} of {buf}")
    width = buf.dtype.primitive_bitwidth
    if (offset * width) % 32 or (size * width) % 32:
        refuse(KernelError, f"{name}: a column of tensor memory has 32 bits, so {buf.dtype} is cut at multiples of {32 // width} "
                            f"elements; got offset {offset} and size {size}")
    type_ = buf.type.with_(shape=(rows, size))
    return type_.value(semantic.builder.record("buffer_slice", buf.handle, (0, offset), (rows, size)).results[0])


@word
def subslice(buf, offset: tl.constexpr, size: tl.constexpr, _semantic=None) -> buffered_tensor:
    """Columns [offset, offset + size) of one buffer in tensor memory, as a view.

    args:      buf    - one buffer in tensor memory, of shape (rows, n)
               offset - the first column, in elements; a whole number of 32-bit columns
               size   - how many elements of each row, a power of two
    pairs:     in a kernel with products of pairs of CTAs a row of 64 has its right half in another lane: columns of one half only,
               and no accumulator; a load hands them from the two warps that reach them to all
    not:       a copy: the view shares the memory; of shared memory (`local_slice` takes both)
    errors:    KernelError for anything but one buffer in tensor memory, for columns outside it or parts of a column, and for
               columns of both halves as above; ValueError for a size that is no power of two; NotYet for columns of one half
               that an `if` or a loop passes on
    lowers to: ttng.tmem_subslice
    example:   left = tlx.subslice(acc[0], 0, 64)
    """
    buf = one_buffer("subslice", "buf", buf)
    if buf.type.storage is not storage_kind.tmem:
        refuse(KernelError, f"subslice cuts buffers in tensor memory, got {buf}", mend="use tlx.local_slice")
    return columns(buf, offset, size, "subslice", _semantic)


@word
def tmem_copy(src, dst, _semantic=None) -> None:
    """Start a copy of one buffer in shared memory to one in tensor memory, by one thread of the task.

    args:      src - one buffer in shared memory; for a tile of the shape and dtype of `dst`; for a table of scales, bytes in
                     packed form: blocks of 128 rows x 4 columns, in each the groups of 32 rows side by side
               dst - one buffer in tensor memory: a tile of 128 rows; or a table of scales (r, c) of 8-bit integers, r a multiple
                     of 128 and c of 4, of which `src` has the shape [r/128, c/4, 32, 16], [r/128, c/4, 32, 4, 4],
                     [1, r/128, c/4, 2, 256], [r/128, c/4, 2, 256] or [r/128, (c/4)*512]; or, of 128 rows and c a multiple of
                     16, [32*(c/16), 16]: 32 rows, which each group of 32 rows of `dst` gets
    orders:    in order with the task's other tensor-core work, so a product behind it reads what it brings; for all others
               done at the arrival of a `tcgen05_commit`, or of the mBarriers of a later product. `src` must not be
               overwritten before that. What another task stored to `src` needs a `fence("async_shared")` there
    pairs:     in a kernel with products of pairs of CTAs the even CTA copies in both, each CTA's `src` to its own `dst`, whether or
               not the odd one calls it, too; done in both at the arrival of a `tcgen05_commit(two_ctas=True)`. What lies in
               the odd CTA's `src` must be there when the even CTA calls it
    errors:    AssertionError on chips without tensor memory, and for scales in another form; KernelError for anything but one
               buffer in shared and one in tensor memory, and for tiles of unequal shapes or dtypes; ValueError for one of 64 rows,
               or of rows under 32 bytes
    lowers to: ttng.tmem_copy: tcgen05.cp.32x128b.warpx4, of tiles tcgen05.cp.128x256b; for pairs with .cta_group::2
    example:   tlx.tmem_copy(scales[0], table[0])
               tlx.tcgen05_commit(copied[0])
    """
    needs_tensor_memory("tmem_copy", _semantic)
    src, dst = one_buffer("tmem_copy", "src", src), one_buffer("tmem_copy", "dst", dst)
    for name, buffer, storage in (("src", src, storage_kind.smem), ("dst", dst, storage_kind.tmem)):
        if buffer.type.storage is not storage:
            refuse(KernelError, f"tmem_copy: `{name}` must lie in {'shared' if name == 'src' else 'tensor'} memory, got {buffer}",
                   mend="tlx.local_load and tlx.local_store move between the two by registers")
    if dst.dtype in _BYTES:
        _check_packed(src, dst)
    elif src.shape != dst.shape or src.dtype != dst.dtype:
        refuse(KernelError, f"tmem_copy: `src` and `dst` must be of one shape and dtype, got {src} and {dst}")
    elif dst.shape[0] != _TILE_ROWS:
        refuse(ValueError, f"tmem_copy: a tile has {_TILE_ROWS} rows, got {dst.shape[0]}", mend="use tlx.local_store")
    elif dst.shape[1] * dst.dtype.primitive_bitwidth < 8 * _TILE_BYTES:
        refuse(ValueError, f"tmem_copy: rows of a tile have {_TILE_BYTES} bytes at least, those of one tcgen05.cp.128x256b, got "
                           f"{dst.dtype}{list(dst.shape)}", mend="use tlx.local_store")
    _semantic.builder.record("tmem_copy", src.handle, dst.handle, None)


def _check_packed(src: buffered_tensor, dst: buffered_tensor) -> None:
    rows, columns = dst.shape
    is_bytes = src.dtype in _BYTES or src.dtype == tl.float8e4nv
    if not is_bytes or not (is_packed(src.shape, rows, columns) or is_repeated(src.shape, rows, columns)):
        down, across = (f"{rows // 128}", f"{columns // 4}") if rows % 128 == 0 and columns % 4 == 0 else ("r/128", "c/4")
        refuse(AssertionError, f"scale tmem_copy requires an explicit packed i8 SMEM shape: for scales {[rows, columns]} "
                               f"[{down}, {across}, 32, 16], got {src.dtype}{list(src.shape)}",
               mend="the rows are a multiple of 128, the columns of 4; its docstring lists the forms")
