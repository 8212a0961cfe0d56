"""Kernels that do with a buffer of odd extents what there is no way for.

Shapes: R x C, fp16; one program. The mistake of each is the op that its name says: it is refused.

Input: nothing. Output: `REFUSED`: kernel, arguments, compile-time values and what the error says. For example:

    kernel, args, meta, said = REFUSED["a loop hands it on"]
"""

import numpy as np
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from mimw import TensorDescriptor


@mimw.jit
def carried(y_desc, n, R: tl.constexpr, C: tl.constexpr):
    tiles = tlx.local_alloc((R, C), tl.float16, 2)
    tile = tiles[0]
    for i in range(n):
        tlx.async_descriptor_store(y_desc, tile, [0, 0])
        tile = tiles[i % 2]
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def cut_through(y_desc, n, R: tl.constexpr, C: tl.constexpr):
    tile = tlx.local_alloc((R, C), tl.float16, 1)
    part = tlx.local_load(tlx.local_slice(tile[0], [0, 0], [R, 16]))
    tlx.local_store(tlx.local_slice(tile[0], [0, 16], [R, 16]), part)
    tlx.async_descriptor_store(y_desc, tile[0], [0, 0])
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def rows_of_four(y_desc, n, R: tl.constexpr, C: tl.constexpr):
    """Rows of a number that is no multiple of 8: TMA could, tensor cores and the swizzle could not."""
    tile = tlx.local_alloc((R, C), tl.float16, 1)
    tlx.async_descriptor_store(y_desc, tile[0], [0, 0])
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def in_padded_memory(y_desc, n, R: tl.constexpr, C: tl.constexpr):
    """A word of TLX's would take the memory behind this buffer, which is larger, for the buffer."""
    tile = tle.gpu.alloc([R, C], tl.float16)
    tlx.local_store(tile, tl.zeros((R, C), tl.float16))


@mimw.jit
def picked_in_storage(y_desc, n, R: tl.constexpr, C: tl.constexpr):
    """Elements of pieces are found in a power of two of them, for which shared storage has no room."""
    storage = tlx.storage_alias_spec(storage=tlx.storage_kind.smem)
    tile = tlx.local_alloc((R, C), tl.float16, 1, reuse=storage)
    other = tlx.local_alloc((R, C), tl.float16, 1, reuse=storage)
    storage.set_buffer_overlap(tlx.reuse_group(tile, other, group_type=tlx.reuse_group_type.shared))
    rows = tlx.local_gather(tile[0], tl.zeros((R, C), tl.int32), 1)
    tlx.local_store(other[0], rows)
    tlx.async_descriptor_store(y_desc, tile[0], [0, 0])
    tlx.async_descriptor_store(y_desc, other[0], [0, 0])
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def whole_and_cut(y_desc, n, R: tl.constexpr, C: tl.constexpr):
    """A buffer of powers of two lies in pieces, since 48 rows of it are copied."""
    tiles = tlx.local_alloc((2 * C, C), tl.float16, 2)
    tlx.async_descriptor_store(y_desc, tlx.local_slice(tiles[0], [0, 0], [R, C]), [0, 0])
    tile = tiles[0]
    for i in range(n):
        tlx.local_store(tile, tl.zeros((2 * C, C), tl.float16))
        tile = tiles[i % 2]
    tlx.async_descriptor_store_wait(0)


def refused(kernel, said, rows=176, columns=64):
    y = np.zeros((rows, columns), np.float16)
    return kernel, (TensorDescriptor.from_tensor(y, [rows, columns]), 3), dict(R=rows, C=columns), said


REFUSED = {
    "a loop hands it on": refused(carried, "a loop or a branch passes on"),
    "a box that cuts pieces": refused(cut_through, "16 rows x 64 columns of which it consists"),
    "rows of four": refused(rows_of_four, "multiple of 8", 12, 64),
    "memory of TLE": refused(in_padded_memory, "in memory of the extents", 12, 40),
    "elements in shared storage": refused(picked_in_storage, "of which threads pick elements, in storage that is shared"),
    "a loop hands all of it on": refused(whole_and_cut, r"fp16\[128, 64\].*a loop or a branch passes on", 48, 64),
    "columns of eight": refused(rows_of_four, "multiple of 32 bytes", 16, 72),
}
