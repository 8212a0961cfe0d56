"""O = softmax(scale Q K^T) V of a sequence that lies on several GPUs, on Hopper: one launch on each of them.

Input: descriptors of this rank's Q, K, V and O and of the gathered K and V, pointers for the puts, `lse`, and the table of the
ranks. Output: O and lse of this rank's queries. For example:

    grid, args, meta = arguments(q, k, v, o, lse, counter, work, rank, programs)
    ring_attention[grid](*args, **meta)

Nouns and roles are ../attention's. What is new: the first PUTTERS programs put this rank's keys and values into all other
ranks' memory before they compute (gather.py), and `load` takes blocks of keys in the order in which they come to be there: its
own chunk from the rank's own arrays, then those of the ranks behind it, each when its signal has come. Programs draw tiles, so
those that put draw fewer, and all end together.

Why not a ring: on one host every GPU reaches every other one at the link's full speed, so passing chunks on would only make
the last ones later, and each step of a ring is a launch whose results are merged with those of the step before: O in fp32 is
written and read N - 1 times more. Here nothing is merged: one softmax goes over all keys, as they come. The price is memory:
keys and values of the whole sequence at every rank, 2 x kv_heads x rows x dim numbers of 16 bits a batch. Heads have nothing
to do with each other, so a call for some of the heads at a time needs memory for those only (the operator's `room`).
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..attention import compute as attention
from ..attention.heads import inputs_of, pipes
from ..attention.kernel import load_rows, store
from ..attention.nouns import Changes, Columns, Operands, Problem, Scores
from ..attention.schedule import next_tile, number_of_tiles, schedule
from ..consumers import consumer, consumers
from .compute import compute
from .gather import Arrivals, KeysAndValues, Strides, arrived, enter, put
from .places import Zigzag, seen, tile_at


@mimw.jit
def load_keys(of, keys, values, first, count, batch, head, row, BN: tl.constexpr):
    """`count` blocks of keys and values from `row` on, the last one first, as blocks number `first` and so on; a block's values
    after the next block's keys. Gives the number of the block that comes next."""
    end = first + count
    if count > 0:
        load_rows(of.k, keys, first, batch, head, row + (count - 1) * BN)
        for block in range(first + 1, end):
            load_rows(of.k, keys, block, batch, head, row + (end - 1 - block) * BN)
            load_rows(of.v, values, block - 1, batch, head, row + (end - block) * BN)
        load_rows(of.v, values, end - 1, batch, head, row)
    return end


