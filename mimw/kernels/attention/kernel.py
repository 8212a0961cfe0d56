"""O = softmax(scale Q K^T) V on Hopper: one warp loads tiles with TMA, two warpgroups take turns on the tensor cores.

Nouns: rings of STAGES key tiles and value tiles of (BN, D); `full` completes when a tile has landed, `free` when every consumer
has read it. Each consumer has two query tiles of (ROWS, D) in turn; what it makes of one, it writes where that one lay.

A consumer is always one block of keys ahead: while the scores of block n go through the softmax, the tensor cores multiply the
probabilities of the block before with their values. Named barriers let the consumers issue their dots in turn, so that one's
softmax runs beside the other's dots. Blocks are taken from the last key to the first: what a mask touches comes first.

The grid is persistent: a scheduling warp draws the number of the next tile from a counter in global memory and tells the others.
Tiles are numbered by bands of heads, so that their keys and values stay in the L2 cache, and in a band by falling
length, so that the programs end together.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

LN2 = tl.constexpr(0.6931471805599453)
TURN = tl.constexpr(8)  # named barriers from here on, one a consumer


@mimw.jit
def tile_origin(tile, blocks, all_heads, heads, band, BM: tl.constexpr):
    """(batch, head, first query) of output tile number `tile`; `blocks` are those of one head."""
    first = tile // (band * blocks) * band
    width = min(all_heads - first, band)
    within = tile % (band * blocks)
    head = first + within % width
    return head // heads, head % heads, (blocks - 1 - within // width) * BM


@mimw.jit
def draw(counter, tiles):
    """The number of the next tile, `tiles` or more if none is left. Whoever draws last puts the counter back to 0."""
    drawn = tl.atomic_add(counter, 1, sem="relaxed")
    if drawn == tiles - 1:
        tl.atomic_xchg(counter, 0, sem="relaxed")
    return drawn + tl.num_programs(0)


@mimw.jit
def following(tile, programs, order, turn, DYNAMIC: tl.constexpr):
    """Which tile follows `tile`, this program's number `turn`."""
    if not DYNAMIC:
        return tile + programs
    slot, full, free = order
    tlx.barrier_wait(full[0], turn % 2)
    tile = tl.max(tlx.local_load(slot[0]), 0)
    tlx.barrier_arrive(free[0])
    return tile


