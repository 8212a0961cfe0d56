"""The role of a consumer: for each task, second key after second key, attention with scaled queries, a product beside a softmax.

Input: the pipes of queries, keys and values, and pointers to second keys and values. Output: consumer 0 stores O and lse. For
example:

    p, highest, total, shrunk, acc = state      of one second key: the last block's probabilities, the highest logits so far (of
                                                all second keys), the sums of this one's probabilities, by how much earlier
                                                results have to shrink since it began, and the sum of p V over its blocks
    state = step(q, keys, values, 7, state, ...)            the softmax of block 7 beside acc += p V of block 6
    sums = gather(sums, state, row, weight)     sum of acc v2, and of the probabilities, over second keys

A consumer is one block of keys ahead, also from one second key to the next: the softmax of that one's first block runs beside the
last product of the one before. Consumer c of two has second keys c, c + 2, ...; where their number is odd, consumer 1 does the last
once more, with a weight of 0.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from ..attention.softmax import LN2, softmax
from ..consumers import begin_turn, open_turns, pass_turn
from .schedule import number_of_tiles, tile_at


@mimw.jit
def row_at(base, row, stride, D: tl.constexpr):
    """One row of D numbers."""
    return tl.load(base + row.to(tl.int64) * stride + tl.arange(0, D))


@mimw.jit
def scaled(queries, row):
    """The queries times a second key, in the registers in which a product reads them: lane l of warp w has rows 16 w + l // 4 and
    8 further, and of every 8 columns the pair number l % 4."""
    D: tl.constexpr = queries.shape[1]
    OPERAND: tl.constexpr = tlx.layout(((4, 8, 4), (2, 2, D // 8)), ((2, D, 16 * D), (1, 8 * D, 8)))
    return tlx.require_layout(tlx.local_load(queries), OPERAND, pin=False) * row[None, :]


@mimw.jit
def masked(logits, key, position):
    """-inf for keys behind the query's position."""
    keys = key + tl.arange(0, logits.shape[1])
    return tl.where((keys <= position)[None, :], logits, float("-inf"))


@mimw.jit
def begin(q, k, key, position, highest, scale):
    """The state of a task's first second key behind its first block, with no product beside it."""
    logits = tlx.async_dot(q, tlx.local_trans(k))
    logits = masked(tlx.async_dot_wait(0, logits), key, position)
    p, highest, total, shrink = softmax(logits, highest, tl.zeros_like(highest), scale, False)
    return p.to(q.dtype), highest, total, shrink


@mimw.jit
def step(q, keys, values, block, before, last, before_last, state, key, position, scale, me: tl.constexpr, FIRST: tl.constexpr,
         PING_PONG: tl.constexpr):
    """The softmax of block number `block` beside acc += p V of block number `before`: (the new state, acc).

    last, before_last    whether the second key is the task's last one, whose blocks may be overwritten; that of `block` and of
                         `before`. Of the FIRST block of a second key, the state begins anew, and `acc` is that of the one before
    """
    p, highest, total, shrunk, acc = state
    k = keys.wait(block).slot.rows
    if PING_PONG:
        begin_turn(me)
    logits = tlx.async_dot(q, tlx.local_trans(k))
    acc = tlx.async_dot(p, values.held(before).rows, acc)
    if PING_PONG:
        pass_turn(me, 2)
    logits = tlx.async_dot_wait(1, logits)
    if last:
        keys.release(block)
    if FIRST:
        logits = masked(logits, key, position)
        new_p, highest, total, shrink = softmax(logits, highest, tl.zeros_like(total), scale, False)
    else:
        new_p, highest, total, shrink = softmax(logits, highest, total, scale, False)
    # As in attention: a wait for what is needed next keeps the assembler from moving the wait for the product over the softmax.
    values.wait(block)
    acc = tlx.async_dot_wait(0, acc)
    if before_last:
        values.release(before)
    if FIRST:
        return (new_p.to(p.dtype), highest, total, shrink, acc), acc
    else:
        return (new_p.to(p.dtype), highest, total, shrunk * shrink, acc * shrink[:, None]), acc


@mimw.jit
def steps(q, keys, values, first, end, after, last, state, position, scale, me: tl.constexpr, PING_PONG: tl.constexpr):
    """The state behind the blocks of a chunk from the second on: number `after` of the task, whose first is `first`, to `end`."""
    for block in range(first + after, end):
        # `masked` is for the first block of a task only, so no key is needed here.
        state, _ = step(q, keys, values, block, block - 1, last, last, state, 0, position, scale, me, False, PING_PONG)
    return state


