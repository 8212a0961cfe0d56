"""Attention of up to 16 rows on a cache of keys and values, for Hopper: one launch, every byte of the cache read once.

Input: descriptors of the caches' pages, Q, the page table and the lengths as pointers, sizes, and flags that are 0. Output: O and
lse, and flags that are 0. For example:

    ((kernel, grid, args, meta), ) = arguments(q, k_cache, v_cache, lengths, o, lse, room, programs, flags=flags)
    kernel[grid](*args, **meta)

Nouns: the queries of all heads that share a head of K and V are the 8 or 16 rows of one tile. `ring` is a pipe of BN keys with
their values, `items` tells what comes next, `endings` who else has keys of it. Roles, persistent: a producer of one warp, which
loads page after page by TMA, and a consumer of four. Each of the consumer's warps has a quarter of every block's keys and sums of
its own, a batch of four products for the compiler: a block costs one wait and one release, and no exchange between warps, which
add up what they have when a tile's keys end. Where a tile was cut into splits (../splits.py), who comes last adds the parts in the
order of keys, so results are the same from run to run. For caches of e4m3 the loop is ../few_rows_epilogue/fp8.py's.

The launch may begin before the one ahead has ended; it waits for all that is written there before it reads what counts.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..attend import WARPS, attend, put_queries, rows_of, scaled, turned
from ..few_rows_epilogue.fp8 import attend_pairs
from ..finish import finish_tile, of_all_warps, put_sums
from ..items import ending_pipe, item_pipe, received, received_ending
from ..nouns import Caches, Problem, Queries, Results, Rows, Scores, SumBuffers, Workspace
from ..producer import load
from ..units import lowest_key


@mimw.jit
def compute(items, endings, ring, begun, queries, buffers, q, results, workspace, rules, problem, form):
    """The rows of every tile that this program has keys of. The queries of the next one are asked for before this one's sums
    are written."""
    chunk, turn = 0, 0
    item = received(items, turn)
    rows = rows_of(q, item.batch, item.tile, problem, form)
    while item.first < item.stop:
        put_queries(queries, rows, form, results.v_scale is not None)
        tlx.barrier_arrive(begun, pred=turn == 0)
        lowest, of_tile = lowest_key(item.length, problem), scaled(rules, results.step, item.tile)
        if results.v_scale is None:
            of_warps = attend(ring, turned(queries.rows), chunk, item, lowest, of_tile, problem, form)
        else:
            of_warps = attend_pairs(ring, turned(queries.even), turned(queries.odd), chunk, item, lowest, of_tile, problem, form)
        chunk += item.stop - item.first
        turn += 1
        following = received(items, turn)
        rows = rows_of(q, following.batch, following.tile, problem, form)
        put_sums(buffers, of_warps)
        sums, ending = of_all_warps(buffers, form), received_ending(endings, turn - 1)
        finish_tile(sums, item, ending, buffers.factors, results, workspace, problem, form)
        item = following


@mimw.jit
def attention_decode_few_rows(q, k_desc, v_desc, table, lengths, o, lse, room, flags, sinks, k_scale, v_scale, scale_step, scale,
                              inner, splits, left, batches, queries, heads, group, capacity, pages, slots, per, columns, table_row,
                              q_b, q_s, q_h, o_b, o_s, o_h, STAGES: tl.constexpr, FORM: tl.constexpr):
    """O (batches, queries, heads, WIDTH) and lse (batches, heads, queries); arguments as those of `attention_decode`, but for

    args:      room    fp32: for two parts of each of `slots` / 2 splits (highest score in base 2, sum of probabilities) of each
                       row, then the sums of p V
               flags   int32, 0 before and after, for one launch at a time: a counter of splits that are drawn, then one number
                       for each split: how many parts there are of the tile that begins in it and goes on in the next one
               k_scale, v_scale   fp32, of the heads of caches of e4m3, `scale_step` apart; None where caches are of q's type
               per     programs of each of `columns` columns (../splits.py)
               FORM    a Form: TALL rows of a tile, 8 or 16, PARTS parts of them added at a time
    """
    DTYPE: tl.constexpr = tlx.dtype_of(k_desc)
    TALL: tl.constexpr = FORM.TALL
    problem = Problem(lengths, batches, heads // group, queries, capacity, left, splits, heads, group, 1)
    ring = tle.pipe(capacity=STAGES, readers=("consumer", ), name="keys and values",
                    k=tle.gpu.alloc([STAGES, FORM.BN, FORM.D], DTYPE), v=tle.gpu.alloc([STAGES, FORM.BN, FORM.D], DTYPE))
    items, endings = item_pipe(("consumer", )), ending_pipe(("consumer", ))
    begun = tlx.alloc_barriers(1)       # the first queries are there
    both = tlx.storage_alias_spec()     # queries are in registers before sums are written, sums read before the next queries come
    acc = tlx.local_alloc((WARPS, FORM.D, TALL), tl.float32, 1, reuse=both)
    if k_scale is None:
        rows = tlx.local_alloc((WARPS, TALL, FORM.D), DTYPE, 1, reuse=both)
        both.set_buffer_overlap(tlx.reuse_group(rows, acc))
        asked = Queries(rows[0], None, None)
    else:
        even = tlx.local_alloc((WARPS, TALL, FORM.D // 2), tl.float16, 1, reuse=both)
        odd = tlx.local_alloc((WARPS, TALL, FORM.D // 2), tl.float16, 1, reuse=both)
        halves = tlx.reuse_group(even, odd, group_type=tlx.reuse_group_type.distinct)
        both.set_buffer_overlap(tlx.reuse_group(halves, acc))
        asked = Queries(None, even[0], odd[0])
    highest, total = tlx.local_alloc((WARPS, TALL), tl.float32, 1), tlx.local_alloc((WARPS, TALL), tl.float32, 1)
    factors = tlx.local_alloc((FORM.PARTS, TALL), tl.float32, 1)
    tl.extra.cuda.gdc_launch_dependents()
    with tlx.async_tasks():
        with tlx.async_task("default"):      # consumer
            tl.extra.cuda.gdc_wait()        # for all that the launches ahead have written
            results = Results(Rows(o, o_b, o_s, o_h), lse, sinks, v_scale, scale_step)
            compute(items.reader("consumer"), endings.reader("consumer"), ring.reader("consumer"), begun[0], asked,
                    SumBuffers(acc[0], highest[0], total[0], factors[0]), Rows(q, q_b, q_s, q_h), results,
                    Workspace(room, slots, flags, columns), Scores(scale, inner, k_scale), problem, FORM)
        with tlx.async_task(num_warps=1):     # producer
            load(items.writer(), endings.writer(), ring.writer(), begun[0], Caches(k_desc, v_desc, table, table_row, pages),
                 Rows(q, q_b, q_s, q_h), flags, per, columns, problem, FORM)
