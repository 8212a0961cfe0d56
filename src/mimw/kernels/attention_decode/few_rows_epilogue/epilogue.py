"""The role of the epilogue: queries ahead of each tile, and results or parts of its sums.

Input: pipes of items, endings and sums, Q. Output: a pipe of queries; O and lse, or parts of tiles in `room`, which whoever comes
last of those who have keys of a tile adds up in the order of keys. For example, as a task of four warps:

    finish(items.reader("epilogue"), endings.reader("epilogue"), asked.writer(), sums.reader("epilogue"), ...)
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from ..attend import put_queries, rows_of
from ..finish import finish_tile, of_all_warps
from ..items import received, received_ending


@mimw.jit
def ask(queries, turn, q, item, problem, form, PAIRS: tl.constexpr):
    """A tile's queries, once for each warp; zeros in rows that do not count, and in columns that heads do not have."""
    put_queries(queries.acquire(turn), rows_of(q, item.batch, item.tile, problem, form), form, PAIRS)
    queries.commit(turn)


@mimw.jit
def finish(items, endings, queries, sums, factors, begun, q, results, workspace, problem, form):
    """The role: queries ahead of each tile, and its results, or this split's part of them."""
    PAIRS: tl.constexpr = results.v_scale is not None
    turn = 0
    item = received(items, turn)
    if item.first < item.stop:
        ask(queries, turn, q, item, problem, form, PAIRS)
        tlx.barrier_arrive(begun)
    while item.first < item.stop:
        following = received(items, turn + 1)
        if following.first < following.stop:
            ask(queries, turn + 1, q, following, problem, form, PAIRS)
        found = of_all_warps(sums.wait(turn).slot, form)
        sums.release(turn)
        finish_tile(found, item, received_ending(endings, turn), factors, results, workspace, problem, form)
        item = following
        turn += 1
