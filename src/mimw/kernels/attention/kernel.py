"""O = softmax(scale Q K^T) V on Hopper: one warp loads tiles with TMA, warpgroups compute, two more warps schedule and
store.

Input: descriptors of Q, K, V and O, `lse` and `counter` as pointers, and the sizes. Output: O and lse are written. For
example:

    grid, args, meta = arguments(q, k, v, o, lse, counter, programs)
    attention[grid](*args, **meta)

Nouns, all pipes of rows of heads but the last (heads of 96 and 192 may be two tiles: heads.py):

    queries, results   load -> compute -> store: a consumer writes the results over the queries that they are made of
    keys, values       load -> every consumer, BN rows at a time
    order              schedule -> all others: the number of the tile that comes next

Roles: `load`, FORM.CONSUMERS times `compute`, `store`, `schedule`. Tiles are counted by `turn`, blocks of keys and values by
`block`, each through all the tiles of a program; consumer c has chunk number turn * CONSUMERS + c of queries and
results.

A consumer is always one block of keys ahead: while the scores of a block go through the softmax, the tensor cores
multiply the probabilities of the block before with their values (`step`). With AHEAD this overlap goes on over the end
of a tile: the first scores of the next one are computed beside the last product of this one. Blocks are taken from the
last key to the first, so the blocks that a mask touches come first. With PING_PONG the consumers start their products
in turn.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..consumers import consumer, consumers
from .compute import compute
from .heads import has_rest, inputs_of, pipes
from .nouns import Changes, Columns, Mod, Operands, Problem, Scores
from .schedule import next_tile, number_of_tiles, schedule, tile_at, window_at


@mimw.jit
def load_rows(descs, pipe, chunk, batch, head, row):
    """Chunk number `chunk`: the rows of a head from `row` on."""
    slot = pipe.acquire(chunk)
    tle.gpu.copy(descs.first, tlx.local_reshape(slot.rows, descs.first.block_shape), descs.first.block_shape, [batch, head, row, 0])
    if has_rest(slot):
        tle.gpu.copy(descs.rest, tlx.local_reshape(slot.rest, descs.rest.block_shape), descs.rest.block_shape,
                     [batch, head, row, slot.rows.shape[1]])
    pipe.commit(chunk)


@mimw.jit
def load(queries, keys, values, order, of, problem, form):
    """Queries, keys and values in the order in which the consumers need them: a block's values after the next block's keys."""
    number = tl.program_id(0)
    turn, first = 0, 0
    last_batch, last_head, last_low = 0, 0, 0  # of the tile before; `low` is the first key that a tile looks at
    while number < number_of_tiles(problem, form):
        tile = tile_at(number, problem, form)
        batch = tile.batch
        low, _ = window_at(tile.query, problem, form)
        for c in tl.static_range(form.CONSUMERS):
            load_rows(of.q, queries[c].writer(), turn, batch, tile.head, tile.query + c * (form.BM // form.CONSUMERS))
        head = tile.head // form.GROUP
        end = first + tile.count
        load_rows(of.k, keys, first, batch, head, low + (tile.count - 1) * form.BN)
        if form.AHEAD and first > 0:
            load_rows(of.v, values, first - 1, last_batch, last_head, last_low)
        for block in range(first + 1, end):
            load_rows(of.k, keys, block, batch, head, low + (end - 1 - block) * form.BN)
            load_rows(of.v, values, block - 1, batch, head, low + (end - block) * form.BN)
        if not form.AHEAD:
            load_rows(of.v, values, end - 1, batch, head, low)
        last_batch, last_head, last_low = batch, head, low
        first = end
        number = next_tile(order, turn)
        turn += 1
    if form.AHEAD:
        load_rows(of.v, values, first - 1, last_batch, last_head, last_low)


@mimw.jit
def store(results, order, o_descs, problem, form):
    """Results to O; a slot is free for the next queries when TMA has read it."""
    number = tl.program_id(0)
    turn = 0
    while number < number_of_tiles(problem, form):
        tile = tile_at(number, problem, form)
        number = next_tile(order, turn)  # before the waits: the scheduler goes on only when all have received it
        for c in tl.static_range(form.CONSUMERS):
            result = results[c].reader()
            slot = result.wait(turn).slot
            row = tile.query + c * (form.BM // form.CONSUMERS)
            tlx.async_descriptor_store(o_descs.first, tlx.local_reshape(slot.rows, o_descs.first.block_shape),
                                       [tile.batch, tile.head, row, 0])
            if has_rest(slot):
                tlx.async_descriptor_store(o_descs.rest, tlx.local_reshape(slot.rest, o_descs.rest.block_shape),
                                           [tile.batch, tile.head, row, slot.rows.shape[1]])
            tlx.async_descriptor_store_wait(0)
            result.release(turn)
        turn += 1


@mimw.jit
def attention(q_desc, k_desc, v_desc, o_desc, lse, counter, scale, batches, heads, seq_q, seq_k, band, left, right, inner, sinks,
              slopes, slopes_step, tables, q_rest, k_rest, v_rest, o_rest, FORM: tl.constexpr, MOD: tl.constexpr = None):
    """O (batches, heads, seq_q, V_D + V_REST) and the natural logarithms of the softmax's denominators, (batches, heads, seq_q).

    args:      counter int32, 0 before and after a launch; one launch at a time may use it
               scale   of the scores, times log2(e); with a soft cap that cap times log2(e), with a score_mod log2(e)
               band    heads whose tiles are numbered together
               left, right   how many keys before and after its own position a query sees, None for all; with CAUSAL right is None
               inner, sinks, slopes, slopes_step   what changes the scores, each None for a launch without it: see softmax.py
               tables, MOD   what a score_mod reads, and its function; None without one
               q_rest, k_rest, v_rest, o_rest   the same tensors, by blocks of the REST or V_REST columns behind the D or V_D
                       first ones of a head; None where these are 0
               FORM    a LaunchForm: GROUP query heads to a head of K and V; MASKED: how many blocks of keys of a tile may need a
                       mask, 0, 1, or 2 for any number; AHEAD: start a tile before the last one is finished, which takes two
                       slots of queries; LATE: cast probabilities in front of the next step's products, not where they are made
                       (compute.py, `made`)
    """
    DTYPE: tl.constexpr = tlx.dtype_of(q_desc)
    CONSUMER_REGS: tl.constexpr = 240 if FORM.CONSUMERS == 2 else 160
    OTHER_REGS: tl.constexpr = 24 if FORM.CONSUMERS == 2 else 32
    problem = Problem(heads, seq_q, seq_k, left, right, batches, band)
    rules = Scores(scale, problem, Changes(inner, sinks, slopes, slopes_step, None if MOD is None else Mod(MOD, tables)))
    of = Operands(Columns(q_desc, q_rest), Columns(k_desc, k_rest), Columns(v_desc, v_rest), Columns(o_desc, o_rest))

    queries, results, keys, values = pipes(DTYPE, FORM)
    order = tle.pipe(capacity=1, readers=consumers(FORM.CONSUMERS, "load", "store"), name="order",
                     tile=tle.gpu.alloc([1, 1], tl.int32))

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=CONSUMER_REGS, replicate=FORM.CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            compute(queries[me].reader(), results[me].writer(), inputs_of(keys, values, me), order.reader(consumer(me)), lse,
                    rules, FORM)
        with tlx.async_task(num_warps=FORM.LOAD_WARPS, num_regs=OTHER_REGS):  # producer
            load(queries, keys.writer(), values.writer(), order.reader("load"), of, problem, FORM)
        with tlx.async_task(num_warps=1, num_regs=OTHER_REGS):  # scheduler
            schedule(order.writer(), counter, problem, FORM)
        with tlx.async_task(num_warps=1, num_regs=OTHER_REGS):  # writer
            store(results, order.reader("store"), of.o, problem, FORM)
