"""A tile that is copied past the registers into LDS, by AMD's buffer words or by pointers, and layouts of its buffer.

Shapes: a tile of 64 x 64 elements, rows `stride` apart, and one of so many rows for the results; one program. `MASK` cuts rows or
columns from number `n` on. The kernel is right.
"""

from __future__ import annotations

import triton.language as tl

import mimw
import mimw.tlx as tlx

ANY_DIRECT = r"(buffer_load\w* .* lds$|global_load_(async_to_)?lds)"
ROWS_REORDERED = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [4, 0], [8, 0], [16, 0], [1, 0], [2, 0], [32, 0]]


def padded(interval, bases=None):
    if bases is None:
        return tlx.padded_shared_layout_encoding.with_identity_for([[interval, 16]], [64, 64], [1, 0])
    return tlx.padded_shared_layout_encoding([[interval, 16]], bases, [], [64, 64])


@mimw.jit
def copied(x, y, stride, n, BASE: tl.constexpr, LAYOUT: tl.constexpr, MASK: tl.constexpr, OTHER: tl.constexpr):
    tile = tlx.local_alloc((64, 64), tlx.dtype_of(x), 2, layout=LAYOUT)
    rows, cols = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    at = rows * stride + cols
    mask = None if MASK is None else (rows < n if MASK == "rows" else cols < n)
    if BASE:
        tlx.buffer_load_to_local(tile[1], x, at, mask=mask, other=OTHER)
    else:
        tlx.async_load(x + at, tile[1], mask=mask, other=OTHER)
    tlx.async_load_commit_group()
    tlx.async_load_wait_group(0)
    tl.store(y + rows * 64 + cols, tlx.local_load(tile[1]))
