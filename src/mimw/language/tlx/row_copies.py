"""Copies of rows that a tile of row numbers picks, by tensor descriptors (TMA), on sm_90 and newer. Beside the published TLX.

Input: the arguments of a kernel's call. Output: ops `tma_gather` and `tma_scatter`. For example:

    tlx.async_descriptor_gather(desc, tile, rows, 0, full)       tma_gather %desc, %rows, %0, %full, %tile
    tlx.async_descriptor_scatter(desc, tile, rows, 0)            tma_scatter %desc, %rows, %0, %tile
"""

from __future__ import annotations

import triton.language.core as tl

from ...errors import KernelError
from ..core import word
from ..descriptor_methods import needs_descriptor
from ..refuse import refuse
from .arguments import index_handle, needs_hopper, predicate_handle, single_barrier, single_buffer

__all__ = ["async_descriptor_gather", "async_descriptor_scatter"]

_LEAST_ROWS = 8
_BITS = (8, 16, 32)


@word
def async_descriptor_gather(desc, result, x_offsets, y_offset, barrier, pred=None, _semantic=None) -> None:
    """Start copying rows of `desc` into `result`: row i of the tile is the tensor's row `x_offsets[i]` from `y_offset` on.

    args:      desc      - tensor descriptor of a 2-D tensor with block_shape [1, BLOCK_Y], BLOCK_Y at least 32 bytes; it copies
                           nothing but picked rows
               result    - one buffer of shape (BLOCK_X, BLOCK_Y) and the descriptor's dtype, of 8, 16 or 32 bits; it lies as if
                           the whole tile had been copied by TMA, so async_dot takes it
               x_offsets - int32 tile of BLOCK_X >= 8 row numbers, in any order, also repeated
               y_offset  - int or i32 scalar: the first column, a multiple of 16 bytes
               barrier   - mbarrier (or array of one) that completes BLOCK_X * BLOCK_Y * size_of(dtype) bytes; expect them first
               pred      - (opt) scalar; nothing happens when false
    returns:   nothing; rows and columns outside of the tensor, negative ones too, read the padding value, and count as bytes
    orders:    the rows -> what a task does after waiting on `barrier`
    errors:    KernelError for shapes that cannot be; IllegalCopy for a `y_offset` that is no multiple of 16 bytes, when compiling
               if it is known then, else from the simulator. AssertionError for a buffer outside shared memory; TargetError
               below sm_90, NotImplementedError on Ascend; on AMD copies by pointers
    not:       asynchronous on sm_90 and sm_120 if the rows are narrower than 128 bytes: there the task waits for them and puts
               them in their places itself
    lowers to: sm_100a, sm_103a: ttng.async_tma_gather, PTX cp.async.bulk.tensor.2d .tile::gather4, four rows an instruction;
               sm_90a, sm_120a: PTX cp.async.bulk.tensor.2d, one for each row and 128 bytes, which the task's warps share out
    example:   tlx.async_descriptor_gather(desc, tile[0], rows, 0, full[0])
    """
    needs_hopper("async_descriptor_gather", _semantic, mapped="tma")
    rows, column = _picks("async_descriptor_gather", desc, "result", result, x_offsets, y_offset, _semantic)
    handle = single_barrier("async_descriptor_gather", barrier, _semantic)
    predicate = predicate_handle("async_descriptor_gather", pred, _semantic)
    _semantic.builder.record("tma_gather", desc.handle, rows, column, handle, result.handle, predicate)


@word
def async_descriptor_scatter(desc, source, x_offsets, y_offset, _semantic=None) -> None:
    """Start copying the rows of `source` to rows of `desc`: row i goes to the tensor's row `x_offsets[i]`, from `y_offset` on.

    args:      desc      - tensor descriptor of a 2-D tensor with block_shape [1, BLOCK_Y], BLOCK_Y at least 32 bytes; it copies
                           nothing but picked rows
               source    - one buffer of shape (BLOCK_X, BLOCK_Y) and the descriptor's dtype, of 8, 16 or 32 bits
               x_offsets - int32 tile of BLOCK_X >= 8 row numbers, none negative; rows behind the tensor's end are left out
               y_offset  - int or i32 scalar: the first column, a multiple of 16 bytes, not negative; columns behind the tensor's
                           edge are left out
    errors:    KernelError for shapes that cannot be; IllegalCopy (an illegal instruction) for a `y_offset` that is negative or no
               multiple of 16 bytes, when compiling if it is known then, else from the simulator, as for negative row numbers;
               AssertionError for a buffer outside shared memory; TargetError below sm_90, NotImplementedError on Ascend. From the
               simulator a DataRace for two rows with different bytes for one place: which of them stays is open. Equal bytes are
               no race.
    not:       after generic writes to `source`: fence("async_shared") first. Do not overwrite `source` before
               `async_descriptor_store_wait`, for which a scatter is one store, in every thread of the task
    lowers to: as async_descriptor_gather: ttng.async_tma_scatter, PTX .tile::scatter4; row copies in one bulk group a thread
    example:   tlx.async_descriptor_scatter(desc, tile[0], rows, 0)
               tlx.async_descriptor_store_wait(0)
    """
    needs_hopper("async_descriptor_scatter", _semantic, mapped="tma")
    rows, column = _picks("async_descriptor_scatter", desc, "source", source, x_offsets, y_offset, _semantic)
    _semantic.builder.record("tma_scatter", desc.handle, rows, column, source.handle)


