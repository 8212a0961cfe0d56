"""Which program computes which tile of the output, and which blocks of keys a tile looks at.

Input: the number of a tile, the sizes and the form of the kernel (nouns.py). Output: the tile's place, or the number of the next
tile. For example, with BM = BN = 128, one head, 256 queries and keys, and CAUSAL:

    tile_at(0, Problem(1, 256, 256, None, None, 1, 1), form)    Tile(0, 0, 128, 2, 1): batch 0, head 0, queries from 128 on,
                                                                2 blocks of keys, of which 1 needs no mask
    window_at(128, problem, form)           (0, 1) where `left` is 100: keys from 0 on, blocks from number 1 on begin
                                            inside of the window of every query of the tile

The window of a query at position p = query + seq_k - seq_q reaches from key p - left to key p + right; None is no bound, and CAUSAL
is a right of 0. Blocks outside of the windows of all queries of a tile are not looked at.

Tiles are numbered by bands of heads, so that the keys and values of a band stay in the L2 cache, and in a band by
falling length: the last tiles to be taken are short ones, and all programs end together.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from .nouns import Blocks, Tile
from .softmax import slope_at


@mimw.jit
def number_of_tiles(problem, form):
    """Tiles of the output."""
    return tl.cdiv(problem.seq_q, form.BM) * problem.batches * problem.heads


@mimw.jit
def tile_at(tile, problem, form):
    """Output tile number `tile`. Blocks of keys left of the window count neither among its blocks nor among the plain ones."""
    heads = problem.heads
    head, query = rows_of(tile, problem.batches, heads, problem.band, problem.seq_q, form.BM)
    ends, plain = keys_of(query, problem, form)
    if problem.left is None:
        return Tile(head // heads, head % heads, query, tl.cdiv(ends, form.BN), plain)
    else:
        low, _ = window_at(query, problem, form)
        return Tile(head // heads, head % heads, query, tl.cdiv(ends, form.BN) - low // form.BN, plain - low // form.BN)


@mimw.jit
def blocks_of(tile, rules, form):
    """Blocks of keys that the queries of a tile look at."""
    low, inside = window_at(tile.query, rules.problem, form)
    slope = slope_at(tile.batch, tile.head, rules)
    if rules.changes.mod is None:
        return Blocks(tile.query, low, tile.count, tile.plain, inside, slope)
    else:
        return Blocks(tile.query, low, tile.count, tile.plain, inside, slope, (tile.batch, tile.head))


@mimw.jit
def rows_of(tile, batches, heads, band, seq_q, BM: tl.constexpr):
    """(head, first query) of tile number `tile` of the heads of all batches."""
    blocks = tl.cdiv(seq_q, BM)
    first = tile // (band * blocks) * band
    width = min(batches * heads - first, band)
    within = tile % (band * blocks)
    return first + within % width, (blocks - 1 - within // width) * BM


@mimw.jit
def keys_of(query, problem, form):
    """(the key behind the last one that the tile of queries from `query` on looks at, the blocks from key 0 on that no right bound
    cuts)."""
    seq_q, seq_k, right = problem.seq_q, problem.seq_k, problem.right
    BM: tl.constexpr = form.BM
    BN: tl.constexpr = form.BN
    if right is not None:
        ends = min(query + BM + seq_k - seq_q + right, seq_k)
        plain = min((query + seq_k - seq_q + right + 1) // BN, ends // BN)
    else:
        ends = min(query + BM + seq_k - seq_q, seq_k) if form.CAUSAL else seq_k
        plain = min((query + seq_k - seq_q + 1) // BN, ends // BN) if form.CAUSAL else ends // BN
    return ends, plain


@mimw.jit
def window_at(query, problem, form):
    """(the first key of the first block that the tile from `query` on looks at, the number of the block from which on no query's
    window begins inside of a block, counted from that one), both 0 without a left bound."""
    if problem.left is None:
        return 0, 0
    else:
        begins = query + problem.seq_k - problem.seq_q - problem.left       # of the first query's window
        low = max(begins, 0) // form.BN
        return low * form.BN, tl.cdiv(max(begins + form.BM - 1, 0), form.BN) - low


@mimw.jit
def steal(counter, tiles):
    """The number of the next tile, `tiles` or more if none is left. The program that takes the last one resets the counter."""
    taken = tl.atomic_add(counter, 1, sem="relaxed")
    if taken == tiles - 1:
        tl.atomic_xchg(counter, 0, sem="relaxed")
    return taken + tl.num_programs(0)


@mimw.jit
def schedule(order, counter, problem, form):
    """Take tile after tile from the queue of all programs, and send the other roles the one that follows number `turn`."""
    tile = tl.program_id(0)
    turn = 0
    while tile < number_of_tiles(problem, form):
        tile = steal(counter, number_of_tiles(problem, form))
        slot = order.acquire(turn)
        tlx.local_store(slot.tile, tl.full((1, ), tile, tl.int32))
        order.commit(turn)
        turn += 1


@mimw.jit
def next_tile(order, turn):
    """The tile that follows number `turn` of this program."""
    tile = tl.max(tlx.local_load(order.wait(turn).slot.tile), 0)
    order.release(turn)
    return tile
