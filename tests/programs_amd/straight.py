"""Copies straight to LDS of tiles that do not end where a lane's piece ends, and buffers that are seen in another shape."""

from __future__ import annotations

import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def masked_buffers(a_ptr, c_ptr, n, stride, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Columns from `n` on are left out; a piece of a lane may be half in and half out."""
    tile = tlx.local_alloc((ROWS, COLS), tlx.dtype_of(a_ptr), 1)
    rows, cols = tl.arange(0, ROWS), tl.arange(0, COLS)
    at = rows[:, None] * stride + cols[None, :]
    tlx.buffer_load_to_local(tile[0], a_ptr, at, mask=cols[None, :] < n, other=0.0)
    tlx.async_load_commit_group()
    tok = tlx.async_load_wait_group(0)
    tlx.buffer_store(tlx.local_load(tile[0], tok), c_ptr, rows[:, None] * COLS + cols[None, :])


@mimw.jit
def reshaped(a_ptr, b_ptr, c_ptr, K):
    """Four tiles of 32 rows are seen as one of 128."""
    parts = tlx.local_alloc((32, 64), tl.float16, 4)
    whole = tlx.local_reinterpret(parts, tl.float16, [128, 64])
    b = tlx.local_alloc((64, 64), tl.float16, 1)
    cols, rows = tl.arange(0, 64), tl.arange(0, 32)
    for i in tl.static_range(4):
        tlx.buffer_load_to_local(parts[i], a_ptr + i * 32 * K, rows[:, None] * K + cols[None, :])
    tlx.async_load(b_ptr + cols[:, None] * 64 + cols[None, :], b[0])
    tlx.async_load_commit_group()
    tlx.async_load_wait_group(0)
    acc = tl.dot(tlx.local_load(whole), tlx.local_load(b[0]))
    tl.store(c_ptr + tl.arange(0, 128)[:, None] * 64 + cols[None, :], acc)
