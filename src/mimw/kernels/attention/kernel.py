"""O = softmax(scale Q K^T) V on Hopper: one warp loads tiles with TMA, warpgroups compute, two more warps schedule and write.

Nouns, each a ring of (tiles, full, free): `queries` of (ROWS, D), one slot or two for each consumer; `keys` and `values` of
(BN, D).
`full` completes when a tile has landed, `free` when nobody needs it any more. What a consumer makes of its queries it writes where
they lay; `done` completes when it is there, and the writer then stores it and frees the slot. `order` tells which tile is next.

A consumer is always one block of keys ahead: while the scores of block n go through the softmax, the tensor cores multiply the
probabilities of block n - 1 with their values. With AHEAD this goes on over the end of a tile: the first scores of the next one are
computed beside the last product of this one. Blocks are taken from the last key to the first, so what a mask touches comes first.
With PING_PONG the consumers start their dots in turn.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from .schedule import draw, key_blocks, next_tile, tell, tile_origin
from .softmax import first_softmax, masked, softmax

LN2 = tl.constexpr(0.6931471805599453)
TURN = tl.constexpr(8)  # named barriers from here on, one a consumer


@mimw.jit
def load(desc, ring, slot, phase, batch, head, row):
    """Fill a slot of a ring with the rows from `row` on."""
    tiles, full, free = ring
    ROWS: tl.constexpr = desc.block_shape[2]
    D: tl.constexpr = desc.block_shape[3]
    tlx.barrier_wait(free[slot], phase ^ 1)
    tlx.barrier_expect_bytes(full[slot], ROWS * D * tlx.size_of(tlx.dtype_of(desc)))
    tlx.async_descriptor_load(desc, tlx.local_reshape(tiles[slot], (1, 1, ROWS, D)), [batch, head, row, 0], full[slot])


@mimw.jit
def load_block(desc, ring, used, batch, head, row, STAGES: tl.constexpr):
    """Load block number `used` of the keys or the values."""
    slot, phase = tlx.warp_spec.get_bufidx_phase(used, STAGES)
    load(desc, ring, slot, phase, batch, head, row)


@mimw.jit
def score(q, keys, used, K_STAGES: tl.constexpr):
    """q K^T for block number `used`, alone."""
    tiles, full, free = keys
    slot, phase = tlx.warp_spec.get_bufidx_phase(used, K_STAGES)
    tlx.barrier_wait(full[slot], phase)
    scores = tlx.async_dot(q, tlx.local_trans(tiles[slot]))
    scores = tlx.async_dot_wait(0, scores)
    tlx.barrier_arrive(free[slot])
    return scores


@mimw.jit
def score_and_weigh(q, keys, p, values, acc, used, me: tl.constexpr, K_STAGES: tl.constexpr, V_STAGES: tl.constexpr,
                    CONSUMERS: tl.constexpr, PING_PONG: tl.constexpr):
    """(q K^T for block number `used`; acc + p V for the block before, which still runs)."""
    tiles, full, free = keys
    slot, phase = tlx.warp_spec.get_bufidx_phase(used, K_STAGES)
    tlx.barrier_wait(full[slot], phase)
    if PING_PONG:
        tlx.named_barrier_wait(TURN + me, 256)
    scores = tlx.async_dot(q, tlx.local_trans(tiles[slot]))
    acc = tlx.async_dot(p, values[0][(used - 1) % V_STAGES], acc)
    if PING_PONG:
        tlx.named_barrier_arrive(TURN + (me + 1) % CONSUMERS, 256)
    scores = tlx.async_dot_wait(1, scores)
    tlx.barrier_arrive(free[slot])
    return scores, acc


@mimw.jit
def await_values(values, used, V_STAGES: tl.constexpr):
    """Hold this consumer until the values of block number `used` are there."""
    slot, phase = tlx.warp_spec.get_bufidx_phase(used, V_STAGES)
    tlx.barrier_wait(values[1][slot], phase)


@mimw.jit
def weighed(values, acc, used, V_STAGES: tl.constexpr):
    """acc when the product with the values of block number `used` is over."""
    acc = tlx.async_dot_wait(0, acc)
    tlx.barrier_arrive(values[2][used % V_STAGES])
    return acc


@mimw.jit
def attention(q_desc, k_desc, v_desc, o_desc, lse, counter, scale, batches, heads, seq_q, seq_k, band, BM: tl.constexpr,
              BN: tl.constexpr, D: tl.constexpr, GROUP: tl.constexpr, K_STAGES: tl.constexpr, V_STAGES: tl.constexpr,
              CONSUMERS: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr, PING_PONG: tl.constexpr, AHEAD: tl.constexpr):
    """O (batches, heads, seq_q, D) and the natural logarithms of the softmax's denominators, (batches, heads, seq_q).

    args:      counter int32, 0 before and after a launch; one launch at a time may use it
               scale   of the scores, times log2(e)
               band    heads whose tiles are drawn together
               GROUP   query heads to a head of K and V
               MASKED  how many blocks of keys of a tile may need a mask: 0, 1, or 2 for any number
               AHEAD   start a tile before the last one is finished; takes two slots of queries
    """
    ROWS: tl.constexpr = BM // CONSUMERS
    DTYPE: tl.constexpr = tlx.dtype_of(q_desc)
    CONSUMER_REGS: tl.constexpr = 240 if CONSUMERS == 2 else 160
    OTHER_REGS: tl.constexpr = 24 if CONSUMERS == 2 else 32
    Q_STAGES: tl.constexpr = 2 if AHEAD else 1
    Q_SLOTS: tl.constexpr = Q_STAGES * CONSUMERS

    queries = tlx.local_alloc((ROWS, D), DTYPE, Q_SLOTS), tlx.alloc_barriers(Q_SLOTS), tlx.alloc_barriers(Q_SLOTS)
    keys = tlx.local_alloc((BN, D), DTYPE, K_STAGES), tlx.alloc_barriers(K_STAGES), tlx.alloc_barriers(K_STAGES, CONSUMERS)
    values = tlx.local_alloc((BN, D), DTYPE, V_STAGES), tlx.alloc_barriers(V_STAGES), tlx.alloc_barriers(V_STAGES, CONSUMERS)
    order = tlx.local_alloc((1, ), tl.int32, 1), tlx.alloc_barriers(1), tlx.alloc_barriers(1, CONSUMERS + 2)
    done = tlx.alloc_barriers(Q_SLOTS)

    blocks, all_heads = tl.cdiv(seq_q, BM), batches * heads
    tiles = blocks * all_heads

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=CONSUMER_REGS, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            q_tiles, q_full, _ = queries
            tile = tl.program_id(0)
            turn = 0  # tiles begun
            used = 0  # blocks of keys scored
            if PING_PONG and me == CONSUMERS - 1:
                tlx.named_barrier_arrive(TURN, 256)
            if AHEAD:
                _, _, query = tile_origin(tile, blocks, all_heads, heads, band, BM)
                count, _ = key_blocks(query, seq_q, seq_k, BM, BN, CAUSAL)
                tlx.barrier_wait(q_full[me], 0)
                scores = score(q_tiles[me], keys, used, K_STAGES)
                p, highest, total = first_softmax(scores, query + me * ROWS, (count - 1) * BN, scale, seq_q, seq_k, CAUSAL,
                                                  MASKED > 0)
                p = p.to(DTYPE)
                used += 1
            while tile < tiles:
                batch, head, query = tile_origin(tile, blocks, all_heads, heads, band, BM)
                count, plain = key_blocks(query, seq_q, seq_k, BM, BN, CAUSAL)
                query += me * ROWS
                slot, phase = tlx.warp_spec.get_bufidx_phase(turn, Q_STAGES)
                slot = slot * CONSUMERS + me
                q = q_tiles[slot]
                if not AHEAD:
                    tlx.barrier_wait(q_full[slot], phase)
                    scores = score(q, keys, used, K_STAGES)
                    p, highest, total = first_softmax(scores, query, (count - 1) * BN, scale, seq_q, seq_k, CAUSAL, MASKED > 0)
                    p = p.to(DTYPE)
                    used += 1
                await_values(values, used - 1, V_STAGES)
                acc = tl.zeros((ROWS, D), tl.float32)

                if MASKED > 1:
                    for n in range(plain, count - 1):
                        scores, acc = score_and_weigh(q, keys, p, values, acc, used, me, K_STAGES, V_STAGES, CONSUMERS, PING_PONG)
                        scores = masked(scores, query, (count - 2 - (n - plain)) * BN, seq_q, seq_k, CAUSAL)
                        p, highest, total, shrink = softmax(scores, highest, total, scale, True)
                        await_values(values, used, V_STAGES)
                        acc = weighed(values, acc, used - 1, V_STAGES) * shrink[:, None]
                        p = p.to(DTYPE)
                        used += 1
                    count = min(count, plain + 1)
                for n in range(1, count):
                    scores, acc = score_and_weigh(q, keys, p, values, acc, used, me, K_STAGES, V_STAGES, CONSUMERS, PING_PONG)
                    p, highest, total, shrink = softmax(scores, highest, total, scale, False)
                    # These values are needed next. Waiting for them already here keeps the assembler from moving the wait for the
                    # product up before the softmax, where the two would no longer overlap: it moves no wait over a loop.
                    await_values(values, used, V_STAGES)
                    acc = weighed(values, acc, used - 1, V_STAGES) * shrink[:, None]
                    p = p.to(DTYPE)
                    used += 1

                tile = next_tile(order, turn)
                turn += 1
                logarithm, inverse = (highest * scale + tl.log2(total)) * LN2, 1 / total
                if AHEAD and tile < tiles:
                    _, _, next_query = tile_origin(tile, blocks, all_heads, heads, band, BM)
                    next_count, _ = key_blocks(next_query, seq_q, seq_k, BM, BN, CAUSAL)
                    next_slot, phase = tlx.warp_spec.get_bufidx_phase(turn, Q_STAGES)
                    next_slot = next_slot * CONSUMERS + me
                    tlx.barrier_wait(q_full[next_slot], phase)
                    scores, acc = score_and_weigh(q_tiles[next_slot], keys, p, values, acc, used, me, K_STAGES, V_STAGES, CONSUMERS,
                                                  PING_PONG)
                    p, highest, total = first_softmax(scores, next_query + me * ROWS, (next_count - 1) * BN, scale, seq_q, seq_k,
                                                      CAUSAL, MASKED > 0)
                    # As above, by a barrier that is surely complete: the next values may come only after this tile is written.
                    tlx.barrier_wait(q_full[next_slot], phase)
                    acc = weighed(values, acc, used - 1, V_STAGES)
                    p = p.to(DTYPE)
                    used += 1
                else:
                    acc = tlx.async_dot(p, values[0][(used - 1) % V_STAGES], acc)
                    acc = weighed(values, acc, used - 1, V_STAGES)
                rows = query + tl.arange(0, ROWS)
                tl.store(lse + (batch * heads + head).to(tl.int64) * seq_q + rows, logarithm, mask=rows < seq_q)
                tlx.local_store(q, (acc * inverse[:, None]).to(DTYPE))
                tlx.fence("async_shared")
                tlx.barrier_arrive(done[slot])

        with tlx.async_task(num_warps=1, num_regs=OTHER_REGS):  # producer
            tile = tl.program_id(0)
            turn = 0
            filled = 0
            before_batch = 0
            before_head = 0
            while tile < tiles:
                batch, head, query = tile_origin(tile, blocks, all_heads, heads, band, BM)
                count, _ = key_blocks(query, seq_q, seq_k, BM, BN, CAUSAL)
                kv_head = head // GROUP
                slot, phase = tlx.warp_spec.get_bufidx_phase(turn, Q_STAGES)
                for c in tl.static_range(CONSUMERS):
                    load(q_desc, queries, slot * CONSUMERS + c, phase, batch, head, query + c * ROWS)
                load_block(k_desc, keys, filled, batch, kv_head, (count - 1) * BN, K_STAGES)
                if AHEAD:
                    if filled > 0:  # a tile's last values come after the first keys of the next one
                        load_block(v_desc, values, filled - 1, before_batch, before_head, 0, V_STAGES)
                for n in range(1, count):
                    load_block(k_desc, keys, filled + n, batch, kv_head, (count - 1 - n) * BN, K_STAGES)
                    load_block(v_desc, values, filled + n - 1, batch, kv_head, (count - n) * BN, V_STAGES)
                filled += count
                if AHEAD:
                    before_batch = batch
                    before_head = kv_head
                else:
                    load_block(v_desc, values, filled - 1, batch, kv_head, 0, V_STAGES)
                tile = next_tile(order, turn)
                turn += 1
            if AHEAD:
                load_block(v_desc, values, filled - 1, before_batch, before_head, 0, V_STAGES)

        with tlx.async_task(num_warps=1, num_regs=OTHER_REGS):  # scheduler
            tile = tl.program_id(0)
            turn = 0
            while tile < tiles:
                tile = draw(counter, tiles)
                tell(order, tile, turn)
                turn += 1

        with tlx.async_task(num_warps=1, num_regs=OTHER_REGS):  # writer
            q_tiles, _, q_free = queries
            tile = tl.program_id(0)
            turn = 0
            while tile < tiles:
                batch, head, query = tile_origin(tile, blocks, all_heads, heads, band, BM)
                tile = next_tile(order, turn)  # before the waits: the scheduler goes on only when all know
                slot, phase = tlx.warp_spec.get_bufidx_phase(turn, Q_STAGES)
                for c in tl.static_range(CONSUMERS):
                    at = slot * CONSUMERS + c
                    tlx.barrier_wait(done[at], phase)
                    tlx.async_descriptor_store(o_desc, tlx.local_reshape(q_tiles[at], (1, 1, ROWS, D)),
                                               [batch, head, query + c * ROWS, 0])
                    tlx.async_descriptor_store_wait(0)
                    tlx.barrier_arrive(q_free[at])
                turn += 1
