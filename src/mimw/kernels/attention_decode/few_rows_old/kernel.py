"""Attention of up to 16 rows on a cache of keys and values, for Hopper: one launch, every byte of the cache read once.

Input: descriptors of the caches' pages, Q, the page table and the lengths as pointers, sizes, and flags that are 0. Output: O and
lse, and flags that are 0. For example:

    ((kernel, grid, args, meta), ) = arguments(q, k_cache, v_cache, lengths, o, lse, room, programs, flags=flags)
    kernel[grid](*args, **meta)

Nouns: the queries of all heads that share a head of K and V are the rows of one tile of 16. `ring` is a pipe of BN keys with their
values, `items` tells what comes next, `endings` who else has keys of it. Roles, persistent: a producer of one warp, which loads
page after page by TMA, and a consumer of four. Each of the consumer's warps has a quarter of every block's keys and sums of its
own, a batch of four products for the compiler: a block costs one wait and one release, and no exchange between warps, which add
up what they have when a tile's keys end. Where a tile was cut into splits (splits.py), who comes last adds the parts in the order
of keys, so results are the same from run to run.

The launch may begin before the one ahead has ended; it waits for all that is written there before it reads anything.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .attend import ROWS, WARPS, attend, rows_of
from ..items import ending_pipe, item_of, item_pipe, received, received_ending, send, send_ending
from ..keys import load_item
from ..nouns import Caches, Ending, Item, Problem, Results, Rows, Scores, Sums, Workspace
from ..partials import arrived, clear, merged, nothing, store_partial
from ..results import write
from ..units import length_of, lowest_key, next_split, unit_of
from .splits import begin, owner, span, split, splits_of


@mimw.jit
def load(items, endings, ring, begun, caches, flags, problem, form):
    """Keys and values of this program's blocks, in turn. The pages of a block are looked up while the one before is loaded."""
    workers = tl.num_programs(0)
    unit = unit_of(problem, form)
    chunk, turn, number, count = 0, 0, tl.program_id(0), workers
    while number < count:
        at, end, batch, length, start, splits = begin(number, workers, unit, problem, form)
        part = 0
        while at < end:
            lowest = lowest_key(length, problem)
            piece = span(at, end, start, length, unit, problem, form)
            item = item_of(piece, batch, at, number, part, length)
            send(items, turn, item)
            whole, units = piece.whole, piece.units
            chunk = load_item(ring, begun, chunk, caches, item, item.tile, lowest, form)
            of_first, of_last = owner(whole, splits), owner(whole + units - 1, splits)
            begins, _ = split(of_first, splits)
            send_ending(endings, turn, Ending(of_first, of_last - of_first + 1, (begins < whole).to(tl.int32)))
            at = piece.following
            start = tl.where(piece.over, at, start)
            batch += piece.over.to(tl.int32)
            if at < end:
                length = length_of(problem, batch)
            turn += 1
            part = 1
        number, count = next_split(flags, splits_of(splits), workers, form.DRAWN)
    send(items, turn, Item(0, 0, 0, 0, 0, 0))


@mimw.jit
def added(buffer, sums):
    """Sums over all warps' keys, by way of the buffer."""
    highest, total, acc = sums.highest, sums.total, sums.acc
    top = tl.max(highest, 0)
    base = tl.where(top == float("-inf"), 0.0, top)
    shrink = tl.exp2(highest - base[None, :])
    tlx.local_store(buffer, acc * shrink[:, :, None])
    D: tl.constexpr = acc.shape[2]
    whole = tl.zeros((ROWS, D), tl.float32)
    for warp in tl.static_range(WARPS):
        whole += tl.reshape(tlx.local_load(tlx.local_slice(buffer, [warp, 0, 0], [1, ROWS, D])), (ROWS, D))
    return Sums(top, tl.sum(total * shrink, 0), whole)


@mimw.jit
def all_parts(stats, sums, ending, rows, form):
    """Sums over the parts of the ending's splits, PARTS at a time."""
    TALL: tl.constexpr = form.TALL
    D: tl.constexpr = form.D
    first, count = ending.first, ending.count
    inside, columns = tl.arange(0, TALL), tl.arange(0, D)
    found = nothing(TALL, D)
    for number in range(first, first + count, form.PARTS):
        one = number + tl.arange(0, form.PARTS)
        there = (one < first + count)[:, None] & (inside < rows)[None, :]
        at = (one * 2 + tl.where(one == first, ending.place, 0))[:, None] * rows + inside[None, :]
        score = tl.load(stats + at * 2, mask=there, other=float("-inf"), cache_modifier=".cg")
        weight = tl.load(stats + at * 2 + 1, mask=there, other=0.0, cache_modifier=".cg")
        part = tl.load(sums + at[:, :, None] * D + columns[None, None, :], mask=there[:, :, None], other=0.0, cache_modifier=".cg")
        found = merged(found, score, weight, part)
    return found


