"""Attention of few queries on a cache of keys and values, for Hopper: every byte of the cache is read once, at memory's speed.

Input: descriptors of the caches' pages, Q, the page table and the lengths as pointers, and sizes. Output: O and lse of the
sequences that one worker read alone; of the others partial sums in `room`, of which `combine` makes the rest. For example:

    launches = arguments(q, k_cache, v_cache, lengths, o, lse, room, programs)
    for kernel, grid, args, meta in launches: kernel[grid](*args, **meta)

Nouns: the queries of all heads that share a head of K and V are the rows of one tile, 64 for each consumer, so that each key
is read once for all of them. `rings` are pipes of blocks of BN keys or values, in turn, `items` pipes of what comes next.
Roles, all persistent: STREAMS producers of one warp, which load page after page by TMA, and two consumers. A worker is a
producer with its consumer, or, where TALL is 2, with both, which then have 64 rows each of the same keys. Each worker has its
split of all blocks (splits.py), so that no SM ends before the others.

Memory is slower than the arithmetic even where one row of the 64 counts: a block takes its SM 1850 cycles at 4.1 TB/s, and each
of two consumers some 1500 of its 3700. So a consumer takes its products one by one; the other one fills the gaps.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ...attention.softmax import softmax
from ...consumers import consumer, consumers
from ...gemm.product import columns
from ..items import item_of, item_pipe, received, send
from ..keys import load_item
from ..nouns import Caches, Item, Problem, Results, Rows, Scores, Sums, Workspace, row_at
from ..results import normalized
from ..scores import clear_rows, softcapped
from ..units import length_of, lowest_key, next_split, unit_of
from .splits import begin, owner, span, splits_of

PAIR, BOTH = tl.constexpr(8), tl.constexpr(256)     # a named barrier of two consumers with 128 threads each


@mimw.jit
def load(items, ring, begun, worker, workers, caches, plan, counter, problem, form):
    """Keys and values of this worker's blocks, in turn. The pages of a block are looked up while the one before is loaded. Who
    begins a tile notes in `plan` whose splits it is of, the first and the last, and where the first one's part lies."""
    unit = unit_of(problem, form)
    chunk, turn, number, splits = 0, 0, worker, workers
    while number < splits:
        at, end, batch, start, total = begin(number, workers, unit, problem, form)
        part = 0
        while at < end:
            length = length_of(problem, batch)
            lowest = lowest_key(length, problem)
            piece = span(at, end, start, length, unit, problem, form)
            item = item_of(piece, batch, at, number, part, length)
            send(items, turn, item)
            whole, units = piece.whole, piece.units
            if at == whole:
                last = number
                if piece.following < whole + units:
                    last = owner(whole + units - 1, total, workers, form.LEAST, form.DRAWN)
                note = tl.arange(0, 4)
                values = tl.where(note == 0, number, tl.where(note == 1, last, part))
                tl.store(plan + (batch * problem.tiles + piece.tile) * 4 + note, values.to(tl.float32))
            head = piece.tile // problem.row_tiles
            at = piece.following
            chunk = load_item(ring, begun, chunk, caches, item, head, lowest, form)
            start = tl.where(piece.over, at, start)
            batch += piece.over.to(tl.int32)
            turn += 1
            part = 1
        number, splits = next_split(counter, splits_of(total, workers, form.DRAWN), workers, form.DRAWN)
    send(items, turn, Item(0, 0, 0, 0, 0, 0))


@mimw.jit
def clear_unseen(values, block, length, lowest, me: tl.constexpr, BN: tl.constexpr, TALL: tl.constexpr):
    """Zeros over the values of keys that no query sees: these rows are not the sequence's, and 0 * NaN is NaN."""
    if (block * BN < lowest) | ((block + 1) * BN > length):
        if me % TALL == 0:
            clear_rows(values, block, length, lowest, BN, 0.0)
            tlx.fence_async_shared()
        if TALL == 2:
            tlx.named_barrier_wait(PAIR, BOTH)


