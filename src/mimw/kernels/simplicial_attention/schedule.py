"""The queries that a program computes, and the pairs of keys that each looks at.

Input: the number of a task and the problem. Output: a `Task`. For example, with one tile of heads a batch, 10 queries on 1000 keys
and windows of 512 and 32:

    tile_at(0, problem, form)   Task(0, 0, 9, 999, 488, 8, 968, 32): batch 0, heads from 0 on, query 9 at position 999, whose 512
                                keys from 488 on are 8 blocks of 64, and 32 second keys from 968 on

A task is BH heads of one query: they share their keys, so all rows of a tile have the same window, and nothing is masked but the
end of the last block. The last queries come first: their windows are whole, and the short ones even out the programs' ends.
"""

import triton.language as tl

import mimw

from .nouns import Task


@mimw.jit
def number_of_tiles(problem, form):
    """Tasks of a launch."""
    return problem.batches * (problem.heads // form.BH) * problem.seq_q


@mimw.jit
def tile_at(tile, problem, form):
    """A task by its number."""
    groups = problem.heads // form.BH
    query = problem.seq_q - 1 - tile // (problem.batches * groups)
    position = query + problem.seq_k - problem.seq_q
    within = tile % (problem.batches * groups)
    low, low2 = max(0, position + 1 - problem.window), max(0, position + 1 - problem.window2)
    blocks = tl.cdiv(position + 1 - low, form.BN)
    return Task(within // groups, within % groups * form.BH, query, position, low, blocks, low2, position + 1 - low2)
