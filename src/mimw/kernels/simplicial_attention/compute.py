"""The role of a consumer: for each task, second key after second key, attention with scaled queries, a product beside a softmax.

Input: the pipes of queries, keys and values, and pointers to second keys and values. Output: consumer 0 stores O and lse. For
example:

    p, highest, total, shrunk, acc = state      of one second key: the last block's probabilities, the highest logits so far (of
                                                all second keys), the sums of this one's probabilities, by how much earlier
                                                results have to shrink since it began, and the sum of p V over its blocks
    state = step(q, keys, values, 7, state, ...)            the softmax of block 7 beside acc += p V of block 6
    sums = gathered(sums, state, row, weight)   sum of acc v2, and of the probabilities, over second keys

Consumer c of two has second keys c, c + 2, ...; where their number is odd, consumer 1 does the last once more, with a weight of 0.
Between two second keys the tensor cores have the last product of the one, beside which the queries are scaled for the other, and
then the first product of that one, beside which the results of the first are gathered.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from ..attention.softmax import LN2, softmax
from .schedule import number_of_tiles, tile_at


@mimw.jit
def second_rows(seconds, batch, head, first):
    """(keys, values): where the second keys and their values from number `first` on are, each as row_at takes them."""
    k2, v2, k2_b, k2_h, k2_s, v2_b, v2_h, v2_s = seconds
    far = batch.to(tl.int64)
    keys = k2 + far * k2_b + head * k2_h + first * k2_s.to(tl.int64)
    values = v2 + far * v2_b + head * v2_h + first * v2_s.to(tl.int64)
    return (keys, k2_s), (values, v2_s)


@mimw.jit
def row_at(rows, row, D: tl.constexpr):
    """One row of D numbers."""
    base, stride = rows
    return tl.load(base + row.to(tl.int64) * stride + tl.arange(0, D))


@mimw.jit
def scale_queries(queries, row, scaled):
    """The queries times a second key to where a product reads them: in shared memory, since in registers they would take 32 of each
    thread, and 32 more for the copies that the assembler makes for every product."""
    VECTORS: tl.constexpr = tlx.layout(((32, 4), (8, queries.shape[0] * queries.shape[1] // 1024)), ((8, 256), (1, 1024)))
    tlx.local_store(scaled, tlx.require_layout(tlx.local_load(queries), VECTORS, pin=False) * row[None, :])
    tlx.fence("async_shared")


@mimw.jit
def masked(logits, key, position):
    """-inf for keys behind the query's position."""
    if key + logits.shape[1] > position + 1:
        keys = key + tl.arange(0, logits.shape[1])
        logits = tl.where((keys <= position)[None, :], logits, float("-inf"))
    return logits


@mimw.jit
def begun(logits, key, position, highest, scale, BH: tl.constexpr, D: tl.constexpr, DTYPE: tl.constexpr):
    """The state behind the first block of a second key."""
    logits = masked(logits, key, position)
    p, highest, total, shrunk = softmax(logits, highest, tl.zeros((BH, ), tl.float32), scale, False)
    return p.to(DTYPE), highest, total, shrunk, tl.zeros((BH, D), tl.float32)


@mimw.jit
def step(q, keys, values, block, last, state, scale):
    """The state behind block number `block`: its softmax beside acc += p V of the block before. last: whether the second key is the
    task's last one, so that blocks may be overwritten."""
    p, highest, total, shrunk, acc = state
    logits = tlx.async_dot(q, tlx.local_trans(keys.wait(block).slot.rows))
    acc = tlx.async_dot(p, values.held(block - 1).rows, acc)
    logits = tlx.async_dot_wait(1, logits)
    if last:
        keys.release(block)
    new_p, highest, total, shrink = softmax(logits, highest, total, scale, False)
    # As in attention: a wait for what is needed next keeps the assembler from moving the wait for the product over the softmax.
    values.wait(block)
    acc = tlx.async_dot_wait(0, acc)
    if last:
        values.release(block - 1)
    return new_p.to(p.dtype), highest, total, shrunk * shrink, acc * shrink[:, None]


@mimw.jit
def ending(first, blocks, number, mine, count2, me: tl.constexpr, CHUNK: tl.constexpr):
    """Of round `number`, one second key on one chunk: (whether the key is the last one on its chunk, the chunk's second block, its
    end, the second key, its weight)."""
    second, chunk = number % mine, number // mine
    at = 2 * second + me
    end = first + min((chunk + 1) * CHUNK, blocks)
    return second == mine - 1, first + chunk * CHUNK + 1, end, min(at, count2 - 1), tl.where(at < count2, 1.0, 0.0)


@mimw.jit
def gathered(sums, state, acc, row, weight):
    """(O, denominators) with one second key more, whose value is `row`; what was before shrinks."""
    out, denominators = sums
    _, _, total, shrunk, _ = state
    return out * shrunk[:, None] + acc * (row.to(tl.float32) * weight)[None, :], denominators * shrunk + total * weight


