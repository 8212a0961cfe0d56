"""Which program computes which tile of the output, and which blocks of keys a tile looks at.

Input: the number of a tile and the sizes `shape` = (batches, heads, seq_q, seq_k, band, left, right). Output: the tile's
place, or the number of the next tile. For example, with BM = BN = 128, one head, 256 queries and keys, and CAUSAL:

    tile_at(0, (1, 1, 256, 256, 1, None, None), 128, 128, True)     (0, 0, 128, 2, 1): batch 0, head 0, queries from 128 on,
                                                                    2 blocks of keys, of which 1 needs no mask
    window_at(128, shape, 128, 128)         (0, 1) where `left` is 100: keys from 0 on, blocks from number 1 on begin
                                            inside of the window of every query of the tile

The window of a query at position p = query + seq_k - seq_q reaches from key p - left to key p + right; None is no bound, and CAUSAL
is a right of 0. Blocks outside of the windows of all queries of a tile are not looked at.

Tiles are numbered by bands of heads, so that the keys and values of a band stay in the L2 cache, and in a band by
falling length: the last tiles to be drawn are short ones, and all programs end together.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def number_of_tiles(shape, BM: tl.constexpr):
    """Tiles of the output; `shape` is (batches, heads, seq_q, seq_k, band, left, right)."""
    batches, heads, seq_q, _, _, _, _ = shape
    return tl.cdiv(seq_q, BM) * batches * heads


@mimw.jit
def tile_at(tile, shape, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):
    """(batch, head, first query, blocks of keys its queries look at, how many of those need no mask) of output tile `tile`. Blocks
    left of the window count for neither."""
    batches, heads, seq_q, _, band, left, _ = shape
    head, query = rows_of(tile, batches, heads, band, seq_q, BM)
    ends, plain = keys_of(query, shape, BM, BN, CAUSAL)
    if left is None:
        return head // heads, head % heads, query, tl.cdiv(ends, BN), plain
    else:
        low, _ = window_at(query, shape, BM, BN)
        return head // heads, head % heads, query, tl.cdiv(ends, BN) - low // BN, plain - low // BN


@mimw.jit
def rows_of(tile, batches, heads, band, seq_q, BM: tl.constexpr):
    """(head, first query) of tile number `tile` of the heads of all batches."""
    blocks = tl.cdiv(seq_q, BM)
    first = tile // (band * blocks) * band
    width = min(batches * heads - first, band)
    within = tile % (band * blocks)
    return first + within % width, (blocks - 1 - within // width) * BM


@mimw.jit
def keys_of(query, shape, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):
    """(the key behind the last one that the tile of queries from `query` on looks at, the blocks from key 0 on that no right bound
    cuts)."""
    _, _, seq_q, seq_k, _, _, right = shape
    if right is not None:
        ends = min(query + BM + seq_k - seq_q + right, seq_k)
        plain = min((query + seq_k - seq_q + right + 1) // BN, ends // BN)
    else:
        ends = min(query + BM + seq_k - seq_q, seq_k) if CAUSAL else seq_k
        plain = min((query + seq_k - seq_q + 1) // BN, ends // BN) if CAUSAL else ends // BN
    return ends, plain


@mimw.jit
def window_at(query, shape, BM: tl.constexpr, BN: tl.constexpr):
    """(the first key of the first block that the tile from `query` on looks at, the number of the block from which on no query's
    window begins inside of a block, counted from that one), both 0 without a left bound."""
    _, _, seq_q, seq_k, _, left, _ = shape
    if left is None:
        return 0, 0
    else:
        begins = query + seq_k - seq_q - left       # of the first query's window
        low = max(begins, 0) // BN
        return low * BN, tl.cdiv(max(begins + BM - 1, 0), BN) - low


@mimw.jit
def draw(counter, tiles):
    """The number of the next tile, `tiles` or more if none is left. Whoever draws last puts the counter back to 0."""
    drawn = tl.atomic_add(counter, 1, sem="relaxed")
    if drawn == tiles - 1:
        tl.atomic_xchg(counter, 0, sem="relaxed")
    return drawn + tl.num_programs(0)


@mimw.jit
def schedule(order, counter, shape, BM: tl.constexpr):
    """Draw tile after tile, and tell the other roles which one follows number `turn` of this program."""
    tile = tl.program_id(0)
    turn = 0
    while tile < number_of_tiles(shape, BM):
        tile = draw(counter, number_of_tiles(shape, BM))
        slot = order.acquire(turn)
        tlx.local_store(slot.tile, tl.full((1, ), tile, tl.int32))
        order.commit(turn)
        turn += 1


@mimw.jit
def next_tile(order, turn):
    """Which tile follows number `turn` of this program."""
    tile = tl.max(tlx.local_load(order.wait(turn).slot.tile), 0)
    order.release(turn)
    return tile