def _picks(name: str, desc, parameter: str, buffer, x_offsets, y_offset, semantic) -> tuple:
    """The row numbers and the column as handles, once all arguments fit each other."""
    check_row_descriptor(KernelError, name, desc)
    rows = row_numbers(KernelError, name, x_offsets, semantic)
    buffer = single_buffer(name, parameter, buffer, semantic)
    wanted = [int(rows.type.shape[0]), int(desc.block_shape[1])]
    if list(buffer.shape) != wanted:
        refuse(KernelError, f"{name}: the buffer has shape {list(buffer.shape)}; {wanted[0]} row numbers and rows of {wanted[1]} "
                            f"elements make {wanted}", mend="one row of the buffer for each row number, as wide as the "
                            "descriptor's block")
    if buffer.dtype != desc.dtype:
        refuse(KernelError, f"{name}: the buffer holds {buffer.dtype}, the descriptor {desc.dtype}",
               mend="allocate with tlx.dtype_of(desc)")
    return rows.handle, index_handle(f"{name}: `y_offset`", y_offset, semantic)


def check_row_descriptor(kind: type[Exception], name: str, desc) -> None:
    """An error of that kind unless `desc` can copy picked rows."""
    needs_descriptor(kind, name, desc)
    block, bits = [int(extent) for extent in desc.block_shape], desc.dtype.primitive_bitwidth
    if len(block) != 2 or block[0] != 1:
        refuse(kind, f"{name}: the descriptor's block is {block}, and rows are copied by blocks of one row, [1, BLOCK_Y]",
               mend=f"describe the tensor with block_shape=[1, {block[-1]}]")
    if bits not in _BITS:
        refuse(kind, f"{name}: the descriptor's elements have {bits} bits, and rows of 8, 16 or 32 bits are copied",
               mend="see the tensor as one of 32-bit elements with twice as many columns")
    least = 32 // bits * 8
    if block[1] < least:
        refuse(kind, f"{name}: a row of the descriptor's block is {block[1]} elements x {bits // 8} bytes = "
                     f"{block[1] * bits // 8} bytes, and rows have 32 bytes at least", mend=f"make BLOCK_Y {least} or more")


def row_numbers(kind: type[Exception], name: str, x_offsets, semantic) -> tl.tensor:
    """`x_offsets` as an int32 tile, or an error of that kind unless they are eight or more integers of at most 32 bits."""
    if not isinstance(x_offsets, tl.tensor) or not x_offsets.type.is_block() or not x_offsets.dtype.is_int():
        refuse(kind, f"{name}: the row numbers must be a 1-D int32 tile, got "
                     f"{x_offsets.type if isinstance(x_offsets, tl.tensor) else x_offsets}")
    if len(x_offsets.type.shape) != 1 or x_offsets.dtype.primitive_bitwidth > 32 or x_offsets.dtype == tl.int1:
        refuse(kind, f"{name}: the row numbers must be a 1-D int32 tile, got {x_offsets.type}",
               mend="convert them: rows.to(tl.int32)" if len(x_offsets.type.shape) == 1 else "flatten them by tl.reshape")
    count = int(x_offsets.type.shape[0])
    if count < _LEAST_ROWS:
        refuse(kind, f"{name}: {count} row numbers, and a tile has {_LEAST_ROWS} rows at least",
               mend=f"pad the row numbers to {_LEAST_ROWS}, for instance with the tensor's number of rows, which is outside")
    return semantic.cast(x_offsets, tl.int32)
