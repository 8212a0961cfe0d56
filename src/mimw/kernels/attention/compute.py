"""The role of a consumer of the attention kernel: for each tile, block of keys after block of keys, a product beside a
softmax.

Input: the pipes of queries, keys and values. Output: tiles of results in the pipe `results`, and their rows of `lse`.
For example:

    state                                           the softmax of the last block, and the sum of p V over the blocks before
    state = step(q, inputs, 7, state, ...)          the softmax of block 7 beside acc += p V of block 6
    compute(queries.reader(), ...)                  the role, tile after tile
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from ..consumers import begin_turn, open_turns, pass_turn
from .heads import dots, nothing, scores_of, shrunk, waited, weigh, write
from .nouns import Softmax, State
from .schedule import blocks_of, next_tile, number_of_tiles, tile_at
from .softmax import changed, ended, first_softmax, masked, sink_of, softmax


@mimw.jit
def begin(queries, chunk, inputs, number, blocks, rules, form, MASKED: tl.constexpr):
    """The softmax of the first block of a tile, which is block number `number` of all, with nothing beside it."""
    q = queries.wait(chunk).slot
    scores = scores_of(q, inputs.keys.wait(number).slot)
    scores = tlx.async_dot_wait(0, scores)
    inputs.keys.release(number)
    key = blocks.low + (blocks.count - 1) * form.BN
    scores = changed(scores, blocks.query, key, blocks, rules)
    p, highest, total = first_softmax(scores, blocks.query, key, rules, form.CAUSAL, MASKED)
    return Softmax(made(p, q.rows.dtype, form.LATE), highest, total)


@mimw.jit
def made(p, DTYPE: tl.constexpr, LATE: tl.constexpr):
    """Probabilities as a step leaves them: of the products' type, or LATE, as they are, for the next step to cast.

    A cast at the end of a step makes the operand of the next one's product registers that the loop carries. From CUDA 13.3
    on the assembler casts into other registers, and moves all 32 between the first products of the next trip.
    """
    if LATE:
        return p
    else:
        return p.to(DTYPE)


@mimw.jit
def weighed(values, number, acc):
    """acc when the product with the values of block `number` is over."""
    acc = waited(acc)
    values.release(number)
    return acc


@mimw.jit
def step(q, inputs, number, state, blocks, key, rules, awaited, chunk, form, MASKED: tl.constexpr, NEW_TILE: tl.constexpr):
    """The softmax of block `number` of keys, from `key` on, beside acc += p V of the block before; gives the new state.

    Where the block is the first of a NEW_TILE, acc gets the last product of the tile before, and the rest begins anew.
    """
    acc = state.acc
    p = state.softmax.p.to(q.rows.dtype)
    k = inputs.keys.wait(number).slot
    if form.PING_PONG:
        begin_turn(inputs.me)
    scores = scores_of(q, k)
    acc = weigh(p, inputs.values.held(number - 1), acc)
    if form.PING_PONG:
        pass_turn(inputs.me, form.CONSUMERS)
    scores = tlx.async_dot_wait(dots(acc), scores)
    inputs.keys.release(number)

    scores = changed(scores, blocks.query, key, blocks, rules)
    if NEW_TILE:
        new_p, highest, total = first_softmax(scores, blocks.query, key, rules, form.CAUSAL, MASKED)
    else:
        if MASKED:
            scores = masked(scores, blocks.query, key, rules.problem, form.CAUSAL)
        new_p, highest, total, shrink = softmax(scores, state.softmax.highest, state.softmax.total, rules.scale,
                                            MASKED or rules.changes.mod is not None)
    if form.PING_PONG:
        # In turns the cast before the wait is 4 % faster (head dim 256, causal, an H200): with the cast behind it, the assembler
        # begins a row's maximum only after the exponents of the row before. Without turns no such order was seen.
        new_p = new_p.to(p.dtype)
    # What is awaited here is needed next anyway. Waiting for it already now keeps the assembler from moving the wait for
    # the product up before the softmax, where the two would no longer overlap: it moves no wait over a loop.
    awaited.wait(chunk)
    acc = weighed(inputs.values, number - 1, acc)
    if not NEW_TILE:
        acc = shrunk(acc, shrink[:, None])
    return State(Softmax(made(new_p, p.dtype, form.LATE), highest, total), acc)


@mimw.jit
def steps(q, inputs, start, stop, end, state, blocks, rules, form, MASKED: tl.constexpr):
    """The state after the blocks from `start` to `stop` of a tile whose last block is number end - 1."""
    for number in range(start, stop):
        key = blocks.low + (end - 1 - number) * form.BN
        state = step(q, inputs, number, state, blocks, key, rules, inputs.values, number, form, MASKED, False)
    return state


@mimw.jit
def all_steps(q, inputs, first, end, state, blocks, rules, form):
    """The state after all blocks of a tile but number `first`, the first one: those that a right bound may cut, then the plain
    ones, of which a left bound may cut the last."""
    if form.MASKED > 1:
        first_plain = max(end - blocks.plain, first + 1)
        state = steps(q, inputs, first + 1, first_plain, end, state, blocks, rules, form, True)
    else:
        first_plain = first + 1
    if rules.problem.left is None:
        state = steps(q, inputs, first_plain, end, end, state, blocks, rules, form, False)
    else:
        first_left = max(end - blocks.inside, first_plain)
        state = steps(q, inputs, first_plain, first_left, end, state, blocks, rules, form, False)
        state = steps(q, inputs, first_left, end, end, state, blocks, rules, form, True)
    return state


@mimw.jit
def compute(queries, results, inputs, order, lse, rules, form):
    """The rows of consumer `inputs.me` in each tile of this program."""
    ROWS: tl.constexpr = form.BM // form.CONSUMERS
    me: tl.constexpr = inputs.me
    problem = rules.problem
    number = tl.program_id(0)
    turn, first = 0, 0
    if form.PING_PONG:
        open_turns(me, form.CONSUMERS)
    if form.AHEAD:
        ahead = blocks_of(tile_at(number, problem, form), rules, form)
        ahead = ahead.replace(query=ahead.query + me * ROWS)
        begun = begin(queries, turn, inputs, first, ahead, rules, form, form.MASKED > 0)
    while number < number_of_tiles(problem, form):
        tile = tile_at(number, problem, form)
        blocks, sink = blocks_of(tile, rules, form), sink_of(tile.head, rules)
        blocks = blocks.replace(query=blocks.query + me * ROWS)
        end = first + blocks.count
        if not form.AHEAD:
            begun = begin(queries, turn, inputs, first, blocks, rules, form, form.MASKED > 0)
        q = queries.held(turn)
        state = State(begun, nothing(ROWS, inputs.values.wait(first).slot))
        state = all_steps(q, inputs, first, end, state, blocks, rules, form)
        begun, acc = state.softmax, state.acc

        number = next_tile(order, turn)
        first = end
        logarithm, inverse = ended(begun, sink, rules)
        if form.AHEAD and number < number_of_tiles(problem, form):
            ahead = blocks_of(tile_at(number, problem, form), rules, form)
            next_q = queries.wait(turn + 1).slot
            ahead = ahead.replace(query=ahead.query + me * ROWS)
            state = step(next_q, inputs, first, state, ahead, ahead.low + (ahead.count - 1) * form.BN, rules, queries, turn + 1,
                         form, form.MASKED > 0, True)
            begun, acc = state.softmax, state.acc
        else:
            acc = weigh(begun.p.to(q.rows.dtype), inputs.values.held(first - 1), acc)
            acc = weighed(inputs.values, first - 1, acc)
        rows = blocks.query + tl.arange(0, ROWS)
        tl.store(lse + (tile.batch * problem.heads + tile.head).to(tl.int64) * problem.seq_q + rows, logarithm,
                 mask=rows < problem.seq_q)
        slot = results.acquire(turn)
        write(slot, acc, inverse[:, None], q.rows.dtype)
        results.commit(turn)
        turn += 1
