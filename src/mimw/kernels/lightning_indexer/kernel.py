"""scores[s, t] = scale[t] sum over heads h of weights[s, h] relu(q[s, h] . k[t]) on Hopper, in fp8 or in 2-byte types.

Input: descriptors of q, keys and their scales, weights, bounds and scores as pointers. Output: scores are written. For example:

    grid, args, meta = arguments(q, k, weights, scores, programs, k_scale)
    lightning_indexer[grid](*args, **meta)

The product is transposed: its rows are keys, its columns all heads of some queries. So a thread of the tensor core's layout has
many heads of few keys, and the sum over heads is arithmetic in its own registers and two shuffles, where a product with heads as
rows would send all of it through shared memory. Weights stay in registers for all keys of a piece of work.

Pipes: `queries` (heads of the queries of a piece), `keys` (BK keys with their scales). Roles: `load`, FORM.CONSUMERS times `score`,
and with FILL `fill`, which writes -inf where no query of a piece looks. One consumer's products run while another one sums.

Rows of 256 bytes lie in PARTS: the first 128 bytes of all rows, then the others, each part with copies and products of its own, so
that a buffer may have any number of rows (of longer rows TMA and tensor cores place those from number 256 on differently).
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..consumers import consumer, consumers
from .nouns import Cache, Rules
from .schedule import keys_of, page_rows, pieces, queries_of, work_of
from .sums import scales_of, store, sums_of, target_of, weights_of

SCALES_APART = tl.constexpr(32)     # numbers, 128 bytes, at multiples of which TMA writes
WIDE = tl.constexpr(512)    # scores that `fill` writes at a time: 16 bytes a thread


@mimw.jit
def load_queries(queries, turn, desc, work, rules, form):
    """The heads of a piece's queries, those of each consumer as a box of each part."""
    BOX: tl.constexpr = desc.block_shape
    ROWS: tl.constexpr = queries_of(form) * form.HEADS
    slot = queries.acquire(turn)
    row = (work.batch * rules.problem.S + work.query) * form.HEADS
    for part in tl.static_range(form.PARTS):
        for first in tl.static_range(0, ROWS, BOX[0]):
            to = tlx.local_slice(slot.rows, [part * ROWS + first, 0], BOX)
            tle.gpu.copy(desc, to, BOX, [row + first, part * BOX[1]])
    queries.commit(turn)


@mimw.jit
def pages_of(cache, work, rules, form):
    """The pages of a piece of work. One that holds no key that counts is the one behind the last, where TMA reads zeros."""
    if form.PAGE == 0:
        return None
    else:
        number = work.first // form.PAGE + tl.arange(0, form.CHUNK // form.PAGE)
        at = cache.table + work.batch.to(tl.int64) * rules.problem.table_step + number
        return tl.load(at, mask=number * form.PAGE < work.length, other=rules.problem.pages)


