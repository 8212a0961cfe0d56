"""O = softmax(scale Q K^T) V on Hopper: one warp loads tiles with TMA, two warpgroups take turns on the tensor cores.

Nouns: rings of STAGES key tiles and value tiles of (BN, D); `full` completes when a tile has landed, `free` when every consumer
has read it. Each consumer has two query tiles of (ROWS, D) in turn; what it makes of one, it writes where that one lay.

A consumer is always one block of keys ahead: while the scores of block n go through the softmax, the tensor cores multiply the
probabilities of the block before with their values. Named barriers let the consumers issue their dots in turn, so that one's
softmax runs beside the other's dots. Blocks are taken from the last key to the first: what a mask touches comes first.

The grid is persistent: program p computes the tiles p, p + programs, ... Tiles are numbered by bands of BAND heads, so that
their keys and values stay in the L2 cache, and in a band by falling length.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

LN2 = tl.constexpr(0.6931471805599453)
TURN = tl.constexpr(8)  # named barriers from here on, one a consumer


@mimw.jit
def tile_origin(tile, blocks, all_heads, heads, BAND: tl.constexpr, BM: tl.constexpr):
    """(batch, head, first query) of output tile number `tile`; `blocks` are those of one head."""
    first = tile // (BAND * blocks) * BAND
    width = min(all_heads - first, BAND)
    within = tile % (BAND * blocks)
    head = first + within % width
    return head // heads, head % heads, (blocks - 1 - within // width) * BM


@mimw.jit
def key_blocks(query, seq_q, seq_k, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):
    """(how many blocks of keys the queries from `query` on look at, how many of those need no mask)."""
    if CAUSAL:
        ends = min(query + BM + seq_k - seq_q, seq_k)
        return tl.cdiv(ends, BN), min((query + seq_k - seq_q + 1) // BN, ends // BN)
    return tl.cdiv(seq_k, BN), seq_k // BN


@mimw.jit
def load(desc, tile, full, free, used, batch, head, row, D: tl.constexpr, ROWS: tl.constexpr, STAGES: tl.constexpr):
    """Fill the ring's slot number `used`."""
    slot, phase = tlx.warp_spec.get_bufidx_phase(used, STAGES)
    tlx.barrier_wait(free[slot], phase ^ 1)
    tlx.barrier_expect_bytes(full[slot], ROWS * D * tlx.size_of(tlx.dtype_of(desc)))
    tlx.async_descriptor_load(desc, tlx.local_reshape(tile[slot], (1, 1, ROWS, D)), [batch, head, row, 0], full[slot])


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
def step(q, k_tiles, v_tiles, k_full, k_free, v_full, v_free, acc, p, highest, total, shrink, used, scale, query, key, seq_q,
         seq_k, me: tl.constexpr, STAGES: tl.constexpr, PING_PONG: tl.constexpr, MASKED: tl.constexpr, CAUSAL: tl.constexpr):
    """Block number `used` of the ring: its scores, then, beside its softmax, the product of the block before."""
    slot, phase = tlx.warp_spec.get_bufidx_phase(used, STAGES)
    before = (used - 1) % STAGES
    tlx.barrier_wait(k_full[slot], phase)
    if PING_PONG:
        tlx.named_barrier_wait(TURN + me, 256)
    scores = tlx.async_dot(q, tlx.local_trans(k_tiles[slot]))
    acc = tlx.async_dot(p, v_tiles[before], acc * shrink[:, None])
    if PING_PONG:
        tlx.named_barrier_arrive(TURN + 1 - me, 256)
    scores = tlx.async_dot_wait(1, scores)
    tlx.barrier_arrive(k_free[slot])
    if MASKED:
        scores = masked(scores, query, key, seq_q, seq_k, CAUSAL)
    new, highest, total, shrink = softmax(scores, highest, total, scale, MASKED)
    new = new.to(tlx.dtype_of(p))
    # This block's values are needed next. Waiting for them here also keeps the assembler from moving the wait for the product
    # up before the softmax: it moves nothing over a loop.
    tlx.barrier_wait(v_full[slot], phase)
    acc = tlx.async_dot_wait(0, acc)
    tlx.barrier_arrive(v_free[before])
    return acc, new, highest, total, shrink


