"""Attention of up to 16 rows on a cache in one launch, with a role of its own for queries and results, and caches of e4m3.

Input: descriptors of the caches' pages, Q, the page table and the lengths as pointers, sizes, and flags that are 0. Output: O and
lse, and flags that are 0. For example:

    ((kernel, grid, args, meta), ) = arguments(q, k_cache, v_cache, lengths, o, lse, room, programs, flags=flags)
    kernel[grid](*args, **meta)

Nouns: the queries of all heads that share a head of K and V are the rows of one tile, 8 or 16, and the columns of products whose
rows are keys; for caches of e4m3 the consumer's loop is fp8.py's. `ring` is a pipe of BN keys with their
values, `items` tells what comes next, `endings` who else has keys of its tile, `queries` and `sums` are pipes of tiles. Roles,
persistent: a producer of one warp, which loads page after page by TMA, a consumer and an epilogue (epilogue.py) of four each. Each
of the consumer's warps has a quarter of every block's keys and sums of its own, a batch of four products for the compiler: a block
costs one wait and one release, and no exchange between warps. The epilogue asks for the queries of the next tile while the
consumer is at the keys of this one, adds the warps' sums, and writes. Where a tile was cut into splits (../splits.py), the epilogue
that comes last adds the parts in the order of keys, so results are the same from run to run.

The launch may begin before the one ahead has ended; it waits for all that is written there before it reads anything.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..attend import WARPS, attend, scaled, turned
from ..finish import put_sums
from ..items import ending_pipe, item_pipe, received
from ..nouns import Caches, Problem, Results, Rows, Scores, Workspace
from ..producer import load
from ..units import lowest_key
from .epilogue import finish
from .fp8 import attend_pairs


@mimw.jit
def compute(items, queries, ring, sums, rules, step, problem, form):
    """The consumer: its warps' sums of every tile that this program has keys of."""
    chunk, turn = 0, 0
    item = received(items, turn)
    while item.first < item.stop:
        asked = queries.wait(turn).slot
        lowest = lowest_key(item.length, problem)
        of_tile = scaled(rules, step, item.tile)
        if rules.of_keys is None:
            rows = turned(asked.rows)
            queries.release(turn)
            found = attend(ring, rows, chunk, item, lowest, of_tile, problem, form)
        else:
            even, odd = turned(asked.even), turned(asked.odd)
            queries.release(turn)
            found = attend_pairs(ring, even, odd, chunk, item, lowest, of_tile, problem, form)
        slot = sums.acquire(turn)
        put_sums(slot, found)
        sums.commit(turn)
        chunk += item.stop - item.first
        turn += 1
        item = received(items, turn)


@mimw.jit
def attention_decode_few_rows_epilogue(q, k_desc, v_desc, table, lengths, o, lse, room, flags, sinks, k_scale, v_scale, scale_step,
                                       scale, inner, splits, left, batches, queries, heads, group, capacity, pages, slots, per,
                                       columns, table_row, q_b, q_s, q_h, o_b, o_s, o_h, STAGES: tl.constexpr, FORM: tl.constexpr):
    """O (batches, queries, heads, WIDTH) and lse (batches, heads, queries); arguments as those of `attention_decode`, but for

    args:      room    fp32: for two parts of each of `slots` / 2 splits (highest score in base 2, sum of probabilities) of each
                       row, then the sums of p V
               flags   int32, 0 before and after, for one launch at a time: a counter of splits that are drawn, then one number
                       for each split: how many parts there are of the tile that begins in it and goes on in the next one
               k_scale, v_scale   fp32, what the keys and values of a head of them are multiplied by, `scale_step` apart, for
                       caches of e4m3; None where they are of q's type
               per     programs of each of `columns` columns (../splits.py)
               FORM    a Form: TALL rows that the epilogue looks at, 8 or 16, PARTS parts of them at a time
    """
    DTYPE: tl.constexpr = tlx.dtype_of(k_desc)
    TALL: tl.constexpr = FORM.TALL
    problem = Problem(lengths, batches, heads // group, queries, capacity, left, splits, heads, group, 1)
    ring = tle.pipe(capacity=STAGES, readers=("consumer", ), name="keys and values",
                    k=tle.gpu.alloc([STAGES, FORM.BN, FORM.D], DTYPE), v=tle.gpu.alloc([STAGES, FORM.BN, FORM.D], DTYPE))
    items, endings = item_pipe(("consumer", "epilogue")), ending_pipe(("epilogue", ))
    if k_scale is None:
        asked = tle.pipe(capacity=1, readers=("consumer", ), name="queries",
                         rows=tle.gpu.alloc([1, WARPS, TALL, FORM.D], q.dtype.element_ty))
    else:
        asked = tle.pipe(capacity=1, readers=("consumer", ), name="queries",
                         even=tle.gpu.alloc([1, WARPS, TALL, FORM.D // 2], tl.float16),
                         odd=tle.gpu.alloc([1, WARPS, TALL, FORM.D // 2], tl.float16))
    sums = tle.pipe(capacity=1, readers=("epilogue", ), name="sums", acc=tle.gpu.alloc([1, WARPS, FORM.D, TALL], tl.float32),
                    highest=tle.gpu.alloc([1, WARPS, TALL], tl.float32), total=tle.gpu.alloc([1, WARPS, TALL], tl.float32))
    begun = tlx.alloc_barriers(1)       # the first queries are there
    factors = tlx.local_alloc((FORM.PARTS, TALL), tl.float32, 1)
    tl.extra.cuda.gdc_launch_dependents()
    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=216):           # consumer
            if k_scale is not None:
                tl.extra.cuda.gdc_wait()    # here and in each role: for all that the launches ahead have written
            compute(items.reader("consumer"), asked.reader("consumer"), ring.reader("consumer"), sums.writer(),
                    Scores(scale, inner, k_scale), scale_step, problem, FORM)
        with tlx.async_task(num_warps=4, num_regs=216):         # epilogue
            tl.extra.cuda.gdc_wait()
            results = Results(Rows(o, o_b, o_s, o_h), lse, sinks, v_scale, scale_step)
            finish(items.reader("epilogue"), endings.reader("epilogue"), asked.writer(), sums.reader("epilogue"), factors[0],
                   begun[0], Rows(q, q_b, q_s, q_h), results, Workspace(room, slots, flags, columns), problem, FORM)
        with tlx.async_task(num_warps=1, num_regs=40):          # producer
            load(items.writer(), endings.writer(), ring.writer(), begun[0], Caches(k_desc, v_desc, table, table_row, pages),
                 Rows(q, q_b, q_s, q_h), flags, per, columns, problem, FORM)
