"""Rotary position embedding of one tensor or of two in one launch: plain Triton, each number read once and written once.

Input: x [BATCH, HEADS, LENGTH, DIM], cos and sin [BATCH or 1, TABLE, HALF]. Output: y of x's shape, which may be x. For example:

    kernel, grid, args, meta = arguments((q, k), (q_out, k_out), cos, sin)
    kernel[grid](*args, **meta)

A program takes POSITIONS x HEADS_EACH rows, whose angles it reads once for all its heads. A pair of numbers (a, b) turns by its
angle: (a cos - b sin, a sin + b cos). The thread that writes a number has read its pair before, so y may lie where x does.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def angles(table_ptr, table_batch, table_row, batch, rows, columns, inside):
    """cos or sin [1, POSITIONS, HALF]: of rows outside of the table NaN, as nobody can raise an error here."""
    table_ptr += batch * table_batch + rows * table_row
    return tl.load(table_ptr + columns, mask=inside, other=float("nan")).to(tl.float32)[None]


@mimw.jit
def turned(x_ptr, y_ptr, x_batch, x_head, x_at, y_batch, y_head, y_at, HEADS, LENGTH, DIM, half, cos, sin, batch, first, positions,
           HEADS_EACH: tl.constexpr, HALF: tl.constexpr, REST: tl.constexpr, INTERLEAVED: tl.constexpr):
    """The rows of HEADS_EACH heads from number `first` on; with REST the columns that do not turn are copied."""
    heads = (first + tl.arange(0, HEADS_EACH))[:, None, None]
    places = positions[None, :, None]
    there = (heads < HEADS) & (places < LENGTH)
    x_ptr += batch * x_batch + heads.to(tl.int64) * x_head + places * x_at
    y_ptr += batch * y_batch + heads.to(tl.int64) * y_head + places * y_at
    if INTERLEAVED:
        columns = tl.arange(0, 2 * HALF)[None, None, :]
        inside = there & (columns < 2 * half)
        x = tl.load(x_ptr + columns, mask=inside).to(tl.float32)
        a, b = tl.split(tl.reshape(x, (HEADS_EACH, positions.shape[0], HALF, 2)))
        y = tl.reshape(tl.join(a * cos - b * sin, a * sin + b * cos), (HEADS_EACH, positions.shape[0], 2 * HALF))
        tl.store(y_ptr + columns, y.to(tlx.dtype_of(y_ptr)), mask=inside)
    else:
        columns = tl.arange(0, HALF)[None, None, :]
        inside = there & (columns < half)
        a = tl.load(x_ptr + columns, mask=inside).to(tl.float32)
        b = tl.load(x_ptr + half + columns, mask=inside).to(tl.float32)
        tl.store(y_ptr + columns, (a * cos - b * sin).to(tlx.dtype_of(y_ptr)), mask=inside)
        tl.store(y_ptr + half + columns, (a * sin + b * cos).to(tlx.dtype_of(y_ptr)), mask=inside)
    if REST > 0:
        columns = 2 * half + tl.arange(0, REST)[None, None, :]
        inside = there & (columns < DIM)
        tl.store(y_ptr + columns, tl.load(x_ptr + columns, mask=inside), mask=inside)


@mimw.jit
def rope(q_ptr, k_ptr, q_out_ptr, k_out_ptr, cos_ptr, sin_ptr, positions_ptr, LENGTH, DIM, half, TABLE, q_heads, k_heads, q_batch,
         q_head, q_at, k_batch, k_head, k_at, q_out_batch, q_out_head, q_out_at, k_out_batch, k_out_head, k_out_at, cos_batch,
         cos_row, sin_batch, sin_row, positions_batch, POSITIONS: tl.constexpr, HEADS_EACH: tl.constexpr, HALF: tl.constexpr,
         REST: tl.constexpr, INTERLEAVED: tl.constexpr, BACK: tl.constexpr):
    """Program (batch and block of positions, block of heads of q and then of k); k may be None; BACK: by the negative angles."""
    blocks = tl.cdiv(LENGTH, POSITIONS)
    batch = (tl.program_id(0) // blocks).to(tl.int64)
    places = tl.program_id(0) % blocks * POSITIONS + tl.arange(0, POSITIONS)
    rows = places
    if positions_ptr is not None:
        rows = tl.load(positions_ptr + batch * positions_batch + places, mask=places < LENGTH, other=0)
    rows = rows.to(tl.int64)[:, None]
    columns = tl.arange(0, HALF)[None, :]
    inside = (rows >= 0) & (rows < TABLE) & (columns < half)
    cos = angles(cos_ptr, cos_batch, cos_row, batch, rows, columns, inside)
    sin = angles(sin_ptr, sin_batch, sin_row, batch, rows, columns, inside)
    if BACK:
        sin = -sin
    places = places.to(tl.int64)
    block = tl.program_id(1)
    of_q = tl.cdiv(q_heads, HEADS_EACH)
    if block < of_q:
        turned(q_ptr, q_out_ptr, q_batch, q_head, q_at, q_out_batch, q_out_head, q_out_at, q_heads, LENGTH, DIM, half, cos, sin,
               batch, block * HEADS_EACH, places, HEADS_EACH, HALF, REST, INTERLEAVED)
    if k_ptr is not None:
        if block >= of_q:
            turned(k_ptr, k_out_ptr, k_batch, k_head, k_at, k_out_batch, k_out_head, k_out_at, k_heads, LENGTH, DIM, half, cos, sin,
                   batch, (block - of_q) * HEADS_EACH, places, HEADS_EACH, HALF, REST, INTERLEAVED)