@mimw.jit
def compute(queries, scaled, keys, values, halves, results, o_desc, seconds, lse, scale, shape, me: tl.constexpr, BH: tl.constexpr,
            BN: tl.constexpr, D: tl.constexpr, GROUP: tl.constexpr, CHUNK: tl.constexpr):
    """The second keys me, me + 2, ... of each task of this program."""
    DTYPE: tl.constexpr = scaled.dtype
    turn, first = 0, 0
    for tile in range(tl.program_id(0), number_of_tiles(shape, BH), tl.num_programs(0)):
        batch, head, query, position, low, blocks, low2, count2 = tile_at(tile, shape, BH, BN)
        keys2, values2 = second_rows(seconds, batch, head // GROUP, low2)
        mine = tl.cdiv(count2, 2)       # second keys of this consumer; each comes once for every chunk of keys
        rounds = tl.cdiv(blocks, CHUNK) * mine
        q = queries.wait(turn).slot.rows
        tall = low + (blocks - 1) * BN  # the first key of block number `first`

        sums = tl.zeros((BH, D), tl.float32), tl.zeros((BH, ), tl.float32)
        scale_queries(q, row_at(keys2, min(me, count2 - 1), D), scaled)
        logits = tlx.async_dot(scaled, tlx.local_trans(keys.wait(first).slot.rows))
        logits = tlx.async_dot_wait(0, logits)
        if mine == 1:
            keys.release(first)
        state = begun(logits, tall, position, tl.full((BH, ), float("-inf"), tl.float32), scale, BH, D, DTYPE)
        values.wait(first)
        for number in range(rounds - 1):
            last, second, end, at, weight = ending(first, blocks, number, mine, count2, me, CHUNK)
            coming = (number + 1) % mine
            begins = first + (number + 1) // mine * CHUNK
            row = row_at(keys2, min(2 * coming + me, count2 - 1), D)
            value = row_at(values2, at, D)
            for block in range(second, end):
                state = step(scaled, keys, values, block, last, state, scale)
            p, highest, _, _, acc = state
            acc = tlx.async_dot(p, values.held(end - 1).rows, acc)
            scale_queries(q, row, scaled)
            logits = tlx.async_dot(scaled, tlx.local_trans(keys.wait(begins).slot.rows))
            acc = tlx.async_dot_wait(1, acc)
            if last:
                values.release(end - 1)
            sums = gathered(sums, state, acc, value, weight)
            values.wait(begins)
            logits = tlx.async_dot_wait(0, logits)
            if coming == mine - 1:
                keys.release(begins)
            state = begun(logits, tall - (begins - first) * BN, position, highest, scale, BH, D, DTYPE)
        last, second, end, at, weight = ending(first, blocks, rounds - 1, mine, count2, me, CHUNK)
        value = row_at(values2, at, D)
        for block in range(second, end):
            state = step(scaled, keys, values, block, last, state, scale)
        queries.release(turn)
        p, highest, _, _, acc = state
        acc = tlx.async_dot_wait(0, tlx.async_dot(p, values.held(end - 1).rows, acc))
        values.release(end - 1)
        out, denominators = gathered(sums, state, acc, value, weight)
        finish(out, denominators, highest, halves, results, o_desc, lse, scale, shape, turn, batch, head, query, me, BH, D)
        first += blocks
        turn += 1
    if me == 0:
        tlx.async_descriptor_store_wait(0)


@mimw.jit
def finish(out, denominators, highest, halves, results, o_desc, lse, scale, shape, turn, batch, head, query, me: tl.constexpr,
           BH: tl.constexpr, D: tl.constexpr):
    """Consumer 1 hands over its sums, consumer 0 adds them to its own and stores."""
    if me == 1:
        slot = halves.writer().acquire(turn)
        tlx.local_store(slot.acc, out)
        tlx.local_store(slot.sums[0], highest)
        tlx.local_store(slot.sums[1], denominators)
        halves.writer().commit(turn)
    else:
        reader = halves.reader()
        slot = reader.wait(turn).slot
        other = tlx.local_load(slot.sums[0])
        both = tl.maximum(highest, other)
        mine, its = tl.exp2((highest - both) * scale), tl.exp2((other - both) * scale)
        denominators = denominators * mine + tlx.local_load(slot.sums[1]) * its
        out = out * (mine / denominators)[:, None] + tlx.local_load(slot.acc) * (its / denominators)[:, None]
        reader.release(turn)
        heads = head + tl.arange(0, BH)
        tl.store(lse + (batch * shape[1] + heads).to(tl.int64) * shape[2] + query, (both * scale + tl.log2(denominators)) * LN2)
        tlx.async_descriptor_store_wait(0)      # of the task before, before its tile is overwritten
        tlx.local_store(results, out.to(results.dtype))
        tlx.fence("async_shared")
        tlx.async_descriptor_store(o_desc, tlx.local_reshape(results, o_desc.block_shape), [batch, head, query, 0])
