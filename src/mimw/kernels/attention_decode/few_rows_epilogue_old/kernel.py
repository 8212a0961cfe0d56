"""Attention of up to 16 rows on a cache in one launch, with a role of its own for queries and results, and caches of e4m3.

Input: descriptors of the caches' pages, Q, the page table and the lengths as pointers, sizes, and flags that are 0. Output: O and
lse, and flags that are 0. For example:

    ((kernel, grid, args, meta), ) = arguments(q, k_cache, v_cache, lengths, o, lse, room, programs, flags=flags)
    kernel[grid](*args, **meta)

Nouns: the queries of all heads that share a head of K and V are the rows of one tile of 16; on caches of e4m3 they are the columns,
8 or 16, of products whose rows are keys (fp8.py). `ring` is a pipe of BN keys with their
values, `items` tells what comes next, `endings` who else has keys of its tile, `queries` and `sums` are pipes of tiles. Roles,
persistent: a producer of one warp, which loads page after page by TMA, a consumer and an epilogue (epilogue.py) of four each. Each
of the consumer's warps has a quarter of every block's keys and sums of its own, a batch of four products for the compiler: a block
costs one wait and one release, and no exchange between warps. The epilogue asks for the queries of the next tile while the
consumer is at the keys of this one, adds the warps' sums, and writes. Where a tile was cut into splits (splits.py), the epilogue
that comes last adds the parts in the order of keys, so results are the same from run to run.

The launch may begin before the one ahead has ended; it waits for all that is written there before it reads anything.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..few_rows_old.attend import ROWS, WARPS, attend
from ..items import ending_pipe, item_pipe, received, send, send_ending
from ..keys import load_item
from ..nouns import Caches, Ending, Item, Problem, Results, Rows, Scores, Workspace
from ..units import blocks_of, lowest_key, next_split, quotient, unit_of
from .epilogue import finish
from .fp8 import attend_pairs
from .splits import cut, ends_of, keys_of, owner, sequence_at, split, splits_of


@mimw.jit
def load(items, endings, ring, begun, caches, flags, per, columns, problem, form):
    """Keys and values of this program's blocks, in turn. The pages of a block are looked up while the one before is loaded."""
    unit = unit_of(problem, form)
    seen = ends_of(unit, problem, form)
    together = quotient(problem.tiles, columns)     # heads of a column
    of_head = seen.total
    total = of_head * together
    splits = cut(total, seen.most, problem.batches * together, per, columns, form.LEAST, form.DRAWN)
    workers = tl.num_programs(0)
    chunk, turn, number, count = 0, 0, tl.program_id(0), workers
    while number < count:
        at, end = split(number, splits)
        tile = quotient(at, of_head)
        batch, start = sequence_at(at - tile * of_head, seen, unit, problem, form)
        start += tile * of_head
        part = 0
        while at < end:
            length = keys_of(batch, seen, problem, form)
            lowest = lowest_key(length, problem)
            low, blocks = blocks_of(length, problem, form)
            units = (blocks + unit - 1) // unit
            following = tl.minimum(start + units, end)
            first, stop = low + (at - start) * unit, low + tl.minimum((following - start) * unit, blocks)
            alone = (at == start) & (following == start + units)
            item = Item(batch, tile, first, stop, tl.where(alone, -1, number * 2 + part), length)
            send(items, turn, item)
            chunk = load_item(ring, begun, chunk, caches, item, tile, lowest, form)
            of_first = owner(start, splits)
            of_last = owner(start + units - 1, splits)
            begins, _ = split(of_first, splits)
            among = quotient(of_last - of_first, columns) + 1
            send_ending(endings, turn, Ending(of_first, among, (begins < start).to(tl.int32)))
            over = following == start + units
            at, start = following, tl.where(over, following, start)
            batch += over.to(tl.int32)
            tile += (batch == problem.batches).to(tl.int32)
            batch = tl.where(batch == problem.batches, 0, batch)
            turn += 1
            part = 1
        number, count = next_split(flags, splits_of(splits), workers, form.DRAWN)
    send(items, turn, Item(0, 0, 0, 0, 0, 0))


@mimw.jit
def scaled(rules, k_scale, step, tile):
    """The rules for scores of a head whose keys may have a scale."""
    if k_scale is None:
        return rules
    else:
        of_keys = tl.load(k_scale + tile * step)
        if rules.inner is None:
            return Scores(rules.scale * of_keys, None, None)
        else:
            return Scores(rules.scale, rules.inner * of_keys, None)