@mimw.jit
def ending(first, blocks, number, mine, count2, v2_rows, v2_s, me: tl.constexpr, D: tl.constexpr, CHUNK: tl.constexpr):
    """(whether a second key is the last one of its chunk, the end of the chunk's blocks, the second value, its weight)."""
    second = number % mine
    at = 2 * second + me
    end = first + min((number // mine + 1) * CHUNK, blocks)
    return second == mine - 1, end, row_at(v2_rows, min(at, count2 - 1), v2_s, D), tl.where(at < count2, 1.0, 0.0)


@mimw.jit
def gathered(sums, shrunk, total, acc, row, weight):
    """(O, denominators) with one second key more, whose value is `row`; what was before shrinks."""
    out, denominators = sums
    return out * shrunk[:, None] + acc * (row.to(tl.float32) * weight)[None, :], denominators * shrunk + total * weight


@mimw.jit
def compute(queries, keys, values, halves, results, o_desc, seconds, lse, scale, shape, me: tl.constexpr, BH: tl.constexpr,
            BN: tl.constexpr, D: tl.constexpr, GROUP: tl.constexpr, CHUNK: tl.constexpr, PING_PONG: tl.constexpr):
    """The second keys me, me + 2, ... of each task of this program."""
    k2, v2, k2_b, k2_h, k2_s, v2_b, v2_h, v2_s = seconds
    turn, first = 0, 0
    if PING_PONG:
        open_turns(me, 2)
    for tile in range(tl.program_id(0), number_of_tiles(shape, BH), tl.num_programs(0)):
        batch, head, query, position, low, blocks, low2, count2 = tile_at(tile, shape, BH, BN)
        shared, far = head // GROUP, batch.to(tl.int64)
        k2_rows = k2 + far * k2_b + shared * k2_h + low2 * k2_s.to(tl.int64)
        v2_rows = v2 + far * v2_b + shared * v2_h + low2 * v2_s.to(tl.int64)
        mine = tl.cdiv(count2, 2)       # second keys of this consumer; each comes once for every chunk of keys
        rounds = tl.cdiv(blocks, CHUNK) * mine
        q = queries.wait(turn).slot.rows
        tall = low + (blocks - 1) * BN  # the first key of block number `first`

        sums = tl.zeros((BH, D), tl.float32), tl.zeros((BH, ), tl.float32)
        row = row_at(k2_rows, min(me, count2 - 1), k2_s, D)
        scaled_q = scaled(q, row)
        p, highest, total, shrunk = begin(scaled_q, keys.wait(first).slot.rows, tall, position,
                                          tl.full((BH, ), float("-inf"), tl.float32), scale)
        if mine == 1:
            keys.release(first)
        values.wait(first)
        state = p, highest, total, shrunk, tl.zeros((BH, D), tl.float32)
        for number in range(rounds - 1):
            last, end, value, weight = ending(first, blocks, number, mine, count2, v2_rows, v2_s, me, D, CHUNK)
            after = number // mine * CHUNK + 1
            state = steps(scaled_q, keys, values, first, end, after, last, state, position, scale, me, PING_PONG)
            coming = (number + 1) % mine
            scaled_q = scaled(q, row_at(k2_rows, min(2 * coming + me, count2 - 1), k2_s, D))
            begins = first + (number + 1) // mine * CHUNK
            _, _, total, shrunk, _ = state
            state, acc = step(scaled_q, keys, values, begins, end - 1, coming == mine - 1, last, state,
                              tall - (begins - first) * BN, position, scale, me, True, PING_PONG)
            sums = gathered(sums, shrunk, total, acc, value, weight)
            p, highest, total, shrunk, _ = state
            state = p, highest, total, shrunk, tl.zeros((BH, D), tl.float32)
        last, end, value, weight = ending(first, blocks, rounds - 1, mine, count2, v2_rows, v2_s, me, D, CHUNK)
        after = (rounds - 1) // mine * CHUNK + 1
        state = steps(scaled_q, keys, values, first, end, after, last, state, position, scale, me, PING_PONG)
        queries.release(turn)
        p, highest, total, shrunk, acc = state
        acc = tlx.async_dot(p, values.held(end - 1).rows, acc)
        acc = tlx.async_dot_wait(0, acc)
        values.release(end - 1)
        out, denominators = gathered(sums, shrunk, total, acc, value, weight)
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
