"""The end of a tile of up to 16 rows: the sums of four warps become results, or one of the parts that whoever comes last adds up.

Input: the `Sums` of warps (attend.py). Output: O and lse, or parts of tiles in `room`. For example, by a consumer:

    put_sums(buffers, sums)
    finish_tile(of_all_warps(buffers, form), item, ending, factors, results, workspace, problem, form)

Sums are (D, TALL), in shared memory and in `room`: a thread has the same numbers of each part, and wants no other thread's. Parts
are added in the order of keys, read past L1, behind an atomic operation that has seen them all; flags count who has come, and are
0 again when all have.
"""

import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx

from .attend import WARPS
from .nouns import Sums
from .partials import arrived, clear
from .results import write


@triton.constexpr_function
def of_tile(d, tall):
    """A tile of (d, tall) over four warps as Triton loads and stores it: 4 rows of a column a thread, then columns over warps."""
    across, down = tall // 4, 128 // tall
    return tlx.layout(((across, down, 4), (4, d // (4 * down))), ((4, tall, down * tall), (1, 4 * down * tall)))


@triton.constexpr_function
def of_rows(tall):
    """A number for each row of such a tile, in all threads that have some of the row."""
    return tlx.layout(((tall // 4, 128 // tall, 4), (4, )), ((4, 0, 0), (1, )))


@mimw.jit
def at_rows(numbers, which, form):
    """TALL numbers of a buffer, row number `which`, where `of_rows` wants them: read there, not exchanged."""
    flat = tlx.local_reshape(numbers, [numbers.shape[0] * form.TALL])
    return tlx.require_layout(tlx.local_load(tlx.local_slice(flat, [which * form.TALL], [form.TALL])), of_rows(form.TALL))


@mimw.jit
def put_sums(buffers, sums):
    """Each warp's sums."""
    tlx.local_store(buffers.acc, sums.acc)
    tlx.local_store(buffers.highest, sums.highest)
    tlx.local_store(buffers.total, sums.total)


@mimw.jit
def of_all_warps(buffers, form):
    """Sums over all warps' keys."""
    TALL: tl.constexpr = form.TALL
    D: tl.constexpr = form.D
    scores, top = (), at_rows(buffers.highest, 0, form)
    for warp in tl.static_range(WARPS):
        scores = scores + (at_rows(buffers.highest, warp, form), )
        top = tl.maximum(top, scores[warp])
    base = tl.where(top == float("-inf"), 0.0, top)
    rows = tlx.local_reshape(buffers.acc, [WARPS * D, TALL])
    total, acc = tl.zeros((TALL, ), tl.float32), tl.zeros((D, TALL), tl.float32)
    for warp in tl.static_range(WARPS):
        factor = tl.exp2(scores[warp] - base)
        total += at_rows(buffers.total, warp, form) * factor
        part = tlx.require_layout(tlx.local_load(tlx.local_slice(rows, [warp * D, 0], [D, TALL])), of_tile(D, TALL))
        acc += part * factor[None, :]
    return Sums(top, total, acc)


@mimw.jit
def store_part(stats, accs, part, sums, form):
    """Part number `part` of all."""
    row, column = tl.arange(0, form.TALL), tl.arange(0, form.D)
    tl.store(accs + part * (form.D * form.TALL) + column[:, None] * form.TALL + row[None, :], sums.acc)
    tl.store(stats + part * (2 * form.TALL) + row, sums.highest)
    tl.store(stats + part * (2 * form.TALL) + form.TALL + row, sums.total)


@mimw.jit
def of_all_parts(stats, accs, factors, ending, step, form):
    """Sums over the parts of the ending's splits, which are `step` apart, PARTS of them at a time, which are all asked for before
    the first is looked at. What each is multiplied by goes through `factors`."""
    D: tl.constexpr = form.D
    TALL: tl.constexpr = form.TALL
    PARTS: tl.constexpr = form.PARTS
    row, column = tl.arange(0, TALL), tl.arange(0, D)
    highest, total = tl.full((TALL, ), float("-inf"), tl.float32), tl.zeros((TALL, ), tl.float32)
    acc = tl.zeros((D, TALL), tl.float32)
    for number in range(0, ending.count, PARTS):
        one = number + tl.arange(0, PARTS)
        at = ((ending.first + one * step) * 2 + tl.where(one == 0, ending.place, 0))[:, None] * (2 * TALL) + row[None, :]
        there = (one < ending.count)[:, None]
        scores = tl.load(stats + at, mask=there, other=float("-inf"), cache_modifier=".cg")
        weights = tl.load(stats + at + TALL, mask=there, other=0.0, cache_modifier=".cg")
        parts = ()
        for one in tl.static_range(PARTS):
            from_part = (ending.first + (number + one) * step) * 2 + tl.where(number + one == 0, ending.place, 0)
            part = tl.load(accs + from_part * (D * TALL) + (column[:, None] * TALL + row[None, :]),
                           mask=number + one < ending.count, other=0.0, cache_modifier=".cg")
            parts = parts + (tlx.require_layout(part, of_tile(D, TALL)), )
        before, highest = highest, tl.maximum(highest, tl.max(scores, 0))
        base = tl.where(highest == float("-inf"), 0.0, highest)
        shrink, factor = tl.exp2(before - base), tl.exp2(scores - base[None, :])
        total = total * shrink + tl.sum(weights * factor, 0)
        tlx.local_store(factors, factor)
        acc *= tlx.require_layout(shrink, of_rows(TALL))[None, :]
        for one in tl.static_range(PARTS):
            acc += parts[one] * at_rows(factors, one, form)[None, :]
    return Sums(highest, total, acc)


@mimw.jit
def finish_tile(sums, item, ending, factors, results, workspace, problem, form):
    """Results of a tile, or this split's part of them."""
    complete = item.part == -1
    if item.part >= 0:
        stats, accs = workspace.stats, workspace.stats + workspace.slots * (2 * form.TALL)
        store_part(stats, accs, item.part, sums, form)
        complete = arrived(workspace.flags, ending) == ending.count - 1
        if complete:
            clear(workspace.flags, ending)
            sums = of_all_parts(stats, accs, factors, ending, workspace.step, form)
    if complete:
        write(Sums(sums.highest, sums.total, tl.trans(sums.acc)), item.batch, item.tile, results, problem, form.WIDTH)
