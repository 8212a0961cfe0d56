"""O = softmax(scale Q K^T) V of sequences of any lengths, packed one behind the other, on Hopper: one launch, and the host waits
for no length.

Input: descriptors of Q, K, V and O, where the sequences begin, `lse` and `counter`. Output: O and lse are written. For example:

    grid, args, meta = arguments(q, k, v, o, lse, cu_q, cu_k, counter, programs, 500, 500)
    attention_varlen[grid](*args, **meta)

Nouns and roles are ../attention's; what differs is where a tile is (schedule.py), and what lies behind a sequence: rows of the next
one. Queries of the next one are computed and dropped, keys of it are masked. Values of it would meet probabilities of 0, and
0 times what they are may be NaN; results must not be written there. So V and O are described as tensors that end with a sequence
(maps.py).
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..attention.heads import has_rest, inputs_of, pipes
from ..attention.nouns import Changes, Columns, Operands, Problem, Scores
from ..consumers import consumer
from .compute import compute
from .maps import FAR
from .schedule import blocks_at, is_one, next_tile, orders, schedule, sizes


@mimw.jit
def load_rows(descs, pipe, chunk, head, row):
    """Chunk number `chunk`: the rows of a head from `row` of all rows on."""
    slot = pipe.acquire(chunk)
    tle.gpu.copy(descs.first, tlx.local_reshape(slot.rows, descs.first.block_shape), descs.first.block_shape, [head, row, 0])
    if has_rest(slot):
        tle.gpu.copy(descs.rest, tlx.local_reshape(slot.rest, descs.rest.block_shape), descs.rest.block_shape,
                     [head, row, slot.rows.shape[1]])
    pipe.commit(chunk)


@mimw.jit
def load_rows_to(end, descs, pipe, chunk, head, row):
    """The same, but zeros from row `end` of all rows on."""
    slot = pipe.acquire(chunk)
    tle.gpu.copy(descs.first, tlx.local_reshape(slot.rows, descs.first.block_shape), descs.first.block_shape,
                 [FAR, end, head, FAR - (end - row), 0])
    if has_rest(slot):
        tle.gpu.copy(descs.rest, tlx.local_reshape(slot.rest, descs.rest.block_shape), descs.rest.block_shape,
                     [FAR, end, head, FAR - (end - row), slot.rows.shape[1]])
    pipe.commit(chunk)


@mimw.jit
def load(queries, keys, values, order, of, problem, form):
    """Queries, keys and values in the order in which the consumers need them: a block's values after the next block's keys."""
    turn, first = 0, 0
    last_head, last_row, last_end = 0, 0, 0     # of the values that are yet to come; rows are counted through all sequences
    tile = next_tile(order, 0)
    while is_one(tile):
        blocks = blocks_at(tile, sizes(tile, problem), form)
        for c in tl.static_range(form.CONSUMERS):
            load_rows(of.q, queries[c].writer(), turn, tile.head, tile.q_start + tile.query + c * (form.BM // form.CONSUMERS))
        head = tile.head // form.GROUP
        end = first + blocks.count
        low = blocks.low + tile.k_start
        load_rows(of.k, keys, first, head, low + (blocks.count - 1) * form.BN)
        if form.AHEAD and first > 0:
            load_rows_to(last_end, of.v, values, first - 1, last_head, last_row)
        last_head, last_row, last_end = head, low, tile.k_start + tile.k_length
        for block in range(first + 1, end):
            load_rows(of.k, keys, block, head, low + (end - 1 - block) * form.BN)
            load_rows_to(last_end, of.v, values, block - 1, head, low + (end - block) * form.BN)
        if not form.AHEAD:
            load_rows_to(last_end, of.v, values, end - 1, head, low)
        first = end
        turn += 1
        tile = next_tile(order, turn)
    if form.AHEAD and first > 0:
        load_rows_to(last_end, of.v, values, first - 1, last_head, last_row)


@mimw.jit
def store(results, order, o_descs, form):
    """Results to O, up to the end of their sequence; a slot is free for the next queries when TMA has read it."""
    turn = 0
    tile = next_tile(order, 0)
    while is_one(tile):
        head, query, q_start, q_length = tile.head, tile.query, tile.q_start, tile.q_length
        tile = next_tile(order, turn + 1)  # before the waits: the scheduler goes on only when all have received it
        for c in tl.static_range(form.CONSUMERS):
            result = results[c].reader()
            slot = result.wait(turn).slot
            row = FAR - (q_length - query - c * (form.BM // form.CONSUMERS))
            tlx.async_descriptor_store(o_descs.first, tlx.local_reshape(slot.rows, o_descs.first.block_shape),
                                       [FAR, q_start + q_length, head, row, 0])
            if has_rest(slot):
                tlx.async_descriptor_store(o_descs.rest, tlx.local_reshape(slot.rest, o_descs.rest.block_shape),
                                           [FAR, q_start + q_length, head, row, slot.rows.shape[1]])
            tlx.async_descriptor_store_wait(0)
            result.release(turn)
        turn += 1


@mimw.jit(do_not_specialize=["sequences", "total_q"])     # new in every call of some: one binary for all
def attention_varlen(q_desc, k_desc, v_desc, o_desc, lse, cu_q, cu_k, counter, scale, sequences, heads, total_q, keys_in_l2, left,
                     right, inner, sinks, slopes, slopes_step, q_rest, k_rest, v_rest, o_rest, FORM: tl.constexpr):
    """O (total_q, heads, V_D + V_REST) and the natural logarithms of the softmax's denominators, (heads, total_q).

    args:      cu_q, cu_k   (sequences + 1, ) int32: where the queries and keys of each sequence begin, and the last ones end
               counter int32, 0 before and after a launch; one launch at a time may use it
               keys_in_l2   keys and values of a head that the L2 cache is to hold: heads of causal sequences are numbered together
               FORM    ../attention's, with two or more slots of queries with AHEAD; MASKED is 1, or 2 with CAUSAL or bounds, since
                       nobody knows the lengths
               all others as ../attention's
    """
    DTYPE: tl.constexpr = tlx.dtype_of(q_desc)
    CONSUMER_REGS: tl.constexpr = 240 if FORM.CONSUMERS == 2 else 160
    OTHER_REGS: tl.constexpr = 24 if FORM.CONSUMERS == 2 else 32
    problem = Problem(heads, 0, 0, left, right, 1, None)     # of all sequences; each has lengths of its own
    rules = Scores(scale, problem, Changes(inner, sinks, slopes, slopes_step))
    of = Operands(Columns(q_desc, q_rest), Columns(k_desc, k_rest), Columns(v_desc, v_rest), Columns(o_desc, o_rest))
    queries, results, keys, values = pipes(DTYPE, FORM)
    order = orders(FORM.CONSUMERS)

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=CONSUMER_REGS, replicate=FORM.CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            compute(queries[me].reader(), results[me].writer(), inputs_of(keys, values, me), order.reader(consumer(me)), lse,
                    total_q, rules, FORM)
        with tlx.async_task(num_warps=1, num_regs=OTHER_REGS):  # producer
            load(queries, keys.writer(), values.writer(), order.reader("load"), of, problem, FORM)
        with tlx.async_task(num_warps=1, num_regs=OTHER_REGS):  # scheduler
            schedule(order.writer(), counter, cu_q, cu_k, sequences, heads, keys_in_l2, left, FORM.BM, FORM.GROUP, FORM.CAUSAL)
        with tlx.async_task(num_warps=1, num_regs=OTHER_REGS):  # writer
            store(results, order.reader("store"), of.o, FORM)
