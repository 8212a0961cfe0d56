"""The role of a consumer: for each task, second key after second key, attention with scaled queries, a product beside a softmax.

Input: the pipes of queries, keys and values, and second keys and values in memory. Output: consumer 0 stores O and lse. For
example:

    state = step(q, inputs, 7, last, state, scale)          the softmax of block 7 beside acc += p V of block 6
    sums = gathered(sums, state, acc, row, weight)          sum of acc v2, and of the probabilities, over second keys

Consumer c of two has second keys c, c + 2, ...; where their number is odd, consumer 1 does the last once more, with a weight of 0.
Between two second keys the tensor cores have the last product of the one, beside which the queries are scaled for the other, and
then the first product of that one, beside which the results of the first are gathered.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from ..attention.softmax import LN2, softmax
from .nouns import Round, Rows, Seconds, State, Sums
from .schedule import number_of_tiles, tile_at


@mimw.jit
def rows_from(array, steps, batch, head, first):
    """The rows of a batch and a head from number `first` on."""
    return Rows(array + batch.to(tl.int64) * steps.batch + head * steps.head + first * steps.row.to(tl.int64), steps.row)


@mimw.jit
def seconds_of(arrays, task, form):
    """A task's second keys and values."""
    keys = rows_from(arrays.keys, arrays.steps.k2, task.batch, task.head // form.GROUP, task.low2)
    values = rows_from(arrays.values, arrays.steps.v2, task.batch, task.head // form.GROUP, task.low2)
    mine = tl.cdiv(task.count2, 2)
    return Seconds(keys, values, mine, tl.cdiv(task.blocks, form.CHUNK) * mine)


@mimw.jit
def row_at(rows, row, D: tl.constexpr):
    """One row of D numbers."""
    return tl.load(rows.base + row.to(tl.int64) * rows.step + tl.arange(0, D))


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
def begun(logits, key, task, highest, scale, form, DTYPE: tl.constexpr):
    """The state behind the first block of a second key."""
    logits = masked(logits, key, task.position)
    p, highest, total, shrunk = softmax(logits, highest, tl.zeros((form.BH, ), tl.float32), scale, False)
    return State(p.to(DTYPE), highest, total, shrunk, tl.zeros((form.BH, form.D), tl.float32))


@mimw.jit
def step(q, inputs, block, last, state, scale):
    """The state behind block number `block`: its softmax beside acc += p V of the block before. last: whether the second key is the
    task's last one, so that blocks may be overwritten."""
    keys, values = inputs.keys, inputs.values
    logits = tlx.async_dot(q, tlx.local_trans(keys.wait(block).slot.rows))
    acc = tlx.async_dot(state.p, values.held(block - 1).rows, state.acc)
    logits = tlx.async_dot_wait(1, logits)
    if last:
        keys.release(block)
    p, highest, total, shrink = softmax(logits, state.highest, state.total, scale, False)
    # As in attention: a wait for what is needed next keeps the assembler from moving the wait for the product over the softmax.
    values.wait(block)
    acc = tlx.async_dot_wait(0, acc)
    if last:
        values.release(block - 1)
    return State(p.to(state.p.dtype), highest, total, state.shrunk * shrink, acc * shrink[:, None])


@mimw.jit
def round_of(number, first, seconds, task, me: tl.constexpr, form):
    """Round number `number` of a task whose first block of keys is number `first`."""
    second, chunk = number % seconds.mine, number // seconds.mine
    at = 2 * second + me
    end = first + min((chunk + 1) * form.CHUNK, task.blocks)
    return Round(second == seconds.mine - 1, first + chunk * form.CHUNK + 1, end, min(at, task.count2 - 1),
                 tl.where(at < task.count2, 1.0, 0.0))


@mimw.jit
def gathered(sums, state, acc, row, weight):
    """The sums with one second key more, whose value is `row`; what was before shrinks."""
    return Sums(sums.out * state.shrunk[:, None] + acc * (row.to(tl.float32) * weight)[None, :],
                sums.denominators * state.shrunk + state.total * weight)


@mimw.jit
def compute(inputs, scaled, results, arrays, problem, me: tl.constexpr, form):
    """The second keys me, me + 2, ... of each task of this program."""
    keys, values = inputs.keys, inputs.values
    turn, first = 0, 0
    for tile in range(tl.program_id(0), number_of_tiles(problem, form), tl.num_programs(0)):
        task = tile_at(tile, problem, form)
        seconds = seconds_of(arrays, task, form)
        q = inputs.queries.wait(turn).slot.rows
        tall = task.low + (task.blocks - 1) * form.BN   # the first key of block number `first`

        sums = Sums(tl.zeros((form.BH, form.D), tl.float32), tl.zeros((form.BH, ), tl.float32))
        scale_queries(q, row_at(seconds.keys, min(me, task.count2 - 1), form.D), scaled)
        logits = tlx.async_dot(scaled, tlx.local_trans(keys.wait(first).slot.rows))
        logits = tlx.async_dot_wait(0, logits)
        if seconds.mine == 1:
            keys.release(first)
        state = begun(logits, tall, task, tl.full((form.BH, ), float("-inf"), tl.float32), problem.scale, form, scaled.dtype)
        values.wait(first)
        for number in range(seconds.rounds - 1):
            this = round_of(number, first, seconds, task, me, form)
            coming = (number + 1) % seconds.mine
            begins = first + (number + 1) // seconds.mine * form.CHUNK
            row = row_at(seconds.keys, min(2 * coming + me, task.count2 - 1), form.D)
            value = row_at(seconds.values, this.at, form.D)
            for block in range(this.second, this.end):
                state = step(scaled, inputs, block, this.last, state, problem.scale)
            acc = tlx.async_dot(state.p, values.held(this.end - 1).rows, state.acc)
            scale_queries(q, row, scaled)
            logits = tlx.async_dot(scaled, tlx.local_trans(keys.wait(begins).slot.rows))
            acc = tlx.async_dot_wait(1, acc)
            if this.last:
                values.release(this.end - 1)
            sums = gathered(sums, state, acc, value, this.weight)
            values.wait(begins)
            logits = tlx.async_dot_wait(0, logits)
            if coming == seconds.mine - 1:
                keys.release(begins)
            state = begun(logits, tall - (begins - first) * form.BN, task, state.highest, problem.scale, form, scaled.dtype)
        this = round_of(seconds.rounds - 1, first, seconds, task, me, form)
        value = row_at(seconds.values, this.at, form.D)
        for block in range(this.second, this.end):
            state = step(scaled, inputs, block, this.last, state, problem.scale)
        inputs.queries.release(turn)
        acc = tlx.async_dot_wait(0, tlx.async_dot(state.p, values.held(this.end - 1).rows, state.acc))
        values.release(this.end - 1)
        finish(gathered(sums, state, acc, value, this.weight), state.highest, results, turn, task, problem, me, form)
        first += task.blocks
        turn += 1
    if me == 0:
        tlx.async_descriptor_store_wait(0)


@mimw.jit
def finish(sums, highest, results, turn, task, problem, me: tl.constexpr, form):
    """Consumer 1 hands over its sums, consumer 0 adds them to its own and stores."""
    if me == 1:
        slot = results.halves.writer().acquire(turn)
        tlx.local_store(slot.acc, sums.out)
        tlx.local_store(slot.sums[0], highest)
        tlx.local_store(slot.sums[1], sums.denominators)
        results.halves.writer().commit(turn)
    else:
        reader = results.halves.reader()
        slot = reader.wait(turn).slot
        other = tlx.local_load(slot.sums[0])
        both = tl.maximum(highest, other)
        mine, its = tl.exp2((highest - both) * problem.scale), tl.exp2((other - both) * problem.scale)
        denominators = sums.denominators * mine + tlx.local_load(slot.sums[1]) * its
        out = sums.out * (mine / denominators)[:, None] + tlx.local_load(slot.acc) * (its / denominators)[:, None]
        reader.release(turn)
        heads = task.head + tl.arange(0, form.BH)
        tl.store(results.lse + (task.batch * problem.heads + heads).to(tl.int64) * problem.seq_q + task.query,
                 (both * problem.scale + tl.log2(denominators)) * LN2)
        tlx.async_descriptor_store_wait(0)      # of the task before, before its tile is overwritten
        tlx.local_store(results.tile, out.to(results.tile.dtype))
        tlx.fence("async_shared")
        tlx.async_descriptor_store(results.desc, tlx.local_reshape(results.tile, results.desc.block_shape),
                                   [task.batch, task.head, task.query, 0])
