"""The role of a consumer of causal ring attention on two chunks: ../attention's, for tiles that look at more than the rank's
own keys.

Input: the pipes of queries, keys and values. Output: tiles of results in the pipe `results`, and their rows of `lse`. For
example:

    compute(queries.reader(), results.writer(), keys.reader("consumer0"), ...)      the role, tile after tile

A consumer does not know where keys come from. Own ones come first, from the last one on, and only these may need masks; all
queries of the tile see all others, so of those it need not know which they are. The softmax goes on over ranks as over blocks.
Counted as ../attention counts, keys begin `extra` blocks in front of the rank's first one.
"""

import triton.language as tl

import mimw

from ..attention.compute import begin, blocks, step, weighed
from ..attention.heads import nothing, weigh, write
from ..attention.schedule import next_tile, number_of_tiles
from ..attention.softmax import ended
from ..consumers import open_turns
from .places import tile_at


@mimw.jit
def compute(queries, results, keys, values, order, lse, scale, shape, zigzag, me: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
            CONSUMERS: tl.constexpr, MASKED: tl.constexpr, PING_PONG: tl.constexpr, AHEAD: tl.constexpr, LATE: tl.constexpr):
    """The rows of consumer `me` in each tile of this program."""
    ROWS: tl.constexpr = BM // CONSUMERS
    extras = None, None, None, None
    tile = tl.program_id(0)
    turn, first = 0, 0
    if PING_PONG:
        open_turns(me, CONSUMERS)
    if AHEAD:
        _, _, query, _, own, extra, _ = tile_at(tile, shape, zigzag, BM, BN, 2, True)
        p, highest, total = begin(queries, turn, keys, first, query + me * ROWS, own, 0, None, scale, shape, extras, BN, True,
                                  True, LATE)
    while tile < number_of_tiles(shape, BM):
        batch, head, query, _, own, extra, plain = tile_at(tile, shape, zigzag, BM, BN, 2, True)
        query += me * ROWS
        end = first + own + extra
        if not AHEAD:
            p, highest, total = begin(queries, turn, keys, first, query, own, 0, None, scale, shape, extras, BN, True, True,
                                      LATE)
        q = queries.held(turn)
        state = p, highest, total, nothing(ROWS, values.wait(first).slot)
        state = blocks(q, keys, values, first, end, plain, 0, state, query, -extra * BN, None, scale, shape, extras, me, BN,
                       CONSUMERS, True, MASKED, PING_PONG, LATE)
        p, highest, total, acc = state

        tile = next_tile(order, turn)
        first = end
        logarithm, inverse = ended(highest, total, head, scale, extras)
        if AHEAD and tile < number_of_tiles(shape, BM):
            _, _, next_query, _, next_own, _, _ = tile_at(tile, shape, zigzag, BM, BN, 2, True)
            next_q = queries.wait(turn + 1).slot
            p, highest, total, acc = step(next_q, keys, values, first, state, next_query + me * ROWS, (next_own - 1) * BN,
                                          None, scale, shape, extras, queries, turn + 1, me, CONSUMERS, True, True, PING_PONG,
                                          LATE, True)
        else:
            acc = weigh(p.to(q.rows.dtype), values.held(first - 1), acc)
            acc = weighed(values, first - 1, acc)
        rows = query + tl.arange(0, ROWS)
        tl.store(lse + (batch * shape[1] + head).to(tl.int64) * shape[2] + rows, logarithm, mask=rows < shape[2])
        write(results.acquire(turn), acc, inverse[:, None], q.rows.dtype)
        results.commit(turn)
        turn += 1
