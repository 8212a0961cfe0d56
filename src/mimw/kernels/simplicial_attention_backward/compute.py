"""The role of a consumer: for each task, second key after second key, the products for dQ, a product beside the exponents.

Input: the pipes of queries, keys and values, and second keys and values in memory. Output: consumer 0 stores dQ. For example:

    state = step(scaled, weighed, inputs, 7, last, state, numbers, scale)       the gradients of block 7 beside x += ds K of block 6

Second keys are shared out as forward: consumer c has c, c + 2, ..., and where their number is odd, consumer 1 does the last once
more, with a weight of 0.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..attention.softmax import LOG2_E
from ..simplicial_attention.compute import masked, round_of, row_at, scale_queries, seconds_of
from ..simplicial_attention.schedule import number_of_tiles, tile_at


@tle.struct
class State:
    """One second key so far: the gradients of the last block's logits, and the sum of ds K over the blocks before."""

    ds: Any
    x: Any


@tle.struct
class Numbers:
    """Of each row of a task the logarithm of the denominator to base 2, and delta."""

    logarithm: Any
    delta: Any


@tle.struct
class Results:
    """The end of a task, the pipe from consumer 1 to consumer 0 and dQ's descriptor, and numbers of each row, lse and delta."""

    halves: Any
    desc: Any
    lse: Any
    delta: Any


@mimw.jit
def gradients(logits, dp, numbers, scale, DTYPE: tl.constexpr):
    """ds of a block of pairs."""
    return (tl.exp2(logits * (scale * LOG2_E) - numbers.logarithm[:, None]) * (dp - numbers.delta[:, None])).to(DTYPE)


@mimw.jit
def step(scaled, weighed, inputs, block, last, state, numbers, scale):
    """The state behind block number `block`. last: whether the second key is the task's last one, and blocks may be overwritten."""
    keys, values = inputs.keys, inputs.values
    logits = tlx.async_dot(scaled, tlx.local_trans(keys.wait(block).slot.rows))
    dp = tlx.async_dot(weighed, tlx.local_trans(values.wait(block).slot.rows))
    x = tlx.async_dot(state.ds, keys.held(block - 1).rows, state.x)
    dp = tlx.async_dot_wait(1, dp)
    logits = tlx.async_dot_wait(1, logits)
    if last:
        values.release(block)
    new = gradients(logits, dp, numbers, scale, state.ds.dtype)
    x = tlx.async_dot_wait(0, x)
    if last:
        keys.release(block - 1)
    return State(new, x)


@mimw.jit
def compute(inputs, scaled, weighed, results, arrays, problem, me: tl.constexpr, form):
    """The second keys me, me + 2, ... of each task of this program."""
    keys, values, scale = inputs.keys, inputs.values, problem.scale
    turn, first = 0, 0
    for tile in range(tl.program_id(0), number_of_tiles(problem, form), tl.num_programs(0)):
        task = tile_at(tile, problem, form)
        seconds = seconds_of(arrays, task, form)
        line = (task.batch * problem.heads + task.head + tl.arange(0, form.BH)).to(tl.int64) * problem.seq_q + task.query
        numbers = Numbers(tl.load(results.lse + line) * LOG2_E, tl.load(results.delta + line))
        slot = inputs.queries.wait(turn).slot
        tall = task.low + (task.blocks - 1) * form.BN   # the first key of block number `first`

        sums = tl.zeros((form.BH, form.D), tl.float32)
        if me == 0:
            tlx.async_descriptor_store_wait(0)      # of the task before, which lies where the queries are scaled
        at = min(me, task.count2 - 1)
        scale_queries(slot.rows, row_at(seconds.keys, at, form.D), scaled)
        scale_queries(slot.gradients, row_at(seconds.values, at, form.D), weighed)
        logits = tlx.async_dot(scaled, tlx.local_trans(keys.wait(first).slot.rows))
        dp = tlx.async_dot(weighed, tlx.local_trans(values.wait(first).slot.rows))
        dp = tlx.async_dot_wait(0, dp)
        logits = masked(tlx.async_dot_wait(0, logits), tall, task.position)
        if seconds.mine == 1:
            values.release(first)
        state = State(gradients(logits, dp, numbers, scale, scaled.dtype), tl.zeros((form.BH, form.D), tl.float32))
        for number in range(seconds.rounds - 1):
            this = round_of(number, first, seconds, task, me, form)
            coming = (number + 1) % seconds.mine
            begins, next_at = first + (number + 1) // seconds.mine * form.CHUNK, min(2 * coming + me, task.count2 - 1)
            key2 = row_at(seconds.keys, this.at, form.D)
            next_key2, next_value2 = row_at(seconds.keys, next_at, form.D), row_at(seconds.values, next_at, form.D)
            for block in range(this.second, this.end):
                state = step(scaled, weighed, inputs, block, this.last, state, numbers, scale)
            x = tlx.async_dot(state.ds, keys.held(this.end - 1).rows, state.x)
            scale_queries(slot.rows, next_key2, scaled)
            scale_queries(slot.gradients, next_value2, weighed)
            logits = tlx.async_dot(scaled, tlx.local_trans(keys.wait(begins).slot.rows))
            dp = tlx.async_dot(weighed, tlx.local_trans(values.wait(begins).slot.rows))
            x = tlx.async_dot_wait(2, x)
            if this.last:
                keys.release(this.end - 1)
            sums += x * (key2.to(tl.float32) * this.weight)[None, :]
            dp = tlx.async_dot_wait(0, dp)
            logits = masked(tlx.async_dot_wait(0, logits), tall - (begins - first) * form.BN, task.position)
            if coming == seconds.mine - 1:
                values.release(begins)
            state = State(gradients(logits, dp, numbers, scale, scaled.dtype), tl.zeros((form.BH, form.D), tl.float32))
        this = round_of(seconds.rounds - 1, first, seconds, task, me, form)
        key2 = row_at(seconds.keys, this.at, form.D)
        for block in range(this.second, this.end):
            state = step(scaled, weighed, inputs, block, this.last, state, numbers, scale)
        inputs.queries.release(turn)
        x = tlx.async_dot_wait(0, tlx.async_dot(state.ds, keys.held(this.end - 1).rows, state.x))
        keys.release(this.end - 1)
        sums += x * (key2.to(tl.float32) * this.weight)[None, :]
        finish(sums, scaled, results, turn, task, scale, me)
        first += task.blocks
        turn += 1
    if me == 0:
        tlx.async_descriptor_store_wait(0)


@mimw.jit
def finish(sums, tile, results, turn, task, scale, me: tl.constexpr):
    """Consumer 1 hands over its sum, consumer 0 adds it to its own and stores."""
    if me == 1:
        half = results.halves.writer().acquire(turn)
        tlx.local_store(half.acc, sums)
        results.halves.writer().commit(turn)
    else:
        reader = results.halves.reader()
        dq = (sums + tlx.local_load(reader.wait(turn).slot.acc)) * scale
        reader.release(turn)
        tlx.local_store(tile, dq.to(tile.dtype))
        tlx.fence("async_shared")
        tlx.async_descriptor_store(results.desc, tlx.local_reshape(tile, results.desc.block_shape),
                                   [task.batch, task.head, task.query, 0])
