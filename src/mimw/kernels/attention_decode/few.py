"""Attention of up to 16 rows on a cache of keys and values, for Hopper: one launch, every byte of the cache read once.

Input: descriptors of the caches' pages, Q, the page table and the lengths as pointers, sizes, and flags that are 0. Output: O and
lse, and flags that are 0. For example:

    ((kernel, grid, args, meta), ) = arguments(q, k_cache, v_cache, lengths, o, lse, room, programs, flags=flags)
    kernel[grid](*args, **meta)

Nouns: the queries of all heads that share a head of K and V are the rows of one tile of 16. `ring` is a pipe of BN keys with their
values, `items` tells what comes next, `endings` who else has keys of it. Roles, persistent: a producer of one warp, which loads
page after page by TMA, and a consumer of four. Each of the consumer's warps has a quarter of every block's keys and sums of its
own, a batch of four products for the compiler: a block costs one wait and one release, and no exchange between warps, which add
up what they have when a tile's keys end. Where a tile was cut into shares (even.py), who comes last adds the parts in the order
of keys, so results are the same from run to run.

The launch may begin before the one ahead has ended; it waits for all that is written there before it reads anything.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .ending import write
from .even import begin, owner, share, shares_of, span
from .kernel import pages_at, tell, told
from .schedule import draw, length_of, lowest_key, unit_of
from .warps import ROWS, WARPS, attend, load_block, rows_of, tell_ending, told_ending


@mimw.jit
def load(items, endings, ring, begun, k_desc, v_desc, lengths, table, table_row, flags, splits, shape, NONE, PAGE: tl.constexpr,
         BN: tl.constexpr, BATCH: tl.constexpr, ONCE: tl.constexpr, LEAST: tl.constexpr, DRAWN: tl.constexpr):
    """Keys and values of this program's blocks, in turn. The pages of a block are looked up while the one before is loaded."""
    workers = tl.num_programs(0)
    unit = unit_of(lengths, splits, shape, BN, BATCH)
    chunk, turn, number, shares = 0, 0, tl.program_id(0), workers
    while number < shares:
        at, end, batch, length, start, total, sizes = begin(number, workers, lengths, unit, shape, BN, BATCH, ONCE, LEAST, DRAWN)
        part = 0
        while at < end:
            lowest = lowest_key(length, shape)
            tile, first, stop, whole, units, following, over = span(at, end, start, length, unit, shape, BN)
            alone = (at == whole) & (following == whole + units)
            tell(items, turn, batch, tile, first, stop, tl.where(alone, -1, number * 2 + part), length)
            # The first queries are asked for behind one block, not behind a whole ring of each SM.
            if PAGE == 0:
                for block in range(first, stop):
                    tlx.barrier_wait(begun, 0, pred=chunk == 1)
                    load_block(ring, chunk, k_desc, v_desc, (batch, ), tile, block * BN, BN)
                    chunk += 1
            else:
                pages = pages_at(first, table, batch, table_row, length, lowest, PAGE, BN, NONE)
                for block in range(first, stop):
                    tlx.barrier_wait(begun, 0, pred=chunk == 1)
                    next_pages = pages_at(block + 1, table, batch, table_row, length, lowest, PAGE, BN, NONE)
                    load_block(ring, chunk, k_desc, v_desc, pages, tile, block * BN % PAGE, BN)
                    pages = next_pages
                    chunk += 1
            of_first, of_last = owner(whole, sizes, workers), owner(whole + units - 1, sizes, workers)
            begins, _ = share(of_first, sizes, total, workers)
            tell_ending(endings, turn, of_first, of_last - of_first + 1, (begins < whole).to(tl.int32))
            at = following
            start = tl.where(over, at, start)
            batch += over.to(tl.int32)
            if at < end:
                length = length_of(lengths, batch, shape)
            turn += 1
            part = 1
        if DRAWN == 0:
            number = shares
        else:
            shares = shares_of(sizes, total, workers)
            number = shares
            if shares > workers:
                number = draw(flags, shares, workers)
    tell(items, turn, 0, 0, 0, 0, 0, 0)


