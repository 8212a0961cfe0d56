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
from ..attention.heads import pipes
from ..attention.kernel import load_rows, store
from ..attention.schedule import next_tile, number_of_tiles, schedule
from ..consumers import consumer, consumers
from .compute import compute
from .gather import arrived, enter, put
from .places import seen, tile_at


@mimw.jit
def load_keys(descs, keys, values, first, count, batch, head, row, BN: tl.constexpr):
    """`count` blocks of keys and values from `row` on, the last one first, as blocks number `first` and so on; a block's values
    after the next block's keys. Gives the number of the block that comes next."""
    end = first + count
    if count > 0:
        load_rows((descs[0], None), keys, first, batch, head, row + (count - 1) * BN)
        for block in range(first + 1, end):
            load_rows((descs[0], None), keys, block, batch, head, row + (end - 1 - block) * BN)
            load_rows((descs[1], None), values, block - 1, batch, head, row + (end - block) * BN)
        load_rows((descs[1], None), values, end - 1, batch, head, row)
    return end


@mimw.jit
def load(queries, keys, values, order, q_desc, own, whole, flags, piece_shift, base, world, shape, zigzag, BM: tl.constexpr,
         BN: tl.constexpr, GROUP: tl.constexpr, PARTS: tl.constexpr, PUTTERS: tl.constexpr, CONSUMERS: tl.constexpr,
         CAUSAL: tl.constexpr):
    """Queries, then keys and values: this rank's own, then those of each rank behind it, when they are there."""
    heads, rows = shape[1], shape[2]
    me, size = tlx.world_rank(world), tlx.world_size(world)
    kv_heads = heads // GROUP
    tile = tl.program_id(0)
    turn, block = 0, 0
    while tile < number_of_tiles(shape, BM):
        batch, head, query, part, count, _, _ = tile_at(tile, shape, zigzag, BM, BN, PARTS, CAUSAL)
        for c in tl.static_range(CONSUMERS):
            load_rows((q_desc, None), queries[c].writer(), turn, batch, head, query + c * (BM // CONSUMERS))
        head = head // GROUP
        block = load_keys(own, keys, values, block, count, batch, head, 0, BN)
        for step in range(1, size):
            source = tl.where(step > me, me + size - step, me - step)       # the rank behind puts its keys here first
            count = seen(source, me, part, zigzag[0], PARTS, CAUSAL)
            if count > 0:
                arrived(flags, source, batch * kv_heads + head, piece_shift, base, PUTTERS)
                block = load_keys(whole, keys, values, block, count, batch, head, source * rows, BN)
        tile = next_tile(order, turn)
        turn += 1


@mimw.jit(do_not_specialize=["seen_rows", "extra", "late_extra"])     # one binary for all ranks
def ring_attention(q_desc, k_desc, v_desc, o_desc, whole_k_desc, whole_v_desc, k, v, whole_k, whole_v, flags, state, lse, counter,
                   world, scale, batches, heads, rows, seen_rows, band, chunk_blocks, extra, late_extra, piece_shift, k_batch,
                   k_head, k_row, v_batch, v_head, v_row, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
                   GROUP: tl.constexpr, K_STAGES: tl.constexpr, V_STAGES: tl.constexpr, PARTS: tl.constexpr,
                   PUTTERS: tl.constexpr, CONSUMERS: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr,
                   PING_PONG: tl.constexpr, AHEAD: tl.constexpr, LATE: tl.constexpr):
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
               band    heads whose tiles are drawn together
               extra, late_extra   places.py's `extras`
               piece_shift     a piece is 2^piece_shift units
               PARTS   chunks of a rank (places.py)
               PUTTERS how many programs put, no more than there are; 0 where there is one rank
               others  as ../attention's
    """
    DTYPE: tl.constexpr = tlx.dtype_of(q_desc)
    CONSUMER_REGS: tl.constexpr = 240 if CONSUMERS == 2 else 160
    OTHER_REGS: tl.constexpr = 24 if CONSUMERS == 2 else 32
    SLOTS: tl.constexpr = 2 if AHEAD else 1
    shape = batches, heads, rows, rows, band, None, None
    zigzag = chunk_blocks, extra, late_extra

    queries, results, keys, values = pipes(DTYPE, BM, BN, D, 0, D, 0, SLOTS, K_STAGES, V_STAGES, CONSUMERS)
    order = tle.pipe(capacity=1, readers=consumers(CONSUMERS, "load", "store"), name="order", tile=tle.gpu.alloc([1, 1], tl.int32))
    base = enter(state, PUTTERS)
    if tl.program_id(0) < PUTTERS:
        steps = (k_batch, k_head, k_row), (v_batch, v_head, v_row)
        put((k, v), (whole_k, whole_v), flags, piece_shift, steps, batches, heads // GROUP, rows, world, tl.program_id(0), D,
            PUTTERS)

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=CONSUMER_REGS, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            name: tl.constexpr = consumer(me)
            if PARTS == 1:      # as if the rank's rows were the last of a sequence of `seen_rows` rows
                attention.compute(queries[me].reader(), results[me].writer(), keys.reader(name), values.reader(name),
                                  order.reader(name), lse, scale, (batches, heads, rows, seen_rows, band, None, None),
                                  (None, None, None, None), me, BM, BN, CONSUMERS, CAUSAL, MASKED, PING_PONG, AHEAD, LATE)
            else:
                compute(queries[me].reader(), results[me].writer(), keys.reader(name), values.reader(name), order.reader(name), lse,
                        scale, shape, zigzag, me, BM, BN, CONSUMERS, MASKED, PING_PONG, AHEAD, LATE)
        with tlx.async_task(num_warps=1, num_regs=OTHER_REGS):  # producer
            load(queries, keys.writer(), values.writer(), order.reader("load"), q_desc, (k_desc, v_desc),
                 (whole_k_desc, whole_v_desc), flags, piece_shift, base, world, shape, zigzag, BM, BN, GROUP, PARTS, PUTTERS,
                 CONSUMERS, CAUSAL)
        with tlx.async_task(num_warps=1, num_regs=OTHER_REGS):  # scheduler
            schedule(order.writer(), counter, shape, BM)
        with tlx.async_task(num_warps=1, num_regs=OTHER_REGS):  # writer
            store(results, order.reader("store"), (o_desc, None), shape, BM, BN, CONSUMERS, CAUSAL)
