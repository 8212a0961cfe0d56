"""The role of a consumer of attention on packed sequences: ../attention's, with the sizes of its own sequence for each tile.

Input: the pipes of queries, keys, values and tiles. Output: tiles of results in the pipe `results`, and their rows of `lse`. For
example:

    compute(queries.reader(), ..., order.reader("consumer0"), lse, ...)         the role, tile after tile

What differs: a program may have no tile at all, and a query may see no key, for which o is 0 and lse -inf, or the head's sink.
"""

import triton.language as tl

import mimw

from ..attention.compute import begin, blocks, step, weighed
from ..attention.heads import nothing, weigh, write
from ..attention.softmax import ended, slope_at
from ..consumers import open_turns
from .schedule import blocks_at, is_one, next_tile, sizes


@mimw.jit
def compute(queries, results, keys, values, order, lse, total_q, scale, heads, bounds, extras, me: tl.constexpr, BM: tl.constexpr,
            BN: tl.constexpr, CONSUMERS: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr, PING_PONG: tl.constexpr,
            AHEAD: tl.constexpr, LATE: tl.constexpr):
    """The rows of consumer `me` in each tile of this program, which may have none."""
    if PING_PONG:
        open_turns(me, CONSUMERS)
    tile = next_tile(order, 0)
    if is_one(tile):    # around all: values that meet behind a condition, in front of the loop, spill 300 bytes in ptxas
        tiles(tile, queries, results, keys, values, order, lse, total_q, scale, heads, bounds, extras, me, BM, BN, CONSUMERS,
              CAUSAL, MASKED, PING_PONG, AHEAD, LATE)


@mimw.jit
def tiles(tile, queries, results, keys, values, order, lse, total_q, scale, heads, bounds, extras, me: tl.constexpr,
          BM: tl.constexpr, BN: tl.constexpr, CONSUMERS: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr,
          PING_PONG: tl.constexpr, AHEAD: tl.constexpr, LATE: tl.constexpr):
    """The same from the first tile on."""
    ROWS: tl.constexpr = BM // CONSUMERS
    turn, first = 0, 0
    if AHEAD:
        first_shape = sizes(tile, heads, bounds[0], bounds[1])
        first_low, first_count, _, _ = blocks_at(tile, first_shape, BM, BN, CAUSAL)
        first_slope = slope_at(tile[0], tile[1], scale, extras)
        p, highest, total = begin(queries, turn, keys, first, tile[2] + me * ROWS, first_count, first_low, first_slope, scale,
                                  first_shape, extras, BN, CAUSAL, True, LATE)
    while is_one(tile):
        sequence, head, query, q_start, q_length, _, _ = tile
        shape = sizes(tile, heads, bounds[0], bounds[1])
        low, count, plain, inside = blocks_at(tile, shape, BM, BN, CAUSAL)
        slope = slope_at(sequence, head, scale, extras)
        query += me * ROWS
        end = first + count
        if not AHEAD:
            p, highest, total = begin(queries, turn, keys, first, query, count, low, slope, scale, shape, extras, BN, CAUSAL, True,
                                      LATE)
        q = queries.held(turn)
        state = p, highest, total, nothing(ROWS, values.wait(first).slot)
        state = blocks(q, keys, values, first, end, plain, inside, state, query, low, slope, scale, shape, extras, me, BN,
                       CONSUMERS, CAUSAL, MASKED, PING_PONG, LATE)
        p, highest, total, acc = state

        tile = next_tile(order, turn + 1)
        first = end
        logarithm, inverse = ended(highest, total, head, scale, extras)
        inverse = tl.where(total == 0.0, 0.0, inverse)
        rows = query + tl.arange(0, ROWS)
        tl.store(lse + head.to(tl.int64) * total_q + q_start + rows, logarithm, mask=rows < q_length)
        if AHEAD and is_one(tile):
            next_shape = sizes(tile, heads, bounds[0], bounds[1])
            next_low, next_count, _, _ = blocks_at(tile, next_shape, BM, BN, CAUSAL)
            next_slope = slope_at(tile[0], tile[1], scale, extras)
            next_q = queries.wait(turn + 1).slot
            p, highest, total, acc = step(next_q, keys, values, first, state, tile[2] + me * ROWS, next_low + (next_count - 1) * BN,
                                          next_slope, scale, next_shape, extras, queries, turn + 1, me, CONSUMERS, CAUSAL, True,
                                          PING_PONG, LATE, True)
        else:
            acc = weigh(p.to(q.rows.dtype), values.held(first - 1), acc)
            acc = weighed(values, first - 1, acc)
        write(results.acquire(turn), acc, inverse[:, None], q.rows.dtype)
        results.commit(turn)
        turn += 1
