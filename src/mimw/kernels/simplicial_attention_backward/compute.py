"""The role of a consumer: for each task, second key after second key, the products for dQ, a product beside the exponents.

Input: the pipes of queries, keys and values, and pointers to second keys and values. Output: consumer 0 stores dQ. For example:

    ds, x = state                               of one second key: the gradients of the last block's logits, and the sum of ds K
                                                over the blocks before
    state = step(scaled, weighed, keys, values, 7, state, ...)      the gradients of block 7 beside x += ds K of block 6

Second keys are shared out as forward: consumer c has c, c + 2, ..., and where their number is odd, consumer 1 does the last once
more, with a weight of 0.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from ..attention.softmax import LOG2_E
from ..simplicial_attention.compute import ending, masked, row_at, scale_queries, second_rows
from ..simplicial_attention.schedule import number_of_tiles, tile_at


@mimw.jit
def gradients(logits, dp, rows, scale, DTYPE: tl.constexpr):
    """ds of a block of pairs; `rows` are the rows' logarithms to base 2 and their delta."""
    logarithm, delta = rows
    return (tl.exp2(logits * (scale * LOG2_E) - logarithm[:, None]) * (dp - delta[:, None])).to(DTYPE)


@mimw.jit
def step(scaled, weighed, keys, values, block, last, state, rows, scale):
    """The state behind block number `block`. last: whether the second key is the task's last one, and blocks may be overwritten."""
    ds, x = state
    logits = tlx.async_dot(scaled, tlx.local_trans(keys.wait(block).slot.rows))
    dp = tlx.async_dot(weighed, tlx.local_trans(values.wait(block).slot.rows))
    x = tlx.async_dot(ds, keys.held(block - 1).rows, x)
    dp = tlx.async_dot_wait(1, dp)
    logits = tlx.async_dot_wait(1, logits)
    if last:
        values.release(block)
    new = gradients(logits, dp, rows, scale, ds.dtype)
    x = tlx.async_dot_wait(0, x)
    if last:
        keys.release(block - 1)
    return new, x


@mimw.jit
def compute(queries, scaled, weighed, keys, values, halves, dq_desc, seconds, lse, delta, scale, shape, me: tl.constexpr,
            BH: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, GROUP: tl.constexpr, CHUNK: tl.constexpr):
    """The second keys me, me + 2, ... of each task of this program."""
    DTYPE: tl.constexpr = scaled.dtype
    turn, first = 0, 0
    for tile in range(tl.program_id(0), number_of_tiles(shape, BH), tl.num_programs(0)):
        batch, head, query, position, low, blocks, low2, count2 = tile_at(tile, shape, BH, BN)
        keys2, values2 = second_rows(seconds, batch, head // GROUP, low2)
        mine = tl.cdiv(count2, 2)       # second keys of this consumer; each comes once for every chunk of keys
        rounds = tl.cdiv(blocks, CHUNK) * mine
        line = (batch * shape[1] + head + tl.arange(0, BH)).to(tl.int64) * shape[2] + query
        rows = tl.load(lse + line) * LOG2_E, tl.load(delta + line)
        slot = queries.wait(turn).slot
        tall = low + (blocks - 1) * BN  # the first key of block number `first`

        sums = tl.zeros((BH, D), tl.float32)
        if me == 0:
            tlx.async_descriptor_store_wait(0)      # of the task before, which lies where the queries are scaled
        at = min(me, count2 - 1)
        scale_queries(slot.rows, row_at(keys2, at, D), scaled)
        scale_queries(slot.gradients, row_at(values2, at, D), weighed)
        logits = tlx.async_dot(scaled, tlx.local_trans(keys.wait(first).slot.rows))
        dp = tlx.async_dot(weighed, tlx.local_trans(values.wait(first).slot.rows))
        dp = tlx.async_dot_wait(0, dp)
        logits = masked(tlx.async_dot_wait(0, logits), tall, position)
        if mine == 1:
            values.release(first)
        state = gradients(logits, dp, rows, scale, DTYPE), tl.zeros((BH, D), tl.float32)
        for number in range(rounds - 1):
            last, second, end, at, weight = ending(first, blocks, number, mine, count2, me, CHUNK)
            coming = (number + 1) % mine
            begins, next_at = first + (number + 1) // mine * CHUNK, min(2 * coming + me, count2 - 1)
            key2 = row_at(keys2, at, D)
            next_key2, next_value2 = row_at(keys2, next_at, D), row_at(values2, next_at, D)
            for block in range(second, end):
                state = step(scaled, weighed, keys, values, block, last, state, rows, scale)
            ds, x = state
            x = tlx.async_dot(ds, keys.held(end - 1).rows, x)
            scale_queries(slot.rows, next_key2, scaled)
            scale_queries(slot.gradients, next_value2, weighed)
            logits = tlx.async_dot(scaled, tlx.local_trans(keys.wait(begins).slot.rows))
            dp = tlx.async_dot(weighed, tlx.local_trans(values.wait(begins).slot.rows))
            x = tlx.async_dot_wait(2, x)
            if last:
                keys.release(end - 1)
            sums += x * (key2.to(tl.float32) * weight)[None, :]
            dp = tlx.async_dot_wait(0, dp)
            logits = masked(tlx.async_dot_wait(0, logits), tall - (begins - first) * BN, position)
            if coming == mine - 1:
                values.release(begins)
            state = gradients(logits, dp, rows, scale, DTYPE), tl.zeros((BH, D), tl.float32)
        last, second, end, at, weight = ending(first, blocks, rounds - 1, mine, count2, me, CHUNK)
        key2 = row_at(keys2, at, D)
        for block in range(second, end):
            state = step(scaled, weighed, keys, values, block, last, state, rows, scale)
        queries.release(turn)
        ds, x = state
        x = tlx.async_dot_wait(0, tlx.async_dot(ds, keys.held(end - 1).rows, x))
        keys.release(end - 1)
        sums += x * (key2.to(tl.float32) * weight)[None, :]
        if me == 1:
            half = halves.writer().acquire(turn)
            tlx.local_store(half.acc, sums)
            halves.writer().commit(turn)
        else:
            reader = halves.reader()
            dq = (sums + tlx.local_load(reader.wait(turn).slot.acc)) * scale
            reader.release(turn)
            tlx.local_store(scaled, dq.to(DTYPE))
            tlx.fence("async_shared")
            tlx.async_descriptor_store(dq_desc, tlx.local_reshape(scaled, dq_desc.block_shape), [batch, head, query, 0])
        first += blocks
        turn += 1
    if me == 0:
        tlx.async_descriptor_store_wait(0)