@mimw.jit
def added(sums, highest, total, acc):
    """(highest scores, sums of probabilities, sums of p V) of all warps' keys, by way of the buffer `sums`."""
    top = tl.max(highest, 0)
    base = tl.where(top == float("-inf"), 0.0, top)
    shrink = tl.exp2(highest - base[None, :])
    tlx.local_store(sums, acc * shrink[:, :, None])
    D: tl.constexpr = acc.shape[2]
    whole = tl.zeros((ROWS, D), tl.float32)
    for warp in tl.static_range(WARPS):
        whole += tl.reshape(tlx.local_load(tlx.local_slice(sums, [warp, 0, 0], [1, ROWS, D])), (ROWS, D))
    return top, tl.sum(total * shrink, 0), whole


@mimw.jit
def all_parts(stats, sums, first, count, place, rows, D: tl.constexpr, TALL: tl.constexpr, PARTS: tl.constexpr):
    """(highest scores, sums of probabilities, sums of p V) of the parts of `count` shares from `first` on, PARTS at a time."""
    inside, columns = tl.arange(0, TALL), tl.arange(0, D)
    highest, total = tl.full((TALL, ), float("-inf"), tl.float32), tl.zeros((TALL, ), tl.float32)
    acc = tl.zeros((TALL, D), tl.float32)
    for number in range(first, first + count, PARTS):
        one = number + tl.arange(0, PARTS)
        there = (one < first + count)[:, None] & (inside < rows)[None, :]
        at = (one * 2 + tl.where(one == first, place, 0))[:, None] * rows + inside[None, :]
        score = tl.load(stats + at * 2, mask=there, other=float("-inf"), cache_modifier=".cg")
        weight = tl.load(stats + at * 2 + 1, mask=there, other=0.0, cache_modifier=".cg")
        part = tl.load(sums + at[:, :, None] * D + columns[None, None, :], mask=there[:, :, None], other=0.0, cache_modifier=".cg")
        before, highest = highest, tl.maximum(highest, tl.max(score, 0))
        base = tl.where(highest == float("-inf"), 0.0, highest)
        shrink, factor = tl.exp2(before - base), tl.exp2(score - base[None, :])
        total = total * shrink + tl.sum(weight * factor, 0)
        acc = acc * shrink[:, None] + tl.sum(part * factor[:, :, None], 0)
    return highest, total, acc


@mimw.jit
def compute(items, endings, ring, begun, q_buffer, sums_buffer, slots, q, q_steps, o, o_steps, lse, room, flags, scale, inner,
            sinks, shape, group, heads, D: tl.constexpr, WIDTH: tl.constexpr, BN: tl.constexpr, TALL: tl.constexpr,
            PARTS: tl.constexpr):
    """The rows of every tile that this program has keys of. The queries of the next one are asked for before this one's sums
    are written."""
    chunk, turn = 0, 0
    batch, tile, first, stop, part, length = told(items, turn)
    rows = rows_of(q, q_steps, batch, tile, group, shape, ROWS, D, WIDTH)
    while first < stop:
        lowest = lowest_key(length, shape)
        for warp in tl.static_range(WARPS):
            tlx.local_store(tlx.local_slice(q_buffer, [warp, 0, 0], [1, ROWS, D]), tl.reshape(rows, (1, ROWS, D)))
        tlx.barrier_arrive(begun, pred=turn == 0)
        highest, total, acc = attend(ring, tlx.local_load(q_buffer), chunk, first, stop, length, lowest, group, scale, inner,
                                     shape, BN)
        chunk += stop - first
        turn += 1
        next_batch, next_tile, first, stop, next_part, length = told(items, turn)
        rows = rows_of(q, q_steps, next_batch, next_tile, group, shape, ROWS, D, WIDTH)
        highest, total, acc = added(sums_buffer, highest, total, acc)
        if part < 0:
            told_ending(endings, turn - 1)
            write(highest, total, acc, batch, tile, o, o_steps, lse, sinks, None, None, group, heads, shape, WIDTH)
        else:
            many = shape[2] * group
            inside, column = tl.arange(0, ROWS), tl.arange(0, D)
            place = part * many + inside
            counts = inside < many
            sums = room + slots * 2 * many
            tl.store(sums + place[:, None] * D + column[None, :], acc, mask=counts[:, None])
            tl.store(room + place * 2, highest, mask=counts)
            tl.store(room + place * 2 + 1, total, mask=counts)
            of_first, count, at = told_ending(endings, turn - 1)
            came = tl.atomic_add(flags + 1 + of_first, 1, sem="acq_rel", scope="gpu")
            if came == count - 1:
                tl.atomic_xchg(flags + 1 + of_first, 0, sem="relaxed", scope="gpu")
                top, weight, whole = all_parts(room, sums, of_first, count, at, many, D, TALL, PARTS)
                write(top, weight, whole, batch, tile, o, o_steps, lse, sinks, None, None, group, heads, shape, WIDTH)
        batch, tile, part = next_batch, next_tile, next_part