@mimw.jit
def compute(items, queries, ring, sums, rules, k_scale, step, problem, form):
    """The consumer: its warps' sums of every tile that this program has keys of."""
    chunk, turn = 0, 0
    item = received(items, turn)
    while item.first < item.stop:
        asked = queries.wait(turn).slot
        lowest = lowest_key(item.length, problem)
        of_tile = scaled(rules, k_scale, step, item.tile)
        if k_scale is None:
            rows = tlx.local_load(asked.rows)
            queries.release(turn)
            found = attend(ring, rows, chunk, item, lowest, of_tile, problem, form)
        else:
            even = tlx.local_load(tlx.local_trans(asked.even, (0, 2, 1)))
            odd = tlx.local_load(tlx.local_trans(asked.odd, (0, 2, 1)))
            queries.release(turn)
            found = attend_pairs(ring, even, odd, chunk, item, lowest, of_tile, problem, form)
        slot = sums.acquire(turn)
        tlx.local_store(slot.acc, found.acc)
        tlx.local_store(slot.highest, found.highest)
        tlx.local_store(slot.total, found.total)
        sums.commit(turn)
        chunk += item.stop - item.first
        turn += 1
        item = received(items, turn)


@mimw.jit
def attention_decode_few_rows_epilogue_old(q, k_desc, v_desc, table, lengths, o, lse, room, flags, sinks, k_scale, v_scale, scale_step,
                                       scale, inner, splits, left, batches, queries, heads, group, capacity, pages, slots, per,
                                       columns, table_row, q_b, q_s, q_h, o_b, o_s, o_h, STAGES: tl.constexpr, FORM: tl.constexpr):
    """O (batches, queries, heads, WIDTH) and lse (batches, heads, queries); arguments as those of `attention_decode`, but for

    args:      room    fp32: for two parts of each of `slots` / 2 splits (highest score in base 2, sum of probabilities) of each
                       row, then the sums of p V
               flags   int32, 0 before and after, for one launch at a time: a counter of splits that are drawn, then one number
                       for each split: how many parts there are of the tile that begins in it and goes on in the next one
               k_scale, v_scale   fp32, what the keys and values of a head of them are multiplied by, `scale_step` apart, for
                       caches of e4m3; None where they are of q's type
               per     programs of each of `columns` columns (splits.py)
               FORM    a Form: TALL rows that the epilogue looks at, 8 or 16, PARTS parts of them at a time
    """
    DTYPE: tl.constexpr = tlx.dtype_of(k_desc)
    MANY: tl.constexpr = ROWS if k_scale is None else FORM.TALL
    problem = Problem(lengths, batches, heads // group, queries, capacity, left, splits, heads, group, 1)
    ring = tle.pipe(capacity=STAGES, readers=("consumer", ), name="keys and values",
                    k=tle.gpu.alloc([STAGES, FORM.BN, FORM.D], DTYPE), v=tle.gpu.alloc([STAGES, FORM.BN, FORM.D], DTYPE))
    items, endings = item_pipe(("consumer", "epilogue")), ending_pipe(("epilogue", ))
    if k_scale is None:
        asked = tle.pipe(capacity=1, readers=("consumer", ), name="queries",
                         rows=tle.gpu.alloc([1, WARPS, ROWS, FORM.D], q.dtype.element_ty))
    else:
        asked = tle.pipe(capacity=1, readers=("consumer", ), name="queries",
                         even=tle.gpu.alloc([1, WARPS, FORM.TALL, FORM.D // 2], tl.float16),
                         odd=tle.gpu.alloc([1, WARPS, FORM.TALL, FORM.D // 2], tl.float16))
    sums = tle.pipe(capacity=1, readers=("epilogue", ), name="sums", acc=tle.gpu.alloc([1, WARPS, MANY, FORM.D], tl.float32),
                    highest=tle.gpu.alloc([1, WARPS, MANY], tl.float32), total=tle.gpu.alloc([1, WARPS, MANY], tl.float32))
    begun = tlx.alloc_barriers(1)       # the first queries are there
    factors = tlx.local_alloc((FORM.PARTS, FORM.TALL), tl.float32, 1)
    tl.extra.cuda.gdc_launch_dependents()
    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=216):           # consumer
            if k_scale is not None:
                tl.extra.cuda.gdc_wait()    # here and below: for all that the launches ahead have written
            compute(items.reader("consumer"), asked.reader("consumer"), ring.reader("consumer"), sums.writer(),
                    Scores(scale, inner, None), k_scale, scale_step, problem, FORM)
        with tlx.async_task(num_warps=4, num_regs=216):         # epilogue
            tl.extra.cuda.gdc_wait()
            results = Results(Rows(o, o_b, o_s, o_h), lse, sinks, v_scale, scale_step)
            finish(items.reader("epilogue"), endings.reader("epilogue"), asked.writer(), sums.reader("epilogue"), factors[0],
                   begun[0], columns, Rows(q, q_b, q_s, q_h), results, Workspace(room, slots, flags, 1), problem, FORM)
        with tlx.async_task(num_warps=1, num_regs=40):          # producer
            tl.extra.cuda.gdc_wait()
            load(items.writer(), endings.writer(), ring.writer(), begun[0], Caches(k_desc, v_desc, table, table_row, pages, 1, -1, -1), flags,
                 per, columns, problem, FORM)
