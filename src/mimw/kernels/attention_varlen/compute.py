"""The role of a consumer of attention on packed sequences: ../attention's, with the sizes of its own sequence for each tile.

Input: the pipes of queries, keys, values and tiles. Output: tiles of results in the pipe `results`, and their rows of `lse`. For
example:

    compute(queries.reader(), ..., order.reader("consumer0"), lse, ...)         the role, tile after tile

What differs: a program may have no tile at all, and a query may see no key, for which o is 0 and lse -inf, or the head's sink.
"""

import triton.language as tl

import mimw

from ..attention.compute import all_steps, begin, step, weighed
from ..attention.heads import nothing, weigh, write
from ..attention.nouns import State
from ..attention.softmax import ended, sink_of
from ..consumers import open_turns
from .schedule import blocks_of, is_one, next_tile, sizes


@mimw.jit
def compute(queries, results, inputs, order, lse, total_q, rules, form):
    """The rows of consumer `inputs.me` in each tile of this program, which may have none."""
    if form.PING_PONG:
        open_turns(inputs.me, form.CONSUMERS)
    tile = next_tile(order, 0)
    if is_one(tile):    # around all: values that meet behind a condition, in front of the loop, spill 300 bytes in ptxas
        tiles(tile, queries, results, inputs, order, lse, total_q, rules, form)


@mimw.jit
def tiles(tile, queries, results, inputs, order, lse, total_q, rules, form):
    """The same from the first tile on."""
    ROWS: tl.constexpr = form.BM // form.CONSUMERS
    me: tl.constexpr = inputs.me
    turn, first = 0, 0
    if form.AHEAD:
        of_first = rules.replace(problem=sizes(tile, rules.problem))
        ahead = blocks_of(tile, of_first, form)
        ahead = ahead.replace(query=ahead.query + me * ROWS)
        begun = begin(queries, turn, inputs, first, ahead, of_first, form, True)
    while is_one(tile):
        head, q_start, q_length = tile.head, tile.q_start, tile.q_length
        own = rules.replace(problem=sizes(tile, rules.problem))     # of the tile's sequence
        blocks, sink = blocks_of(tile, own, form), sink_of(head, own)
        blocks = blocks.replace(query=blocks.query + me * ROWS)
        end = first + blocks.count
        if not form.AHEAD:
            begun = begin(queries, turn, inputs, first, blocks, own, form, True)
        q = queries.held(turn)
        state = State(begun, nothing(ROWS, inputs.values.wait(first).slot))
        state = all_steps(q, inputs, first, end, state, blocks, own, form)
        begun, acc = state.softmax, state.acc

        tile = next_tile(order, turn + 1)
        first = end
        logarithm, inverse = ended(begun, sink, own)
        inverse = tl.where(begun.total == 0.0, 0.0, inverse)
        rows = blocks.query + tl.arange(0, ROWS)
        tl.store(lse + head.to(tl.int64) * total_q + q_start + rows, logarithm, mask=rows < q_length)
        if form.AHEAD and is_one(tile):
            of_next = rules.replace(problem=sizes(tile, rules.problem))
            ahead = blocks_of(tile, of_next, form)
            next_q = queries.wait(turn + 1).slot
            ahead = ahead.replace(query=ahead.query + me * ROWS)
            state = step(next_q, inputs, first, state, ahead, ahead.low + (ahead.count - 1) * form.BN, of_next, queries, turn + 1,
                         form, True, True)
            begun, acc = state.softmax, state.acc
        else:
            acc = weigh(begun.p.to(q.rows.dtype), inputs.values.held(first - 1), acc)
            acc = weighed(inputs.values, first - 1, acc)
        write(results.acquire(turn), acc, inverse[:, None], q.rows.dtype)
        results.commit(turn)
        turn += 1
