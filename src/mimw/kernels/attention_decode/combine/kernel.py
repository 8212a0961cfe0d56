"""The reduction of splits, the second launch of attention with a cache: parts of tiles that several workers read become one.

Input: `room` as ../split_kv leaves it. Output: O and lse of the tiles that no worker read whole. For example:

    combine[(sequences * tiles, cdiv(rows, ROWS))](o, lse, room, sinks, queries, heads, group, row_tiles, slots, ...)

Parts are added in the order of keys, so results are the same from run to run.
"""

import triton.language as tl

import mimw

from ..partials import merged, nothing
from ..results import normalized


@mimw.jit
def combine(o, lse, room, sinks, queries, heads, group, row_tiles, slots, o_b, o_s, o_h, D: tl.constexpr, WIDTH: tl.constexpr,
            TALL: tl.constexpr, ROWS: tl.constexpr, PARTS: tl.constexpr, EARLY: tl.constexpr):
    """ROWS rows of a tile by each program, PARTS of their parts at a time; EARLY: it may begin before the kernel has ended."""
    if EARLY:
        tl.extra.cuda.gdc_wait()
    plan = room + tl.program_id(0) * 4
    begin, end, place = tl.load(plan).to(tl.int32), tl.load(plan + 1).to(tl.int32), tl.load(plan + 2).to(tl.int32)
    if end > begin:
        tiles = heads // group * row_tiles
        batch, tile = tl.program_id(0) // tiles, tl.program_id(0) % tiles
        rows = tl.minimum(queries * group, 64 * TALL)
        stats = room + tl.num_programs(0) * 4
        sums = stats + slots.to(tl.int64) * 2 * rows
        inside = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
        packed = tile % row_tiles * (64 * TALL) + inside
        query, head = packed // group, tile // row_tiles * group + packed % group
        counts = (packed < queries * group) & (inside < rows)
        columns = tl.arange(0, D)
        found = nothing(ROWS, D)
        for first in range(begin, end + 1, PARTS):
            worker = first + tl.arange(0, PARTS)
            there = (worker <= end)[:, None] & counts[None, :]
            at = (worker * 2 + tl.where(worker == begin, place, 0)).to(tl.int64)[:, None] * rows + inside[None, :]
            score = tl.load(stats + at * 2, mask=there, other=float("-inf"))
            weight = tl.load(stats + at * 2 + 1, mask=there, other=0.0)
            part = tl.load(sums + at[:, :, None] * D + columns[None, None, :], mask=there[:, :, None], other=0.0)
            found = merged(found, score, weight, part)
        logarithm, result = normalized(found, head, counts, sinks)
        at = batch.to(tl.int64) * o_b + query.to(tl.int64) * o_s + head.to(tl.int64) * o_h
        written = counts[:, None] & (columns < WIDTH)[None, :]
        tl.store(o + at[:, None] + columns[None, :], result.to(o.dtype.element_ty), mask=written)
        tl.store(lse + (batch * heads + head).to(tl.int64) * queries + query, logarithm, mask=counts)
