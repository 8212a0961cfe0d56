"""Which queries a program computes, and which pairs of keys each looks at.

Input: the number of a task and the sizes `shape` = (batches, heads, seq_q, seq_k, window, window2). Output: where the task is. For
example, with one tile of heads a batch, 10 queries on 1000 keys and windows of 512 and 32:

    tile_at(0, (1, 64, 10, 1000, 512, 32), 64, 64)  (0, 0, 9, 999, 488, 8, 968, 32): batch 0, heads from 0 on, query 9 at position
                                                    999, whose 512 keys from 488 on are 8 blocks of 64, and 32 second keys from
                                                    968 on

A task is BH heads of one query: they share their keys, so all rows of a tile have the same window, and nothing is masked but the
end of the last block. The last queries come first: their windows are whole, and the short ones even out the programs' ends.
"""

import triton.language as tl

import mimw


@mimw.jit
def number_of_tiles(shape, BH: tl.constexpr):
    """Tasks of a launch."""
    batches, heads, seq_q, _, _, _ = shape
    return batches * (heads // BH) * seq_q


@mimw.jit
def tile_at(tile, shape, BH: tl.constexpr, BN: tl.constexpr):
    """(batch, first head, query, its position, first key, blocks of keys, first second key, second keys) of a task."""
    batches, heads, seq_q, seq_k, window, window2 = shape
    groups = heads // BH
    query = seq_q - 1 - tile // (batches * groups)
    position = query + seq_k - seq_q
    within = tile % (batches * groups)
    low, low2 = max(0, position + 1 - window), max(0, position + 1 - window2)
    blocks = tl.cdiv(position + 1 - low, BN)
    return within // groups, within % groups * BH, query, position, low, blocks, low2, position + 1 - low2
