"""64 rows of queries of an item in shared memory, and in the same place what leaves through it.

Input: a type and a `Form`. Output: a `Queries`, on which the producer and both consumers wait in turn. For example:

    q = queries_of(tl.bfloat16, FORM)
    bring_queries(q, turn, q_desc, item, FORM)                              the producer
    tlx.barrier_wait(q.full, turn % 2), ..., tlx.barrier_arrive(q.free)     a consumer

Halves of the columns of out take the place of the same half of q, and so do sums, a quarter of their columns at a time.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx


@tle.struct
class Half:
    """A half of the columns that values have too: of queries, then of results; and in the same place half as many sums."""

    rows: Any
    sums: Any


@tle.struct
class Queries:
    """Both halves and the tail, and the barriers of the one place that there is: queries have come, both consumers are through."""

    left: Half
    right: Half
    tail: Any
    full: Any
    free: Any


@mimw.jit
def half_of(TYPE: tl.constexpr, HALF: tl.constexpr):
    """The buffers of a half."""
    both = tlx.storage_alias_spec()
    rows = tlx.local_alloc((64, HALF), TYPE, 1, reuse=both)
    sums = tlx.local_alloc((64, HALF // 2), tl.float32, 1, reuse=both)
    both.set_buffer_overlap(tlx.reuse_group(rows, sums))
    return Half(rows, sums[0])


@mimw.jit
def queries_of(TYPE: tl.constexpr, form):
    """The buffers and barriers."""
    tail = tlx.local_alloc((64, form.DT), TYPE, 1)
    full, free = tlx.alloc_barriers(1), tlx.alloc_barriers(1, arrive_count=2)
    return Queries(half_of(TYPE, form.DV // 2), half_of(TYPE, form.DV // 2), tail, full[0], free[0])


@mimw.jit
def bring_columns(desc, buffer, item, full, column: tl.constexpr):
    """Columns of the item's queries from `column` on, some at a time; behind a sequence's rows there are zeros."""
    COLUMNS: tl.constexpr = desc.block_shape[2]
    rows = tlx.local_reshape(buffer, [1, 64, buffer.shape[1]])
    for first in tl.static_range(0, buffer.shape[1], COLUMNS):
        part = tlx.local_slice(rows, [0, 0, first], [1, 64, COLUMNS])
        tlx.async_descriptor_load(desc, part, [item.batch, item.tile * 64, column + first], full)


@mimw.jit
def bring_queries(q, turn, desc, item, form):
    """The queries of an item, as soon as both consumers are through with those before."""
    tlx.barrier_wait(q.free, turn % 2 ^ 1)
    tlx.barrier_expect_bytes(q.full, 64 * (form.DV + form.DT) * tlx.size_of(tlx.dtype_of(desc)))
    bring_columns(desc, q.left.rows[0], item, q.full, 0)
    bring_columns(desc, q.right.rows[0], item, q.full, form.DV // 2)
    bring_columns(desc, q.tail[0], item, q.full, form.DV)