@mimw.jit
def attention(q_desc, k_desc, v_desc, o_desc, lse, scale, batches, heads, seq_q, seq_k, BM: tl.constexpr, BN: tl.constexpr,
              D: tl.constexpr, GROUP: tl.constexpr, STAGES: tl.constexpr, BAND: tl.constexpr, CAUSAL: tl.constexpr,
              MASKED: tl.constexpr, PING_PONG: tl.constexpr, TURNS: tl.constexpr):
    """O (batches, heads, seq_q, D) and the natural logarithms of the softmax's denominators, (batches, heads, seq_q).

    args:      scale   of the scores, times log2(e)
               GROUP   query heads to a head of K and V
               TURNS   query tiles a consumer, 1 or 2
               MASKED  how many blocks of keys of a tile may need a mask: 0, 1, or 2 for any number
    """
    ROWS: tl.constexpr = BM // 2
    DTYPE: tl.constexpr = tlx.dtype_of(q_desc)
    q_tiles = tlx.local_alloc((ROWS, D), DTYPE, 2 * TURNS)
    k_tiles = tlx.local_alloc((BN, D), DTYPE, STAGES)
    v_tiles = tlx.local_alloc((BN, D), DTYPE, STAGES)
    q_full, q_free = tlx.alloc_barriers(2 * TURNS), tlx.alloc_barriers(2 * TURNS)
    k_full, k_free = tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES, arrive_count=2)
    v_full, v_free = tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES, arrive_count=2)

    blocks, all_heads = tl.cdiv(seq_q, BM), batches * heads
    tiles = blocks * all_heads

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240, replicate=2):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            used = 0
            turn = 0
            if PING_PONG and me == 1:
                tlx.named_barrier_arrive(TURN, 256)
            for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
                batch, head, query = tile_origin(tile, blocks, all_heads, heads, BAND, BM)
                count, plain = key_blocks(query, seq_q, seq_k, BM, BN, CAUSAL)
                query += me * ROWS
                q_slot = turn % TURNS * 2 + me
                q = q_tiles[q_slot]
                tlx.barrier_wait(q_full[q_slot], turn // TURNS % 2)

                slot, phase = tlx.warp_spec.get_bufidx_phase(used, STAGES)
                tlx.barrier_wait(k_full[slot], phase)
                scores = tlx.async_dot(q, tlx.local_trans(k_tiles[slot]))
                scores = tlx.async_dot_wait(0, scores)
                tlx.barrier_arrive(k_free[slot])
                if MASKED:
                    scores = masked(scores, query, (count - 1) * BN, seq_q, seq_k, CAUSAL)
                highest = tl.full((ROWS, ), float("-inf"), tl.float32)
                p, highest, total, shrink = softmax(scores, highest, tl.zeros((ROWS, ), tl.float32), scale, MASKED > 0)
                p = p.to(DTYPE)
                acc = tl.zeros((ROWS, D), tl.float32)
                tlx.barrier_wait(v_full[slot], phase)
                used += 1
                # The stores of the tile before are over by now: its place may be filled.
                if TURNS == 2:
                    tlx.async_descriptor_store_wait(0)
                    tlx.barrier_arrive(q_free[q_slot ^ 2], pred=turn > 0)

                if MASKED > 1:
                    for n in range(plain, count - 1):
                        acc, p, highest, total, shrink = step(
                            q, k_tiles, v_tiles, k_full, k_free, v_full, v_free, acc, p, highest, total, shrink, used, scale, query,
                            (count - 2 - (n - plain)) * BN, seq_q, seq_k, me, STAGES, PING_PONG, True, CAUSAL)
                        used += 1
                    count = min(count, plain + 1)
                for n in range(1, count):
                    acc, p, highest, total, shrink = step(
                        q, k_tiles, v_tiles, k_full, k_free, v_full, v_free, acc, p, highest, total, shrink, used, scale, query,
                        0, seq_q, seq_k, me, STAGES, PING_PONG, False, CAUSAL)
                    used += 1

                before = (used - 1) % STAGES
                acc = tlx.async_dot(p, v_tiles[before], acc * shrink[:, None])
                rows = query + tl.arange(0, ROWS)
                tl.store(lse + (batch * heads + head).to(tl.int64) * seq_q + rows, (highest * scale + tl.log2(total)) * LN2,
                         mask=rows < seq_q)
                acc = tlx.async_dot_wait(0, acc)
                tlx.barrier_arrive(v_free[before])
                tlx.local_store(q, (acc / total[:, None]).to(DTYPE))
                tlx.fence("async_shared")
                tlx.async_descriptor_store(o_desc, tlx.local_reshape(q, (1, 1, ROWS, D)), [batch, head, query, 0])
                if TURNS == 1:
                    tlx.async_descriptor_store_wait(0)
                    tlx.barrier_arrive(q_free[q_slot])
                turn += 1
            tlx.async_descriptor_store_wait(0)

        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            filled = 0
            round = 0
            for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
                batch, head, query = tile_origin(tile, blocks, all_heads, heads, BAND, BM)
                count, _ = key_blocks(query, seq_q, seq_k, BM, BN, CAUSAL)
                kv_head = head // GROUP
                for c in tl.static_range(2):
                    q_slot = round % TURNS * 2 + c
                    tlx.barrier_wait(q_free[q_slot], round // TURNS % 2 ^ 1)
                    tlx.barrier_expect_bytes(q_full[q_slot], ROWS * D * tlx.size_of(DTYPE))
                    tlx.async_descriptor_load(q_desc, tlx.local_reshape(q_tiles[q_slot], (1, 1, ROWS, D)),
                                              [batch, head, query + c * ROWS, 0], q_full[q_slot])
                load(k_desc, k_tiles, k_full, k_free, filled, batch, kv_head, (count - 1) * BN, D, BN, STAGES)
                for n in range(1, count):
                    load(k_desc, k_tiles, k_full, k_free, filled + n, batch, kv_head, (count - 1 - n) * BN, D, BN, STAGES)
                    load(v_desc, v_tiles, v_full, v_free, filled + n - 1, batch, kv_head, (count - n) * BN, D, BN, STAGES)
                filled += count
                load(v_desc, v_tiles, v_full, v_free, filled - 1, batch, kv_head, 0, D, BN, STAGES)
                round += 1
