"""The end of an item: rows of out and lse, or a part of a sequence's sums in room.

Input: half of the columns of an item's sums, and its softmax. Output: they are written. For example:

    put(acc, total, highest, q.left, 0, item, place, outputs, None, problem, form)      with lse, or the two numbers of each row
    put(acc, total, None, q.right, 256, item, place, outputs, None, problem, form)       the right half
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..attention.softmax import LN2
from ..gemm.product import columns
from .nouns import Place


@mimw.jit
def place_of(item, problem, form):
    """The rows of an item."""
    first = item.tile * 64
    packed = first + tl.arange(0, 64)
    query, head = packed // problem.heads, packed % problem.heads
    last = query * 0 + item.length - 1
    if form.CAUSAL:
        last = query + (item.length - problem.queries)
    return Place(first, query, head, last)


@mimw.jit
def scale_of_values(rules):
    """The scale of the cache, which results are multiplied by, None for none."""
    if rules.of_keys is None:
        return None
    else:
        return tl.load(rules.of_keys)


@mimw.jit
def copy_out(buffer, desc, page, row, column):
    """A buffer of 64 rows to a descriptor's rows, by TMA, which leaves out what is behind the last row."""
    COLUMNS: tl.constexpr = desc.block_shape[2]
    rows = tlx.local_reshape(buffer, [1, 64, buffer.shape[1]])
    for first in tl.static_range(0, buffer.shape[1], COLUMNS):
        tle.gpu.copy(tlx.local_slice(rows, [0, 0, first], [1, 64, COLUMNS]), desc, [1, 64, COLUMNS], [page, row, column + first])


@mimw.jit
def put(acc, total, highest, half, column: tl.constexpr, item, place, outputs, v_scale, problem, form):
    """Columns from `column` on of the item's rows, through that half's place; with `highest`, in base 2, also lse."""
    if v_scale is not None:
        acc = acc * v_scale
    rows = problem.queries * problem.heads
    inside = place.first + tl.arange(0, 64)
    counts = inside < rows
    if item.part < 0:
        out = acc / tl.where(total == 0.0, 1.0, total)[:, None]
        tl.store(tle.gpu.local_ptr(half.rows[0]), out.to(half.rows[0].dtype))
        copy_out(half.rows[0], outputs.out, item.batch, place.first, column)
        if highest is not None:
            line = (item.batch * problem.heads + place.head).to(tl.int64) * problem.queries + place.query
            tl.store(outputs.lse + line, (highest + tl.log2(total)) * LN2, mask=counts)
    else:
        for part in tl.static_range(2):
            tl.store(tle.gpu.local_ptr(half.sums), columns(acc, part, 2))
            copy_out(half.sums, outputs.sums, item.part, place.first, column + part * half.sums.shape[1])
        if highest is not None:
            line = item.part.to(tl.int64) * rows + inside
            tl.store(outputs.stats + line * 2, highest, mask=counts)
            tl.store(outputs.stats + line * 2 + 1, total, mask=counts)
