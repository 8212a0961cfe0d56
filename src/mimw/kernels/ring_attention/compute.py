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

from ..attention.compute import all_steps, begin, step, weighed
from ..attention.heads import nothing, weigh, write
from ..attention.nouns import Blocks, State
from ..attention.schedule import next_tile, number_of_tiles
from ..attention.softmax import ended, sink_of
from ..consumers import open_turns
from .places import tile_at


@mimw.jit
def compute(queries, results, inputs, order, lse, rules, zigzag, form):
    """The rows of consumer `inputs.me` in each tile of this program."""
    ROWS: tl.constexpr = form.BM // form.CONSUMERS
    me: tl.constexpr = inputs.me
    problem = rules.problem
    number = tl.program_id(0)
    turn, first = 0, 0
    if form.PING_PONG:
        open_turns(me, form.CONSUMERS)
    if form.AHEAD:
        ahead = tile_at(number, problem, zigzag, form)
        begun = begin(queries, turn, inputs, first, own_blocks(ahead.query + me * ROWS, ahead), rules, form, True)
    while number < number_of_tiles(problem, form):
        tile = tile_at(number, problem, zigzag, form)
        query = tile.query + me * ROWS
        end = first + tile.own + tile.extra
        if not form.AHEAD:
            begun = begin(queries, turn, inputs, first, own_blocks(query, tile), rules, form, True)
        q = queries.held(turn)
        state = State(begun, nothing(ROWS, inputs.values.wait(first).slot))
        blocks = Blocks(query, -tile.extra * form.BN, tile.own + tile.extra, tile.plain, 0, None)
        state = all_steps(q, inputs, first, end, state, blocks, rules, form)
        begun, acc = state.softmax, state.acc

        number = next_tile(order, turn)
        first = end
        logarithm, inverse = ended(begun, sink_of(tile.head, rules), rules)
        if form.AHEAD and number < number_of_tiles(problem, form):
            ahead = tile_at(number, problem, zigzag, form)
            next_q = queries.wait(turn + 1).slot
            state = step(next_q, inputs, first, state, own_blocks(ahead.query + me * ROWS, ahead), (ahead.own - 1) * form.BN, rules,
                         queries, turn + 1, form, True, True)
            begun, acc = state.softmax, state.acc
        else:
            acc = weigh(begun.p.to(q.rows.dtype), inputs.values.held(first - 1), acc)
            acc = weighed(inputs.values, first - 1, acc)
        rows = query + tl.arange(0, ROWS)
        tl.store(lse + (tile.batch * problem.heads + tile.head).to(tl.int64) * problem.seq_q + rows, logarithm,
                 mask=rows < problem.seq_q)
        write(results.acquire(turn), acc, inverse[:, None], q.rows.dtype)
        results.commit(turn)
        turn += 1


@mimw.jit
def own_blocks(query, tile):
    """Blocks of the rank's own keys that queries of a tile, from `query` on, look at."""
    return Blocks(query, 0, tile.own, tile.plain, 0, None)
