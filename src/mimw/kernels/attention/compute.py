"""The role of a consumer of the attention kernel: for each tile, block of keys after block of keys, a product beside a
softmax.

Input: the pipes of queries, keys and values. Output: tiles of results in the pipe `results`, and their rows of `lse`.
For example:

    p, highest, total, acc = state                  the last block's probabilities, the highest scores and the sums of
                                                    probabilities so far, and the sum of p V over the blocks before
    state = step(q, keys, values, 7, state, ...)    the softmax of block 7 beside acc += p V of block 6
    compute(queries.reader("consumer0"), ...)       the role, tile after tile
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from ..consumers import begin_turn, open_turns, pass_turn
from .heads import dots, nothing, scores_of, shrunk, waited, weigh, write
from .schedule import next_tile, number_of_tiles, tile_at, window_at
from .softmax import changed, ended, first_softmax, masked, slope_at, softmax


@mimw.jit
def begin(queries, chunk, keys, block, query, count, low, slope, scale, shape, extras, BN: tl.constexpr, CAUSAL: tl.constexpr,
          MASKED: tl.constexpr, LATE: tl.constexpr):
    """(probabilities, highest scores, sums) of the first block of a tile of `count` from key `low` on, with nothing beside it."""
    q = queries.wait(chunk).slot
    scores = scores_of(q, keys.wait(block).slot)
    scores = tlx.async_dot_wait(0, scores)
    keys.release(block)
    key = low + (count - 1) * BN
    scores = changed(scores, query, key, slope, shape, extras)
    p, highest, total = first_softmax(scores, query, key, scale, shape, CAUSAL, MASKED)
    return made(p, q.rows.dtype, LATE), highest, total


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
def weighed(values, block, acc):
    """acc when the product with the values of block number `block` is over."""
    acc = waited(acc)
    values.release(block)
    return acc


@mimw.jit
def step(q, keys, values, block, state, query, key, slope, scale, shape, extras, awaited, chunk, me: tl.constexpr,
         CONSUMERS: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr, PING_PONG: tl.constexpr, LATE: tl.constexpr,
         NEW_TILE: tl.constexpr):
    """The softmax of block number `block` of keys, from `key` on, beside acc += p V of the block before; gives the new state.

    Where the block is the first of a NEW_TILE, acc gets the last product of the tile before, and the rest begins anew.
    """
    p, highest, total, acc = state
    p = p.to(q.rows.dtype)
    k = keys.wait(block).slot
    if PING_PONG:
        begin_turn(me)
    scores = scores_of(q, k)
    acc = weigh(p, values.held(block - 1), acc)
    if PING_PONG:
        pass_turn(me, CONSUMERS)
    scores = tlx.async_dot_wait(dots(acc), scores)
    keys.release(block)

    scores = changed(scores, query, key, slope, shape, extras)
    if NEW_TILE:
        new_p, highest, total = first_softmax(scores, query, key, scale, shape, CAUSAL, MASKED)
    else:
        if MASKED:
            scores = masked(scores, query, key, shape, CAUSAL)
        new_p, highest, total, shrink = softmax(scores, highest, total, scale, MASKED)
    if PING_PONG:
        # In turns the cast before the wait is 4 % faster (head dim 256, causal, an H200): with the cast behind it, the assembler
        # begins a row's maximum only after the exponents of the row before. Without turns no such order was seen.
        new_p = new_p.to(p.dtype)
    # What is awaited here is needed next anyway. Waiting for it already now keeps the assembler from moving the wait for
    # the product up before the softmax, where the two would no longer overlap: it moves no wait over a loop.
    awaited.wait(chunk)
    acc = weighed(values, block - 1, acc)
    if not NEW_TILE:
        acc = shrunk(acc, shrink[:, None])
    return made(new_p, p.dtype, LATE), highest, total, acc


@mimw.jit
def steps(q, keys, values, start, stop, end, state, query, low, slope, scale, shape, extras, me: tl.constexpr, BN: tl.constexpr,
          CONSUMERS: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr, PING_PONG: tl.constexpr, LATE: tl.constexpr):
    """The state after the blocks from `start` to `stop` of a tile whose last block, from key `low` on, is number end - 1."""
    for block in range(start, stop):
        state = step(q, keys, values, block, state, query, low + (end - 1 - block) * BN, slope, scale, shape, extras, values, block,
                     me, CONSUMERS, CAUSAL, MASKED, PING_PONG, LATE, False)
    return state


@mimw.jit
def blocks(q, keys, values, first, end, plain, inside, state, query, low, slope, scale, shape, extras, me: tl.constexpr,
           BN: tl.constexpr, CONSUMERS: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr, PING_PONG: tl.constexpr,
           LATE: tl.constexpr):
    """The state after all blocks of a tile but number `first`, the first one: those that a right bound may cut, then the last
    `plain` ones; a left bound may cut those of them that begin in front of block number `inside`, counted from key `low` on."""
    if MASKED > 1:
        first_plain = max(end - plain, first + 1)
        state = steps(q, keys, values, first + 1, first_plain, end, state, query, low, slope, scale, shape, extras, me, BN,
                      CONSUMERS, CAUSAL, True, PING_PONG, LATE)
    else:
        first_plain = first + 1
    if shape[5] is None:
        state = steps(q, keys, values, first_plain, end, end, state, query, low, slope, scale, shape, extras, me, BN, CONSUMERS,
                      CAUSAL, False, PING_PONG, LATE)
    else:
        first_left = max(end - inside, first_plain)
        state = steps(q, keys, values, first_plain, first_left, end, state, query, low, slope, scale, shape, extras, me, BN,
                      CONSUMERS, CAUSAL, False, PING_PONG, LATE)
        state = steps(q, keys, values, first_left, end, end, state, query, low, slope, scale, shape, extras, me, BN, CONSUMERS,
                      CAUSAL, True, PING_PONG, LATE)
    return state


@mimw.jit
def compute(queries, results, keys, values, order, lse, scale, shape, extras, me: tl.constexpr, BM: tl.constexpr,
            BN: tl.constexpr, CONSUMERS: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr, PING_PONG: tl.constexpr,
            AHEAD: tl.constexpr, LATE: tl.constexpr):
    """The rows of consumer `me` in each tile of this program."""
    ROWS: tl.constexpr = BM // CONSUMERS
    tile = tl.program_id(0)
    turn, first = 0, 0
    if PING_PONG:
        open_turns(me, CONSUMERS)
    if AHEAD:
        first_batch, first_head, query, count, _ = tile_at(tile, shape, BM, BN, CAUSAL)
        first_low, _ = window_at(query, shape, BM, BN)
        first_slope = slope_at(first_batch, first_head, scale, extras)
        p, highest, total = begin(queries, turn, keys, first, query + me * ROWS, count, first_low, first_slope, scale, shape,
                                  extras, BN, CAUSAL, MASKED > 0, LATE)
    while tile < number_of_tiles(shape, BM):
        batch, head, query, count, plain = tile_at(tile, shape, BM, BN, CAUSAL)
        low, inside = window_at(query, shape, BM, BN)
        slope = slope_at(batch, head, scale, extras)
        query += me * ROWS
        end = first + count
        if not AHEAD:
            p, highest, total = begin(queries, turn, keys, first, query, count, low, slope, scale, shape, extras, BN, CAUSAL,
                                      MASKED > 0, LATE)
        q = queries.held(turn)
        state = p, highest, total, nothing(ROWS, values.wait(first).slot)
        state = blocks(q, keys, values, first, end, plain, inside, state, query, low, slope, scale, shape, extras, me, BN,
                       CONSUMERS, CAUSAL, MASKED, PING_PONG, LATE)
        p, highest, total, acc = state

        tile = next_tile(order, turn)
        first = end
        logarithm, inverse = ended(highest, total, head, scale, extras)
        if AHEAD and tile < number_of_tiles(shape, BM):
            next_batch, next_head, next_query, next_count, _ = tile_at(tile, shape, BM, BN, CAUSAL)
            next_low, _ = window_at(next_query, shape, BM, BN)
            next_slope = slope_at(next_batch, next_head, scale, extras)
            next_q = queries.wait(turn + 1).slot
            p, highest, total, acc = step(next_q, keys, values, first, state, next_query + me * ROWS,
                                          next_low + (next_count - 1) * BN, next_slope, scale, shape, extras, queries, turn + 1, me,
                                          CONSUMERS, CAUSAL, MASKED > 0, PING_PONG, LATE, True)
        else:
            acc = weigh(p.to(q.rows.dtype), values.held(first - 1), acc)
            acc = weighed(values, first - 1, acc)
        rows = query + tl.arange(0, ROWS)
        tl.store(lse + (batch * shape[1] + head).to(tl.int64) * shape[2] + rows, logarithm, mask=rows < shape[2])
        slot = results.acquire(turn)
        write(slot, acc, inverse[:, None], q.rows.dtype)
        results.commit(turn)
        turn += 1
