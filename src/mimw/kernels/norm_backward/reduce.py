"""Sums over rows: the second step of the gradients of w and b.

Input: sums of some rows each, fp32 [PARTS, N], of w, of b or of both. Output: dw [N], db [N] in their own types. For example:

    add_parts[(cdiv(N, COLUMNS), )](dw_parts, db_parts, dw, db, PARTS, N, ROWS_EACH=32, COLUMNS=64, EARLY=False)

Each column is added up by one program in a fixed order, so results are the same from run to run.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def add_column(parts_ptr, out_ptr, columns, PARTS, N, ROWS_EACH: tl.constexpr, COLUMNS: tl.constexpr):
    """out[columns] = sum of parts[:, columns]."""
    total = tl.zeros((ROWS_EACH, COLUMNS), tl.float32)
    for first in range(0, PARTS, ROWS_EACH):
        rows = first + tl.arange(0, ROWS_EACH)
        at = rows.to(tl.int64)[:, None] * N + columns[None, :]
        total += tl.load(parts_ptr + at, mask=(rows < PARTS)[:, None] & (columns < N)[None, :], other=0.0)
    tl.store(out_ptr + columns, tl.sum(total, 0).to(tlx.dtype_of(out_ptr)), mask=columns < N)


@mimw.jit
def add_parts(dw_parts_ptr, db_parts_ptr, dw_ptr, db_ptr, PARTS, N, ROWS_EACH: tl.constexpr, COLUMNS: tl.constexpr,
              EARLY: tl.constexpr, APART: tl.constexpr = False):
    """dw and db, either of which may be None; EARLY: the launch may begin before the one that makes the parts has ended; APART: the
    grid's second axis says which of the two."""
    if EARLY:
        tl.extra.cuda.gdc_wait()
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    if APART:
        if tl.program_id(1) == 0:
            add_column(dw_parts_ptr, dw_ptr, columns, PARTS, N, ROWS_EACH, COLUMNS)
        else:
            add_column(db_parts_ptr, db_ptr, columns, PARTS, N, ROWS_EACH, COLUMNS)
    else:
        if dw_ptr is not None:
            add_column(dw_parts_ptr, dw_ptr, columns, PARTS, N, ROWS_EACH, COLUMNS)
        if db_ptr is not None:
            add_column(db_parts_ptr, db_ptr, columns, PARTS, N, ROWS_EACH, COLUMNS)