@mimw.jit
def place_of(key, pages, work, form):
    """(page, row of the page) of a key: of a warp's pages in registers, so that no copy waits for the table."""
    if form.PAGE == 0:
        return 0, key
    else:
        number = (key - work.first) // form.PAGE
        mine = tl.arange(0, form.CHUNK // form.PAGE) == number
        return tl.sum(tl.where(mine, pages, 0), 0), key % form.PAGE


@mimw.jit
def load_keys(keys, chunk, cache, pages, work, block, form):
    """A block of keys, a box of each part from each of its pages; in pages also their scales."""
    BOX: tl.constexpr = cache.keys.block_shape
    places = ()
    for box in tl.static_range(form.BK // BOX[1]):
        places = places + (place_of(block * form.BK + box * BOX[1], pages, work, form), )
    slot = keys.acquire(chunk)
    rows = tlx.local_reshape(slot.rows, [1, form.PARTS * form.BK, BOX[2]])
    for box in tl.static_range(form.BK // BOX[1]):
        page, at = places[box]
        for part in tl.static_range(form.PARTS):
            to = tlx.local_slice(rows, [0, part * form.BK + box * BOX[1], 0], BOX)
            tle.gpu.copy(cache.keys, to, BOX, [page, at, part * BOX[2]])
        if form.PAGE > 0:
            if cache.scales is not None:
                scales = tlx.local_reshape(slot.scales, [1, slot.scales.shape[0]])
                to = tlx.local_slice(scales, [0, box * max(BOX[1], SCALES_APART)], [1, BOX[1]])
                tle.gpu.copy(cache.scales, to, [1, BOX[1]], [page, at])
    keys.commit(chunk)


@mimw.jit
def load(queries, keys, q_desc, cache, rules, form):
    """All pieces of this program, one after the other."""
    turn, chunk = 0, 0
    for number in range(tl.program_id(0), pieces(rules.problem, form), tl.num_programs(0)):
        work = work_of(number, rules, form)
        if work.low < work.high:
            pages = pages_of(cache, work, rules, form)
            load_queries(queries, turn, q_desc, work, rules, form)
            for block in range(work.low, work.high):
                load_keys(keys, chunk, cache, pages, work, block, form)
                chunk += 1
            turn += 1


@mimw.jit
def loaded_scales(scales, FIRST: tl.constexpr, form):
    """Of a slot's scales those of a consumer's keys, from number FIRST on; of a page's few SCALES_APART have place."""
    PAGE: tl.constexpr = page_rows(form)
    if PAGE >= SCALES_APART:
        return tlx.local_load(tlx.local_slice(scales, [FIRST], [keys_of(form)]))
    else:
        pages = tlx.local_reshape(scales, [form.BK // PAGE, SCALES_APART])
        own = tlx.local_slice(pages, [FIRST // PAGE, 0], [keys_of(form) // PAGE, PAGE])
        return tl.reshape(tlx.local_load(own), (keys_of(form), ))


@mimw.jit
def scores_of(slot, rows, factors, scale, FIRST: tl.constexpr, form):
    """(sums over heads of a slot's keys from number FIRST on: for ROWS after ROWS keys one of each query; the keys' scales, those
    of pages from the slot)."""
    found = ()
    for first in tl.static_range(FIRST, FIRST + keys_of(form), form.ROWS):
        product = None
        for part in tl.static_range(form.PARTS):
            own = tlx.local_slice(slot.rows, [part * form.BK + first, 0], [form.ROWS, slot.rows.shape[1]])
            product = tlx.async_dot(own, tlx.local_trans(rows[part]), product)
        found = found + sums_of(tlx.async_dot_wait(0, product), factors, form)
    if form.PAGE > 0:
        if scale is not None:
            scale = loaded_scales(slot.scales, FIRST, form)[None, :]
    return found, scale


@mimw.jit
def own_queries(rows, first, form):
    """The heads of a consumer's queries, from row number `first` of each part on: one buffer a part."""
    COLUMNS: tl.constexpr = form.QUERIES * form.HEADS
    found = ()
    for part in tl.static_range(form.PARTS):
        at = part * queries_of(form) * form.HEADS + first
        found = found + (tlx.local_slice(rows, [at, 0], [COLUMNS, rows.shape[1]]), )
    return found


@mimw.jit
def score(queries, keys, staged, cache, weights, scores, rules, form, me: tl.constexpr):
    """Consumer `me`: scores of its queries, or of all queries at its part of each slot of keys."""
    COLUMNS: tl.constexpr = form.QUERIES * form.HEADS
    FIRST: tl.constexpr = 0 if form.APART else me * keys_of(form)
    turn, chunk = 0, 0
    for number in range(tl.program_id(0), pieces(rules.problem, form), tl.num_programs(0)):
        work = work_of(number, rules, form)
        if work.low < work.high:
            query = work.query + (me * form.QUERIES if form.APART else 0)
            factors = weights_of(weights, work.batch, query, rules.problem, form)
            target = target_of(scores, work, query, rules, form)
            rows = own_queries(queries.wait(turn).slot.rows, me * COLUMNS if form.APART else 0, form)
            for block in range(work.low, work.high):
                key = block * form.BK + FIRST
                scale = scales_of(cache, key, work, form)
                found, scale = scores_of(keys.wait(chunk).slot, rows, factors, scale, FIRST, form)
                keys.release(chunk)
                store(staged, found, scale, target, key, form)
                chunk += 1
            queries.release(turn)
            turn += 1


@mimw.jit
def fill_keys(scores, work, first, end, rules, form):
    """-inf for all queries of a piece, from key `first` up to `end`."""
    for i in range(queries_of(form)):
        row = scores + (work.batch * rules.problem.S + work.query + i).to(tl.int64) * rules.problem.stride
        stop = tl.where(work.query + i < rules.problem.S, end, first)
        for at in range(first, stop, WIDE):
            key = at + tl.arange(0, WIDE)
            tl.store(row + key, tl.full((WIDE, ), float("-inf"), scores.dtype.element_ty), mask=key < stop)


@mimw.jit
def fill(scores, rules, form):
    """-inf at keys that no consumer scores."""
    for number in range(tl.program_id(0), pieces(rules.problem, form), tl.num_programs(0)):
        work = work_of(number, rules, form)
        if work.low < work.high:
            fill_keys(scores, work, work.first, work.low * form.BK, rules, form)
            fill_keys(scores, work, work.high * form.BK, work.end, rules, form)
        else:
            fill_keys(scores, work, work.first, work.end, rules, form)


@mimw.jit
def lightning_indexer(q_desc, k_desc, scales, weights, scores, starts, ends, lengths, table, problem, FORM: tl.constexpr):
    """scores (B, S, T): fp32 or bf16.

    args:      q_desc  (B S HEADS, D), a box has the heads of QUERIES queries, and of each 1 / PARTS of the columns
               k_desc  (pages, keys of a page, D); of keys in one piece 1 page; boxes as wide
               scales  a pointer (T), fp32, for keys in one piece; else a descriptor (pages, keys of a page); or None
               weights (B, S, HEADS) fp32
               starts, ends   (S), int32, of one sequence, each may be None; lengths (B), int32, or None: T keys each
               table   (B, pages of a sequence), int32, or None
    """
    WIDTH: tl.constexpr = q_desc.block_shape[1]
    TYPE: tl.constexpr = tlx.dtype_of(q_desc)
    CONSUMER_REGS: tl.constexpr = 112 if FORM.CONSUMERS == 4 else 480 // FORM.CONSUMERS
    PAGE: tl.constexpr = page_rows(FORM)
    OTHER_REGS: tl.constexpr = 32 if FORM.CONSUMERS == 3 else 24
    rules, cache = Rules(problem, starts, ends, lengths), Cache(k_desc, scales, table)
    queries = tle.pipe(capacity=FORM.TURNS, readers=consumers(FORM.CONSUMERS), name="queries",
                       rows=tle.gpu.alloc([FORM.TURNS, FORM.PARTS * queries_of(FORM) * FORM.HEADS, WIDTH], TYPE))
    keys = tle.pipe(capacity=FORM.STAGES, readers=consumers(FORM.CONSUMERS), name="keys",
                    rows=tle.gpu.alloc([FORM.STAGES, FORM.PARTS * FORM.BK, WIDTH], TYPE),
                    scales=tle.gpu.alloc([FORM.STAGES, FORM.BK // PAGE * max(PAGE, SCALES_APART)], tl.float32))
    staged = tlx.local_alloc((FORM.QUERIES, keys_of(FORM)), tl.float32, FORM.CONSUMERS)
    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=CONSUMER_REGS, replicate=FORM.CONSUMERS):
            me: tl.constexpr = tlx.async_task_replica_id()
            score(queries.reader(consumer(me)), keys.reader(consumer(me)), staged[me], cache, weights, scores, rules, FORM, me)
        with tlx.async_task(num_warps=1, num_regs=OTHER_REGS):  # load
            load(queries.writer(), keys.writer(), q_desc, cache, rules, FORM)
        if FORM.FILL:
            with tlx.async_task(num_warps=1, num_regs=OTHER_REGS):  # fill
                fill(scores, rules, FORM)