@mimw.jit
def load(queries, keys, values, order, own, whole, arrivals, problem, zigzag, form):
    """Queries, then keys and values: this rank's own, then those of each rank behind it, when they are there."""
    me, size = tlx.world_rank(arrivals.world), tlx.world_size(arrivals.world)
    kv_heads = problem.heads // form.GROUP
    number = tl.program_id(0)
    turn, block = 0, 0
    while number < number_of_tiles(problem, form):
        tile = tile_at(number, problem, zigzag, form)
        batch = tile.batch
        for c in tl.static_range(form.CONSUMERS):
            load_rows(own.q, queries[c].writer(), turn, batch, tile.head, tile.query + c * (form.BM // form.CONSUMERS))
        head = tile.head // form.GROUP
        block = load_keys(own, keys, values, block, tile.own, batch, head, 0, form.BN)
        for step in range(1, size):
            source = tl.where(step > me, me + size - step, me - step)       # the rank behind puts its keys here first
            count = seen(source, me, tile.part, zigzag, form.CAUSAL)
            if count > 0:
                arrived(arrivals, source, batch * kv_heads + head)
                block = load_keys(whole, keys, values, block, count, batch, head, source * problem.seq_q, form.BN)
        number = next_tile(order, turn)
        turn += 1


@mimw.jit(do_not_specialize=["seen_rows", "extra", "late_extra"])     # one binary for all ranks
def ring_attention(q_desc, k_desc, v_desc, o_desc, whole_k_desc, whole_v_desc, k, v, whole_k, whole_v, flags, state, lse, counter,
                   world, scale, batches, heads, rows, seen_rows, band, chunk_blocks, extra, late_extra, piece_shift, k_batch,
                   k_head, k_row, v_batch, v_head, v_row, PARTS: tl.constexpr, PUTTERS: tl.constexpr, FORM: tl.constexpr):
    """O of this rank's rows, (batches, heads, rows, D), and the natural logarithms of the softmax's denominators.

    args:      *_desc  this rank's arrays, and whole_* (batches, kv_heads, rows of rank 0, of rank 1, ..., D)
               k, v    pointers to this rank's keys and values, with their strides in elements
               whole_k, whole_v    pointers to the symmetric arrays of whole_*_desc
               flags   symmetric int64, PIECES for each rank; state two int64: gather.py. Both 0 before the first call of all
               counter int32, 0 before and after a launch; one launch at a time may use it
               scale   of the scores, times log2(e)
               rows    of this rank; a chunk is chunk_blocks blocks of BN, and tiles of BM divide it
               seen_rows   with PARTS = 1: keys that the last query sees
               lse     (batches, heads, rows) fp32
               band    heads whose tiles are numbered together
               extra, late_extra   places.py's `extras`
               piece_shift     a piece is 2^piece_shift units
               PARTS   chunks of a rank (places.py)
               PUTTERS how many programs put, no more than there are; 0 where there is one rank
               FORM and others     as ../attention's
    """
    DTYPE: tl.constexpr = tlx.dtype_of(q_desc)
    CONSUMER_REGS: tl.constexpr = 240 if FORM.CONSUMERS == 2 else 160
    OTHER_REGS: tl.constexpr = 24 if FORM.CONSUMERS == 2 else 32
    problem = Problem(heads, rows, rows, None, None, batches, band)
    rules = Scores(scale, problem, Changes(None, None, None, None))
    zigzag = Zigzag(chunk_blocks, extra, late_extra, PARTS)

    queries, results, keys, values = pipes(DTYPE, FORM)
    order = tle.pipe(capacity=1, readers=consumers(FORM.CONSUMERS, "load", "store"), name="order",
                     tile=tle.gpu.alloc([1, 1], tl.int32))
    base = enter(state, PUTTERS)
    if tl.program_id(0) < PUTTERS:
        steps = KeysAndValues(Strides(k_batch, k_head, k_row), Strides(v_batch, v_head, v_row))
        put(KeysAndValues(k, v), KeysAndValues(whole_k, whole_v), flags, piece_shift, steps, batches, heads // FORM.GROUP, rows,
            world, tl.program_id(0), FORM.D, PUTTERS)

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=CONSUMER_REGS, replicate=FORM.CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            inputs = inputs_of(keys, values, me)
            if PARTS == 1:      # as if the rank's rows were the last of a sequence of `seen_rows` rows
                of_all = rules.replace(problem=problem.replace(seq_k=seen_rows))
                attention.compute(queries[me].reader(), results[me].writer(), inputs, order.reader(consumer(me)), lse, of_all, FORM)
            else:
                compute(queries[me].reader(), results[me].writer(), inputs, order.reader(consumer(me)), lse, rules, zigzag, FORM)
        with tlx.async_task(num_warps=1, num_regs=OTHER_REGS):  # producer
            own = Operands(Columns(q_desc, None), Columns(k_desc, None), Columns(v_desc, None), None)
            whole = Operands(None, Columns(whole_k_desc, None), Columns(whole_v_desc, None), None)
            load(queries, keys.writer(), values.writer(), order.reader("load"), own, whole,
                 Arrivals(flags, piece_shift, base, world, PUTTERS), problem, zigzag, FORM)
        with tlx.async_task(num_warps=1, num_regs=OTHER_REGS):  # scheduler
            schedule(order.writer(), counter, problem, FORM)
        with tlx.async_task(num_warps=1, num_regs=OTHER_REGS):  # writer
            store(results, order.reader("store"), Columns(o_desc, None), problem, FORM)