@mimw.jit
def attend(ring, q, chunk, item, lowest, query, rules, problem, me: tl.constexpr, form):
    """Sums of 64 rows, of which row r is of query number query[r], over the item's blocks."""
    ROWS: tl.constexpr = q.shape[0]
    highest, total = tl.full((ROWS, ), float("-inf"), tl.float32), tl.zeros((ROWS, ), tl.float32)
    acc = tl.zeros((ROWS, q.shape[1]), tl.float32)
    last = query + (item.length - problem.queries)
    for block in range(item.first, item.stop):
        k = ring.wait(chunk).slot.rows
        scores = tlx.async_dot(q, tlx.local_trans(k))
        scores = tlx.async_dot_wait(0, scores)
        ring.release(chunk)
        scores = softcapped(scores, rules.inner)
        key = block * form.BN + tl.arange(0, form.BN)
        scores = tl.where(key[None, :] <= last[:, None], scores, float("-inf"))
        if problem.left is not None:
            scores = tl.where(key[None, :] >= (last - problem.left)[:, None], scores, float("-inf"))
        p, highest, total, shrink = softmax(scores, highest, total, rules.scale, True)
        v = ring.wait(chunk + 1).slot.rows
        clear_unseen(v, block, item.length, lowest, me, form.BN, form.TALL)
        acc = tlx.async_dot(p.to(q.dtype), v, acc * shrink[:, None])
        acc = tlx.async_dot_wait(0, acc)
        ring.release(chunk + 1)
        chunk += 2
    return Sums(highest, total, acc)


@mimw.jit
def store_rows(out, place, tile, counts, WIDTH: tl.constexpr):
    """WIDTH columns of the rows that count, from `place` on, 32 columns at a time, which change their layout on the way."""
    PIECES: tl.constexpr = tile.shape[1] // 32
    for piece in tl.static_range(PIECES):
        column = piece * 32 + tl.arange(0, 32)
        inside = counts[:, None] & (column < WIDTH)[None, :]
        tl.store(out + place[:, None] + column[None, :], columns(tile, piece, PIECES).to(out.dtype.element_ty), mask=inside)


@mimw.jit
def compute(items, ring, begun, q_buffer, workspace, q, results, rules, problem, me: tl.constexpr, form):
    """Consumer `me`: its 64 rows of every tile of this worker."""
    chunk, turn = 0, 0
    column = tl.arange(0, form.D)
    queries, group = problem.queries, problem.group
    item = received(items, turn)
    while item.first < item.stop:
        lowest = lowest_key(item.length, problem)
        inside = me % form.TALL * 64 + tl.arange(0, 64)
        packed = item.tile % problem.row_tiles * (64 * form.TALL) + inside
        query, head = packed // group, item.tile // problem.row_tiles * group + packed % group
        counts = packed < queries * group
        place = row_at(q, item.batch, query, head)
        tlx.local_store(q_buffer, tl.load(q.data + place[:, None] + column[None, :],
                                          mask=counts[:, None] & (column < form.WIDTH)[None, :], other=0.0))
        tlx.barrier_arrive(begun, pred=turn == 0)
        sums = attend(ring, q_buffer, chunk, item, lowest, query, rules, problem, me, form)
        chunk += 2 * (item.stop - item.first)
        if item.part < 0:
            scaled = Sums(sums.highest * rules.scale, sums.total, sums.acc)
            logarithm, result = normalized(scaled, head, counts, results.sinks)
            store_rows(results.o.data, row_at(results.o, item.batch, query, head), result, counts, form.WIDTH)
            tl.store(results.lse + (item.batch * problem.heads + head).to(tl.int64) * queries + query, logarithm, mask=counts)
        else:
            rows = tl.minimum(queries * group, 64 * form.TALL)
            place = item.part.to(tl.int64) * rows + inside
            counts = counts & (inside < rows)
            stats = workspace.stats + problem.batches * problem.tiles * 4
            store_rows(stats + workspace.slots.to(tl.int64) * 2 * rows, place * form.D, sums.acc, counts, form.D)
            tl.store(stats + place * 2, sums.highest * rules.scale, mask=counts)
            tl.store(stats + place * 2 + 1, sums.total, mask=counts)
        turn += 1
        item = received(items, turn)


