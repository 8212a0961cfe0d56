"""The reduction of splits, the second launch of attention with a cache: parts of tiles that several workers read become one.

Input: `room` as ../split_kv leaves it. Output: O and lse of the tiles that no worker read whole. For example:

    combine[(sequences * tiles, cdiv(rows, ROWS))](o, lse, room, sinks, split, steps, FORM=CombineForm(...))

Parts are added in the order of keys, so results are the same from run to run.
"""

import triton.language as tl

import mimw

from ..partials import merged, nothing
from ..results import normalized


@mimw.jit
def combine(o, lse, room, sinks, split, steps, FORM: tl.constexpr):
    """ROWS rows of a tile by each program."""
    if FORM.EARLY:
        tl.extra.cuda.gdc_wait()
    plan = room + tl.program_id(0) * 4
    begin, end, place = tl.load(plan).to(tl.int32), tl.load(plan + 1).to(tl.int32), tl.load(plan + 2).to(tl.int32)
    if end > begin:
        tiles = split.heads // split.group * split.row_tiles
        batch, tile = tl.program_id(0) // tiles, tl.program_id(0) % tiles
        rows = tl.minimum(split.queries * split.group, 64 * FORM.TALL)
        stats = room + tl.num_programs(0) * 4
        sums = stats + split.slots.to(tl.int64) * 2 * rows
        inside = tl.program_id(1) * FORM.ROWS + tl.arange(0, FORM.ROWS)
        packed = tile % split.row_tiles * (64 * FORM.TALL) + inside
        query, head = packed // split.group, tile // split.row_tiles * split.group + packed % split.group
        counts = (packed < split.queries * split.group) & (inside < rows)
        columns = tl.arange(0, FORM.D)
        found = nothing(FORM.ROWS, FORM.D)
        for first in range(begin, end + 1, FORM.PARTS):
            worker = first + tl.arange(0, FORM.PARTS)
            there = (worker <= end)[:, None] & counts[None, :]
            at = (worker * 2 + tl.where(worker == begin, place, 0)).to(tl.int64)[:, None] * rows + inside[None, :]
            score = tl.load(stats + at * 2, mask=there, other=float("-inf"))
            weight = tl.load(stats + at * 2 + 1, mask=there, other=0.0)
            part = tl.load(sums + at[:, :, None] * FORM.D + columns[None, None, :], mask=there[:, :, None], other=0.0)
            found = merged(found, score, weight, part)
        logarithm, result = normalized(found, head, counts, sinks)
        at = batch.to(tl.int64) * steps.batch + query.to(tl.int64) * steps.query + head.to(tl.int64) * steps.head
        written = counts[:, None] & (columns < FORM.WIDTH)[None, :]
        tl.store(o + at[:, None] + columns[None, :], result.to(o.dtype.element_ty), mask=written)
        tl.store(lse + (batch * split.heads + head).to(tl.int64) * split.queries + query, logarithm, mask=counts)