@mimw.jit
def compute(items, endings, ring, begun, q_buffer, sums_buffer, q, results, workspace, rules, problem, form):
    """The rows of every tile that this program has keys of. The queries of the next one are asked for before this one's sums
    are written."""
    D: tl.constexpr = form.D
    chunk, turn = 0, 0
    item = received(items, turn)
    rows = rows_of(q, item.batch, item.tile, problem, ROWS, form)
    while item.first < item.stop:
        lowest = lowest_key(item.length, problem)
        for warp in tl.static_range(WARPS):
            tlx.local_store(tlx.local_slice(q_buffer, [warp, 0, 0], [1, ROWS, D]), tl.reshape(rows, (1, ROWS, D)))
        tlx.barrier_arrive(begun, pred=turn == 0)
        of_warps = attend(ring, tlx.local_load(q_buffer), chunk, item, lowest, rules, problem, form)
        chunk += item.stop - item.first
        turn += 1
        following = received(items, turn)
        rows = rows_of(q, following.batch, following.tile, problem, ROWS, form)
        sums = added(sums_buffer, of_warps)
        if item.part < 0:
            received_ending(endings, turn - 1)
            write(sums, item.batch, item.tile, results, problem, form.WIDTH)
        else:
            many = problem.queries * problem.group
            inside, column = tl.arange(0, ROWS), tl.arange(0, D)
            place = item.part * many + inside
            counts = inside < many
            parts = workspace.stats + workspace.slots * 2 * many
            store_partial(workspace.stats, parts, place, column, counts, sums)
            ending = received_ending(endings, turn - 1)
            if arrived(workspace.flags, ending) == ending.count - 1:
                clear(workspace.flags, ending)
                whole = all_parts(workspace.stats, parts, ending, many, form)
                write(whole, item.batch, item.tile, results, problem, form.WIDTH)
        item = following


@mimw.jit
def attention_decode_few_rows_old(q, k_desc, v_desc, table, lengths, o, lse, room, flags, sinks, scale, inner, splits, left, batches,
                              queries, heads, group, capacity, pages, slots, table_row, q_b, q_s, q_h, o_b, o_s, o_h,
                              STAGES: tl.constexpr, FORM: tl.constexpr):
    """O (batches, queries, heads, WIDTH) and lse (batches, heads, queries); arguments as those of `attention_decode`, but for

    args:      room    fp32: for two parts of each of `slots` / 2 splits (highest score in base 2, sum of probabilities) of each
                       row, then the sums of p V
               flags   int32, 0 before and after, for one launch at a time: a counter of splits that are drawn, then one number
                       for each split: how many parts there are of the tile that begins in it and goes on in the next one
               FORM    a Form: TALL rows of a tile when parts are added, a power of 2, PARTS of them at a time
    """
    DTYPE: tl.constexpr = tlx.dtype_of(k_desc)
    problem = Problem(lengths, batches, heads // group, queries, capacity, left, splits, heads, group, 1)
    ring = tle.pipe(capacity=STAGES, readers=("consumer", ), name="keys and values",
                    k=tle.gpu.alloc([STAGES, FORM.BN, FORM.D], DTYPE), v=tle.gpu.alloc([STAGES, FORM.BN, FORM.D], DTYPE))
    items, endings = item_pipe(("consumer", )), ending_pipe(("consumer", ))
    begun = tlx.alloc_barriers(1)       # the first queries are there
    both = tlx.storage_alias_spec()     # queries are in registers before sums are written, sums read before the next queries come
    q_buffer = tlx.local_alloc((WARPS, ROWS, FORM.D), DTYPE, 1, reuse=both)
    sums = tlx.local_alloc((WARPS, ROWS, FORM.D), tl.float32, 1, reuse=both)
    both.set_buffer_overlap(tlx.reuse_group(q_buffer, sums))
    tl.extra.cuda.gdc_launch_dependents()
    with tlx.async_tasks():
        with tlx.async_task("default"):      # consumer
            tl.extra.cuda.gdc_wait()        # here and below: for all that the launches ahead have written
            results = Results(Rows(o, o_b, o_s, o_h), lse, sinks, None, None)
            compute(items.reader("consumer"), endings.reader("consumer"), ring.reader("consumer"), begun[0], q_buffer[0], sums[0],
                    Rows(q, q_b, q_s, q_h), results, Workspace(room, slots, flags, 1), Scores(scale, inner, None), problem, FORM)
        with tlx.async_task(num_warps=1):     # producer
            tl.extra.cuda.gdc_wait()
            load(items.writer(), endings.writer(), ring.writer(), begun[0], Caches(k_desc, v_desc, table, table_row, pages, 1, -1, -1), flags,
                 problem, FORM)