@mimw.jit
def attention_decode_few(q, k_desc, v_desc, table, lengths, o, lse, room, flags, sinks, scale, inner, splits, left, batches,
                         queries, heads, group, capacity, pages, slots, table_row, q_b, q_s, q_h, o_b, o_s, o_h, D: tl.constexpr,
                         WIDTH: tl.constexpr, BN: tl.constexpr, PAGE: tl.constexpr, STAGES: tl.constexpr, CTAS: tl.constexpr,
                         LEAST: tl.constexpr, DRAWN: tl.constexpr, BATCH: tl.constexpr, ONCE: tl.constexpr, TALL: tl.constexpr,
                         PARTS: tl.constexpr):
    """O (batches, queries, heads, WIDTH) and lse (batches, heads, queries); arguments as those of `attention_decode`, but for

    args:      room    fp32: for two parts of each of `slots` / 2 shares (highest score in base 2, sum of probabilities) of each
                       row, then the sums of p V
               flags   int32, 0 before and after, for one launch at a time: a counter of shares that are drawn, then one number
                       for each share: how many parts there are of the tile that begins in it and goes on in the next one
               CTAS    programs that share an SM
               TALL    rows of a tile when parts are added, a power of 2, PARTS of them at a time
    """
    DTYPE: tl.constexpr = tlx.dtype_of(k_desc)
    REGS: tl.constexpr = None if CTAS == 1 else 208
    LOADER_REGS: tl.constexpr = None if CTAS == 1 else 40
    shape = batches, heads // group, queries, capacity, left
    ring = tle.pipe(capacity=STAGES, readers=("consumer", ), name="keys and values",
                    k=tle.gpu.alloc([STAGES, BN, D], DTYPE), v=tle.gpu.alloc([STAGES, BN, D], DTYPE))
    items = tle.pipe(capacity=2, readers=("consumer", ), name="items", batch=tle.gpu.alloc([2, 1], tl.int32),
                     tile=tle.gpu.alloc([2, 1], tl.int32), first=tle.gpu.alloc([2, 1], tl.int32),
                     stop=tle.gpu.alloc([2, 1], tl.int32), part=tle.gpu.alloc([2, 1], tl.int32),
                     length=tle.gpu.alloc([2, 1], tl.int32))
    endings = tle.pipe(capacity=2, readers=("consumer", ), name="endings", first=tle.gpu.alloc([2, 1], tl.int32),
                       count=tle.gpu.alloc([2, 1], tl.int32), place=tle.gpu.alloc([2, 1], tl.int32))
    begun = tlx.alloc_barriers(1)       # the first queries are there
    both = tlx.storage_alias_spec()     # queries are in registers before sums are written, sums read before the next queries come
    q_buffer = tlx.local_alloc((WARPS, ROWS, D), DTYPE, 1, reuse=both)
    sums = tlx.local_alloc((WARPS, ROWS, D), tl.float32, 1, reuse=both)
    both.set_buffer_overlap(tlx.reuse_group(q_buffer, sums))
    tl.extra.cuda.gdc_launch_dependents()
    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=REGS):      # consumer
            tl.extra.cuda.gdc_wait()        # here and below: for all that the launches ahead have written
            compute(items.reader("consumer"), endings.reader("consumer"), ring.reader("consumer"), begun[0], q_buffer[0], sums[0],
                    slots, q, (q_b, q_s, q_h), o, (o_b, o_s, o_h), lse, room, flags, scale, inner, sinks, shape, group, heads, D,
                    WIDTH, BN, TALL, PARTS)
        with tlx.async_task(num_warps=1, num_regs=LOADER_REGS):     # producer
            tl.extra.cuda.gdc_wait()
            load(items.writer(), endings.writer(), ring.writer(), begun[0], k_desc, v_desc, lengths, table, table_row, flags,
                 splits, shape, pages, PAGE, BN, BATCH, ONCE, LEAST, DRAWN)
