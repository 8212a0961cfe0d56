"""The role of the epilogue: queries ahead of each tile, and results or parts of its sums.

Input: pipes of items, endings and sums, Q. Output: a pipe of queries; O and lse, or parts of tiles in `room`, which whoever comes
last of those who have keys of a tile adds up in the order of keys. For example, as a task of four warps:

    finish(items.reader("epilogue"), endings.reader("epilogue"), asked.writer(), sums.reader("epilogue"), ...)

Flags count who has come, and are 0 again when all have. Parts are read past L1, behind an atomic operation that has seen them all.
"""

import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx

from ..few_rows_old.attend import ROWS, WARPS, rows_of
from ..items import received, received_ending
from ..nouns import Sums
from ..partials import arrived, clear, store_partial
from ..results import write


@mimw.jit
def put_rows(queries, turn, q, item, problem, form, PAIRS: tl.constexpr):
    """A tile's queries, once for each warp; zeros in rows that do not count, and in columns that heads do not have."""
    slot = queries.acquire(turn)
    if PAIRS:
        rows = rows_of(q, item.batch, item.tile, problem, form.TALL, form)
        rows = tl.clamp(rows.to(tl.float32), -65504.0, 65504.0).to(tl.float16)      # bf16 that no fp16 holds
        even, odd = tl.split(tl.reshape(rows, (form.TALL, form.D // 2, 2)))
        for warp in tl.static_range(WARPS):
            put(slot.even, warp, even)
            put(slot.odd, warp, odd)
    else:
        rows = rows_of(q, item.batch, item.tile, problem, ROWS, form)
        for warp in tl.static_range(WARPS):
            put(slot.rows, warp, rows)
    queries.commit(turn)


@mimw.jit
def put(place, warp, rows):
    """The rows of one warp."""
    SHAPE: tl.constexpr = (1, rows.shape[0], rows.shape[1])
    tlx.local_store(tlx.local_slice(place, [warp, 0, 0], SHAPE), tl.reshape(rows, SHAPE))


@triton.constexpr_function
def of_tile(tall, wide):
    """A tile over four warps as Triton loads and stores it: 8 numbers a thread along rows, then rows over warps."""
    across = min(32, wide // 8)
    down, warps = 32 // across, min(4, tall * across // 32)
    return tlx.layout(((across, down, warps, 4 // warps), (8, wide // (8 * across), tall // (warps * down))),
                      ((8, wide, down * wide, 0), (1, 8 * across, warps * down * wide)))


@triton.constexpr_function
def of_rows(tall, wide):
    """A number for each row of such a tile, in all threads that have some of the row."""
    across = min(32, wide // 8)
    down, warps = 32 // across, min(4, tall * across // 32)
    return tlx.layout(((across, down, warps, 4 // warps), (tall // (warps * down), )), ((0, 1, down, 0), (warps * down, )))


@mimw.jit
def at_rows(numbers, first, TALL: tl.constexpr, D: tl.constexpr):
    """TALL numbers of a buffer from number `first` on, where `of_rows` wants them: read there, not exchanged."""
    return tlx.require_layout(tlx.local_load(tlx.local_slice(numbers, [first], [TALL])), of_rows(TALL, D))


@mimw.jit
def of_all_warps(sums, turn, TALL: tl.constexpr):
    """Sums of the first TALL rows over all warps' keys."""
    slot = sums.wait(turn).slot
    MANY: tl.constexpr = slot.acc.shape[1]
    D: tl.constexpr = slot.acc.shape[2]
    scores = tlx.local_load(tlx.local_slice(slot.highest, [0, 0], [WARPS, TALL]))
    top = tl.max(scores, 0)
    base = tl.where(top == float("-inf"), 0.0, top)
    total = tl.sum(tlx.local_load(tlx.local_slice(slot.total, [0, 0], [WARPS, TALL])) * tl.exp2(scores - base[None, :]), 0)
    numbers, rows = tlx.local_reshape(slot.highest, [WARPS * MANY]), tlx.local_reshape(slot.acc, [WARPS * MANY, D])
    again, highest = (), at_rows(numbers, 0, TALL, D)
    for warp in tl.static_range(WARPS):
        again = again + (at_rows(numbers, warp * MANY, TALL, D), )
        highest = tl.maximum(highest, again[warp])
    highest = tl.where(highest == float("-inf"), 0.0, highest)
    acc = tl.zeros((TALL, D), tl.float32)
    for warp in tl.static_range(WARPS):
        part = tlx.require_layout(tlx.local_load(tlx.local_slice(rows, [warp * MANY, 0], [TALL, D])), of_tile(TALL, D))
        acc += part * tl.exp2(again[warp] - highest)[:, None]
    sums.release(turn)
    return Sums(top, total, acc)


@mimw.jit
def of_all_parts(stats, sums, factors, ending, step, rows, form):
    """Sums over the parts of the ending's splits, which are `step` apart, PARTS of them at a time, which are all asked for before
    the first is looked at. What each is multiplied by goes through `factors`."""
    D: tl.constexpr = form.D
    TALL: tl.constexpr = form.TALL
    PARTS: tl.constexpr = form.PARTS
    first, count, place = ending.first, ending.count, ending.place
    inside, columns = tl.arange(0, TALL), tl.arange(0, D)
    highest, total = tl.full((TALL, ), float("-inf"), tl.float32), tl.zeros((TALL, ), tl.float32)
    acc = tl.zeros((TALL, D), tl.float32)
    for number in range(0, count, PARTS):
        part = number + tl.arange(0, PARTS)
        there = (part < count)[:, None] & (inside < rows)[None, :]
        at = ((first + part * step) * 2 + tl.where(part == 0, place, 0))[:, None] * rows + inside[None, :]
        scores = tl.load(stats + at * 2, mask=there, other=float("-inf"), cache_modifier=".cg")
        weights = tl.load(stats + at * 2 + 1, mask=there, other=0.0, cache_modifier=".cg")
        parts = ()
        for one in tl.static_range(PARTS):
            from_row = ((first + (number + one) * step) * 2 + tl.where(number + one == 0, place, 0)) * rows
            counts = (inside < rows) & (number + one < count)
            part = tl.load(sums + from_row * D + (inside[:, None] * D + columns[None, :]), mask=counts[:, None], other=0.0,
                           cache_modifier=".cg")
            parts = parts + (tlx.require_layout(part, of_tile(TALL, D)), )
        before, highest = highest, tl.maximum(highest, tl.max(scores, 0))
        base = tl.where(highest == float("-inf"), 0.0, highest)
        shrink, factor = tl.exp2(before - base), tl.exp2(scores - base[None, :])
        total = total * shrink + tl.sum(weights * factor, 0)
        tlx.local_store(factors, factor)
        acc *= shrink[:, None]
        for one in tl.static_range(PARTS):
            acc += parts[one] * at_rows(tlx.local_reshape(factors, [PARTS * TALL]), one * TALL, TALL, D)[:, None]
    return Sums(highest, total, acc)


@mimw.jit
def finish(items, endings, queries, sums, factors, begun, columns, q, results, workspace, problem, form):
    """The role: queries ahead of each tile, and its results, or this split's part of them."""
    PAIRS: tl.constexpr = results.v_scale is not None
    turn = 0
    item = received(items, turn)
    if item.first < item.stop:
        put_rows(queries, turn, q, item, problem, form, PAIRS)
        tlx.barrier_arrive(begun)
    many = problem.queries * problem.group
    stats, whole = workspace.stats, workspace.stats + workspace.slots * 2 * many
    while item.first < item.stop:
        following = received(items, turn + 1)
        if following.first < following.stop:
            put_rows(queries, turn + 1, q, following, problem, form, PAIRS)
        found = of_all_warps(sums, turn, form.TALL)
        ending = received_ending(endings, turn)
        if item.part < 0:
            write(found, item.batch, item.tile, results, problem, form.WIDTH)
        else:
            inside, column = tl.arange(0, form.TALL), tl.arange(0, form.D)
            place = item.part * many + inside
            store_partial(stats, whole, place, column, inside < many, found)
            if arrived(workspace.flags, ending) == ending.count - 1:
                clear(workspace.flags, ending)
                all_of_it = of_all_parts(stats, whole, factors, ending, columns, many, form)
                write(all_of_it, item.batch, item.tile, results, problem, form.WIDTH)
        item = following
        turn += 1