@mimw.jit
def attention_decode(q, k_desc, v_desc, table, lengths, o, lse, room, counter, sinks, scale, inner, splits, left, batches, queries,
                     heads, group, row_tiles, capacity, pages, table_row, q_b, q_s, q_h, o_b, o_s, o_h,
                     STAGES: tl.constexpr, STREAMS: tl.constexpr, FORM: tl.constexpr):
    """O (batches, queries, heads, WIDTH) and lse (batches, heads, queries) of what one worker reads whole, else parts of their
    sums.

    args:      table   (batches, ...) int32, `table_row` apart, the pages of each sequence; None where FORM.PAGE is 0, the caches
                       are one page a sequence
               room    fp32: 4 numbers of each tile, whose splits it is of; for two parts of each split (highest score in base
                       2, sum of probabilities) of each row, then the sums of p V
               counter int32, 0 before and after, for one launch at a time; None where FORM.DRAWN is 0
               scale   of the scores, times log2(e); with a soft cap that cap times log2(e), and scores times `inner` are s /
                       cap
               splits  parts of a sequence at most, None for no bound
               capacity   keys that a cache holds for a sequence; `pages` how many pages there are
               FORM    a Form; columns of tiles from WIDTH on are zeros, which TMA fills in. 2 // STREAMS are TALL
               group, row_tiles   heads that share a head of K and V, and tiles that their queries make
    """
    DTYPE: tl.constexpr = tlx.dtype_of(k_desc)
    TALL: tl.constexpr = FORM.TALL
    MANY_PAGES: tl.constexpr = FORM.PAGE != 0 and FORM.BN > 2 * FORM.PAGE
    CONSUMER_REGS: tl.constexpr = 232 if MANY_PAGES else 240
    LOADER_REGS: tl.constexpr = 40 if MANY_PAGES else 24
    problem = Problem(lengths, batches, heads // group * row_tiles, queries, capacity, left, splits, heads, group, row_tiles)
    workers = STREAMS * tl.num_programs(0)
    rings, items, q_tiles = (), (), ()
    begun = tlx.alloc_barriers(STREAMS, arrive_count=TALL)      # a worker's first queries are there
    for _ in tl.static_range(STREAMS):
        rings = rings + (tle.pipe(capacity=STAGES, readers=consumers(TALL), name="keys and values",
                                  rows=tle.gpu.alloc([STAGES, FORM.BN, FORM.D], DTYPE)), )
        items = items + (item_pipe(consumers(TALL)), )
    for c in tl.static_range(2):
        q_tiles = q_tiles + (tlx.local_alloc((64, FORM.D), DTYPE, 1), )

    # The second step may take the place of each program that ends; it waits for all of them before it reads their sums.
    tl.extra.cuda.gdc_launch_dependents()
    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=CONSUMER_REGS, replicate=2):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            name: tl.constexpr = consumer(me % TALL)
            results = Results(Rows(o, o_b, o_s, o_h), lse, sinks, None, None)
            compute(items[me // TALL].reader(name), rings[me // TALL].reader(name), begun[me // TALL], q_tiles[me][0],
                    Workspace(room, 2 * workers * (1 if FORM.DRAWN == 0 else 2), None, None), Rows(q, q_b, q_s, q_h), results,
                    Scores(scale, inner, None), problem, me, FORM)
        with tlx.async_task(num_warps=1, num_regs=LOADER_REGS, replicate=STREAMS):  # producer
            stream: tl.constexpr = tlx.async_task_replica_id()
            load(items[stream].writer(), rings[stream].writer(), begun[stream], stream * tl.num_programs(0) + tl.program_id(0),
                 workers, Caches(k_desc, v_desc, table, table_row, pages), room, counter, problem, FORM)
