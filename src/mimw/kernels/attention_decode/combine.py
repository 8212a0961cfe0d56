"""The second step of attention with a cache: the parts of each sequence that several workers read become one.

Input: `room` as the kernel leaves it. Output: O and lse of the tiles that no worker read whole. For example:

    combine[(sequences * tiles, cdiv(rows, ROWS))](o, lse, lengths, room, sinks, scale, ...)

Who read what follows from the lengths (schedule.py), as it did in the kernel. Parts are added in the order of keys, so results
are the same from run to run.
"""

import triton.language as tl

import mimw

from .ending import ended
from .schedule import blocks_of, length_of, owner, share, some_blocks, total_of, unit_of


@mimw.jit
def parts_of(batch, tile, lengths, splits, shape, workers, BN: tl.constexpr, BATCH: tl.constexpr, LEAST: tl.constexpr):
    """(the first and the last worker of a tile, which of its two parts the first one's is)."""
    unit = unit_of(lengths, splits, shape, BN, BATCH)
    total = total_of(lengths, shape, unit, BN, BATCH)
    before = 0
    for first in range(0, batch, BATCH):
        units = (some_blocks(lengths, first, shape, BN, BATCH) + unit - 1) // unit
        before += tl.sum(tl.where(first + tl.arange(0, BATCH) < batch, units, 0), 0)
    _, blocks = blocks_of(length_of(lengths, batch, shape), shape, BN)
    units = (blocks + unit - 1) // unit
    number = before * shape[1] + tile * units
    first = owner(number, total, workers, LEAST)
    return first, owner(number + units - 1, total, workers, LEAST), (share(first, total, workers, LEAST) != number).to(tl.int32)


@mimw.jit
def combine(o, lse, lengths, room, sinks, splits, left, batches, queries, heads, group, row_tiles, capacity, workers, o_b,
            o_s, o_h, D: tl.constexpr, BN: tl.constexpr, BATCH: tl.constexpr, LEAST: tl.constexpr, TALL: tl.constexpr,
            ROWS: tl.constexpr, PARTS: tl.constexpr, EARLY: tl.constexpr):
    """ROWS rows of a tile by each program, PARTS of their parts at a time."""
    tiles = heads // group * row_tiles
    shape = batches, tiles, queries, capacity, left
    batch, tile = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    begin, end, place = parts_of(batch, tile, lengths, splits, shape, workers, BN, BATCH, LEAST)
    if EARLY:
        tl.extra.cuda.gdc_wait()
    if end > begin:
        rows = tl.minimum(queries * group, 64 * TALL)
        stats = room + workers.to(tl.int64) * 2 * rows * D
        inside = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
        packed = tile % row_tiles * (64 * TALL) + inside
        query, head = packed // group, tile // row_tiles * group + packed % group
        counts = (packed < queries * group) & (inside < rows)
        columns = tl.arange(0, D)
        highest, total = tl.full((ROWS, ), float("-inf"), tl.float32), tl.zeros((ROWS, ), tl.float32)
        acc = tl.zeros((ROWS, D), tl.float32)
        for first in range(begin, end + 1, PARTS):
            worker = first + tl.arange(0, PARTS)
            there = (worker <= end)[:, None] & counts[None, :]
            at = (worker * 2 + tl.where(worker == begin, place, 0)).to(tl.int64)[:, None] * rows + inside[None, :]
            score = tl.load(stats + at * 2, mask=there, other=float("-inf"))
            weight = tl.load(stats + at * 2 + 1, mask=there, other=0.0)
            part = tl.load(room + at[:, :, None] * D + columns[None, None, :], mask=there[:, :, None], other=0.0)
            before, highest = highest, tl.maximum(highest, tl.max(score, 0))
            base = tl.where(highest == float("-inf"), 0.0, highest)
            shrink, factor = tl.exp2(before - base), tl.exp2(score - base[None, :])
            total = total * shrink + tl.sum(weight * factor, 0)
            acc = acc * shrink[:, None] + tl.sum(part * factor[:, :, None], 0)
        logarithm, result = ended(highest, total, acc, head, counts, sinks)
        at = batch.to(tl.int64) * o_b + query.to(tl.int64) * o_s + head.to(tl.int64) * o_h
        tl.store(o + at[:, None] + columns[None, :], result.to(o.dtype.element_ty), mask=counts[:, None])
        tl.store(lse + (batch * heads + head).to(tl.int64) * queries + query, logarithm, mask=counts)