@mimw.jit
def key_blocks(query, seq_q, seq_k, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):
    """(how many blocks of keys the queries from `query` on look at, how many of those need no mask)."""
    if CAUSAL:
        ends = min(query + BM + seq_k - seq_q, seq_k)
        return tl.cdiv(ends, BN), min((query + seq_k - seq_q + 1) // BN, ends // BN)
    return tl.cdiv(seq_k, BN), seq_k // BN


@mimw.jit
def fill(desc, ring, slot, phase, batch, head, row):
    """Fill a slot of a ring with the rows from `row` on."""
    tiles, full, free = ring
    ROWS: tl.constexpr = desc.block_shape[2]
    D: tl.constexpr = desc.block_shape[3]
    tlx.barrier_wait(free[slot], phase ^ 1)
    tlx.barrier_expect_bytes(full[slot], ROWS * D * tlx.size_of(tlx.dtype_of(desc)))
    tlx.async_descriptor_load(desc, tlx.local_reshape(tiles[slot], (1, 1, ROWS, D)), [batch, head, row, 0], full[slot])


@mimw.jit
def load(desc, ring, used, batch, head, row, rank, STAGES: tl.constexpr, CLUSTER: tl.constexpr):
    """Load tile number `used` of a ring. In a cluster each CTA loads its share of the columns for all."""
    tiles, full, free = ring
    slot, phase = tlx.warp_spec.get_bufidx_phase(used, STAGES)
    if CLUSTER == 1:
        fill(desc, ring, slot, phase, batch, head, row)
    else:
        ROWS: tl.constexpr = desc.block_shape[2]
        SHARE: tl.constexpr = desc.block_shape[3]
        tlx.barrier_wait(free[slot], phase ^ 1)
        tlx.barrier_expect_bytes(full[slot], CLUSTER * ROWS * SHARE * tlx.size_of(tlx.dtype_of(desc)))
        tile = tlx.local_reshape(tiles[slot], (1, 1, ROWS, CLUSTER * SHARE))
        tlx.async_descriptor_load(desc, tlx.local_slice(tile, [0, 0, 0, rank * SHARE], [1, 1, ROWS, SHARE]),
                                  [batch, head, row, rank * SHARE], full[slot], multicast_targets=[0, 1])


@mimw.jit
def release(barrier, rank, CLUSTER: tl.constexpr):
    """A slot may be filled again, as far as this consumer is concerned."""
    tlx.barrier_arrive(barrier)
    if CLUSTER == 2:
        tlx.barrier_arrive(barrier, remote_cta_rank=rank ^ 1)


@mimw.jit
def masked(scores, query, key, seq_q, seq_k, CAUSAL: tl.constexpr):
    """The scores of queries from `query` and keys from `key` on, -inf where a query may not look."""
    keys = key + tl.arange(0, scores.shape[1])[None, :]
    if CAUSAL:
        queries = query + tl.arange(0, scores.shape[0])[:, None]
        return tl.where(keys <= queries + (seq_k - seq_q), scores, float("-inf"))
    return tl.where(keys < seq_k, scores, float("-inf"))


@mimw.jit
def softmax(scores, highest, total, scale, MASKED: tl.constexpr):
    """One block more: (probabilities, highest score, sum of probabilities, by what earlier results shrink)."""
    new = tl.maximum(highest, tl.max(scores, 1))
    base = new * scale
    if MASKED:
        base = tl.where(new == float("-inf"), 0.0, base)  # a row that sees nothing yet
    shrink = tl.exp2(highest * scale - base)
    p = tl.exp2(scores * scale - base[:, None])
    return p, new, total * shrink + tl.sum(p, 1), shrink


@mimw.jit
def score(q, keys, used, rank, STAGES: tl.constexpr, CLUSTER: tl.constexpr):
    """q K^T for block number `used`, alone."""
    tiles, full, free = keys
    slot, phase = tlx.warp_spec.get_bufidx_phase(used, STAGES)
    tlx.barrier_wait(full[slot], phase)
    scores = tlx.async_dot(q, tlx.local_trans(tiles[slot]))
    scores = tlx.async_dot_wait(0, scores)
    release(free[slot], rank, CLUSTER)
    return scores


@mimw.jit
def score_and_weigh(q, keys, p, values, acc, used, next_turn: tl.constexpr, my_turn: tl.constexpr,
                    STAGES: tl.constexpr, V_STAGES: tl.constexpr, PING_PONG: tl.constexpr, rank, CLUSTER: tl.constexpr):
    """(q K^T for block number `used`, acc + p V for the block before, which still runs), both started in this consumer's turn."""
    tiles, full, free = keys
    slot, phase = tlx.warp_spec.get_bufidx_phase(used, STAGES)
    tlx.barrier_wait(full[slot], phase)
    if PING_PONG:
        tlx.named_barrier_wait(my_turn, 256)
    scores = tlx.async_dot(q, tlx.local_trans(tiles[slot]))
    if PING_PONG == 2:
        tlx.named_barrier_arrive(next_turn, 256)
    acc = tlx.async_dot(p, values[0][(used - 1) % V_STAGES], acc)
    if PING_PONG == 1:
        tlx.named_barrier_arrive(next_turn, 256)
    scores = tlx.async_dot_wait(1, scores)
    release(free[slot], rank, CLUSTER)
    return scores, acc


@mimw.jit
def weighed(values, acc, used, rank, STAGES: tl.constexpr, CLUSTER: tl.constexpr):
    """acc when the product that `score_and_weigh` of block `used` started is over, and the values of `used` are there.

    The values are needed next. Waiting for them before the product also keeps the assembler from moving the wait for the product
    up before the softmax: it moves nothing over a loop.
    """
    _, full, free = values
    slot, phase = tlx.warp_spec.get_bufidx_phase(used, STAGES)
    tlx.barrier_wait(full[slot], phase)
    acc = tlx.async_dot_wait(0, acc)
    release(free[(used - 1) % STAGES], rank, CLUSTER)
    return acc


@mimw.jit
def first_block(scores, query, count, scale, seq_q, seq_k, BN: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr):
    """The softmax of a tile's first block, which is the last one of its `count` blocks of keys."""
    if MASKED:
        scores = masked(scores, query, (count - 1) * BN, seq_q, seq_k, CAUSAL)
    ROWS: tl.constexpr = scores.shape[0]
    p, highest, total, _ = softmax(scores, tl.full((ROWS, ), float("-inf"), tl.float32), tl.zeros((ROWS, ), tl.float32), scale,
                                   MASKED > 0)
    return p, highest, total


@mimw.jit
def attention(q_desc, k_desc, v_desc, o_desc, lse, counter, scale, batches, heads, seq_q, seq_k, band, BM: tl.constexpr,
              BN: tl.constexpr, D: tl.constexpr, GROUP: tl.constexpr, STAGES: tl.constexpr, CAUSAL: tl.constexpr,
              MASKED: tl.constexpr, PING_PONG: tl.constexpr, AHEAD: tl.constexpr, V_STAGES: tl.constexpr,
              CONSUMERS: tl.constexpr, CLUSTER: tl.constexpr, DYNAMIC: tl.constexpr):
    """O (batches, heads, seq_q, D) and the natural logarithms of the softmax's denominators, (batches, heads, seq_q).

    args:      counter int32, 0 before and after a launch; one launch at a time may use it
               scale   of the scores, times log2(e)
               band    heads whose tiles are drawn together
               GROUP   query heads to a head of K and V
               MASKED  how many blocks of keys of a tile may need a mask: 0, 1, or 2 for any number
               AHEAD   start a tile before the last one is finished
    """
    ROWS: tl.constexpr = BM // CONSUMERS
    CONSUMER_REGS: tl.constexpr = 240 if CONSUMERS == 2 else 160
    PRODUCER_REGS: tl.constexpr = 24 if CONSUMERS == 2 else 32
    DTYPE: tl.constexpr = tlx.dtype_of(q_desc)
    Q_STAGES: tl.constexpr = 2 if AHEAD else 1
    Q_SLOTS: tl.constexpr = Q_STAGES * CONSUMERS
    queries = tlx.local_alloc((ROWS, D), DTYPE, Q_SLOTS), tlx.alloc_barriers(Q_SLOTS), tlx.alloc_barriers(Q_SLOTS)
    keys = tlx.local_alloc((BN, D), DTYPE, STAGES), tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES, arrive_count=CONSUMERS * CLUSTER)
    values = tlx.local_alloc((BN, D), DTYPE, V_STAGES), tlx.alloc_barriers(V_STAGES), tlx.alloc_barriers(V_STAGES, arrive_count=CONSUMERS * CLUSTER)
    order = tlx.local_alloc((1, ), tl.int32, 1), tlx.alloc_barriers(1), tlx.alloc_barriers(1, arrive_count=CONSUMERS + 2)
    o_full = tlx.alloc_barriers(Q_SLOTS)

    HEIGHT: tl.constexpr = BM * CLUSTER  # a tile's queries
    rank = tlx.cluster_cta_rank() if CLUSTER > 1 else 0
    program, programs = tl.program_id(0) // CLUSTER, tl.num_programs(0) // CLUSTER
    blocks, all_heads = tl.cdiv(seq_q, HEIGHT), batches * heads
    tiles = blocks * all_heads

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=CONSUMER_REGS, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            q_tiles, q_full, _ = queries
            tile = program
            used = 0  # blocks of keys scored
            turn = 0  # tiles begun
            my_turn: tl.constexpr = TURN + me
            next_turn: tl.constexpr = TURN + (me + 1) % CONSUMERS
            if PING_PONG and me == CONSUMERS - 1:
                tlx.named_barrier_arrive(TURN, 256)
            if AHEAD:
                _, _, query = tile_origin(tile, blocks, all_heads, heads, band, HEIGHT)
                count, _ = key_blocks(query, seq_q, seq_k, HEIGHT, BN, CAUSAL)
                tlx.barrier_wait(q_full[me], 0)
                scores = score(q_tiles[me], keys, used, rank, STAGES, CLUSTER)
                p, highest, total = first_block(scores, query + rank * BM + me * ROWS, count, scale, seq_q, seq_k, BN, CAUSAL, MASKED)
                p = p.to(DTYPE)
                used += 1
            while tile < tiles:
                batch, head, query = tile_origin(tile, blocks, all_heads, heads, band, HEIGHT)
                count, plain = key_blocks(query, seq_q, seq_k, HEIGHT, BN, CAUSAL)
                query += rank * BM + me * ROWS
                q_slot, q_phase = tlx.warp_spec.get_bufidx_phase(turn, Q_STAGES)
                q_slot = q_slot * CONSUMERS + me
                q = q_tiles[q_slot]
                if not AHEAD:
                    tlx.barrier_wait(q_full[q_slot], q_phase)
                    scores = score(q, keys, used, rank, STAGES, CLUSTER)
                    p, highest, total = first_block(scores, query, count, scale, seq_q, seq_k, BN, CAUSAL, MASKED)
                    p = p.to(DTYPE)
                    used += 1
                slot, phase = tlx.warp_spec.get_bufidx_phase(used - 1, V_STAGES)
                tlx.barrier_wait(values[1][slot], phase)
                acc = tl.zeros((ROWS, D), tl.float32)

                if MASKED > 1:
                    for n in range(plain, count - 1):
                        scores, acc = score_and_weigh(q, keys, p, values, acc, used, next_turn, my_turn, STAGES, V_STAGES, PING_PONG, rank, CLUSTER)
                        scores = masked(scores, query, (count - 2 - (n - plain)) * BN, seq_q, seq_k, CAUSAL)
                        p, highest, total, shrink = softmax(scores, highest, total, scale, True)
                        acc = weighed(values, acc, used, rank, V_STAGES, CLUSTER) * shrink[:, None]
                        p = p.to(DTYPE)
                        used += 1
                    count = min(count, plain + 1)
                for n in range(1, count):
                    scores, acc = score_and_weigh(q, keys, p, values, acc, used, next_turn, my_turn, STAGES, V_STAGES, PING_PONG, rank, CLUSTER)
                    p, highest, total, shrink = softmax(scores, highest, total, scale, False)
                    acc = weighed(values, acc, used, rank, V_STAGES, CLUSTER) * shrink[:, None]
                    p = p.to(DTYPE)
                    used += 1

                tile = following(tile, programs, order, turn, DYNAMIC)
                turn += 1
                logarithm = (highest * scale + tl.log2(total)) * LN2
                inverse = 1 / total
                if AHEAD:
                    if tile < tiles:
                        _, _, next_query = tile_origin(tile, blocks, all_heads, heads, band, HEIGHT)
                        next_count, _ = key_blocks(next_query, seq_q, seq_k, HEIGHT, BN, CAUSAL)
                        next_slot, q_phase = tlx.warp_spec.get_bufidx_phase(turn, Q_STAGES)
                        next_slot = next_slot * CONSUMERS + me
                        tlx.barrier_wait(q_full[next_slot], q_phase)
                        scores, acc = score_and_weigh(q_tiles[next_slot], keys, p, values, acc, used, next_turn, my_turn, STAGES, V_STAGES, PING_PONG, rank, CLUSTER)
                        p, highest, total = first_block(scores, next_query + rank * BM + me * ROWS, next_count, scale, seq_q, seq_k, BN, CAUSAL,
                                                        MASKED)
                        # As in `weighed`; its values may come only after this tile's queries have made room.
                        tlx.barrier_wait(q_full[next_slot], q_phase)
                        acc = tlx.async_dot_wait(0, acc)
                        release(values[2][(used - 1) % V_STAGES], rank, CLUSTER)
                        p = p.to(DTYPE)
                        used += 1
                    else:
                        acc = tlx.async_dot(p, values[0][(used - 1) % V_STAGES], acc)
                        acc = tlx.async_dot_wait(0, acc)
                else:
                    acc = tlx.async_dot(p, values[0][(used - 1) % V_STAGES], acc)
                    acc = tlx.async_dot_wait(0, acc)
                    release(values[2][(used - 1) % V_STAGES], rank, CLUSTER)
                rows = query + tl.arange(0, ROWS)
                tl.store(lse + (batch * heads + head).to(tl.int64) * seq_q + rows, logarithm, mask=rows < seq_q)
                tlx.local_store(q, (acc * inverse[:, None]).to(DTYPE))
                tlx.fence("async_shared")
                tlx.barrier_arrive(o_full[q_slot])

        with tlx.async_task(num_warps=1, num_regs=PRODUCER_REGS):  # producer
            tile = program
            filled = 0
            turn = 0
            before_batch = 0
            before_head = 0
            while tile < tiles:
                batch, head, query = tile_origin(tile, blocks, all_heads, heads, band, HEIGHT)
                count, _ = key_blocks(query, seq_q, seq_k, HEIGHT, BN, CAUSAL)
                kv_head = head // GROUP
                slot, phase = tlx.warp_spec.get_bufidx_phase(turn, Q_STAGES)
                for c in tl.static_range(CONSUMERS):
                    fill(q_desc, queries, slot * CONSUMERS + c, phase, batch, head, query + rank * BM + c * ROWS)
                load(k_desc, keys, filled, batch, kv_head, (count - 1) * BN, rank, STAGES, CLUSTER)
                if AHEAD:
                    if filled > 0:  # a tile's last values come after the first keys of the next one
                        load(v_desc, values, filled - 1, before_batch, before_head, 0, rank, V_STAGES, CLUSTER)
                for n in range(1, count):
                    load(k_desc, keys, filled + n, batch, kv_head, (count - 1 - n) * BN, rank, STAGES, CLUSTER)
                    load(v_desc, values, filled + n - 1, batch, kv_head, (count - n) * BN, rank, V_STAGES, CLUSTER)
                filled += count
                if AHEAD:
                    before_batch = batch
                    before_head = kv_head
                else:
                    load(v_desc, values, filled - 1, batch, kv_head, 0, rank, V_STAGES, CLUSTER)
                tile = following(tile, programs, order, turn, DYNAMIC)
                turn += 1
            if AHEAD:
                load(v_desc, values, filled - 1, before_batch, before_head, 0, rank, V_STAGES, CLUSTER)

        if DYNAMIC:
            with tlx.async_task(num_warps=1, num_regs=PRODUCER_REGS):  # scheduler
                slot, full, free = order
                tile = program
                turn = 0
                while tile < tiles:
                    tile = draw(counter, tiles)
                    tlx.barrier_wait(free[0], turn % 2 ^ 1)
                    tlx.local_store(slot[0], tl.full((1, ), tile, tl.int32))
                    tlx.barrier_arrive(full[0])
                    turn += 1

        with tlx.async_task(num_warps=1, num_regs=PRODUCER_REGS):  # writer
            tile = program
            turn = 0
            while tile < tiles:
                batch, head, query = tile_origin(tile, blocks, all_heads, heads, band, HEIGHT)
                # Before the waits: the scheduler goes on only when all have read.
                tile = following(tile, programs, order, turn, DYNAMIC)
                slot, phase = tlx.warp_spec.get_bufidx_phase(turn, Q_STAGES)
                q_tiles, _, q_free = queries
                for c in tl.static_range(CONSUMERS):
                    tlx.barrier_wait(o_full[slot * CONSUMERS + c], phase)
                    tlx.async_descriptor_store(o_desc, tlx.local_reshape(q_tiles[slot * CONSUMERS + c], (1, 1, ROWS, D)),
                                               [batch, head, query + rank * BM + c * ROWS, 0])
                    tlx.async_descriptor_store_wait(0)
                    tlx.barrier_arrive(q_free[slot * CONSUMERS + c])
                turn += 1
