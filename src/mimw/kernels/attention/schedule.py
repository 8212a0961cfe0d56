"""Which program computes which tile of the output, and which blocks of keys a tile looks at.

Tiles are numbered by bands of heads, so that the keys and values of a band stay in the L2 cache, and in a band by falling length:
the last tiles to be drawn are short ones, and all programs end together.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def tile_origin(tile, blocks, all_heads, heads, band, BM: tl.constexpr):
    """(batch, head, first query) of output tile number `tile`; `blocks` are those of one head."""
    first = tile // (band * blocks) * band
    width = min(all_heads - first, band)
    within = tile % (band * blocks)
    head = first + within % width
    return head // heads, head % heads, (blocks - 1 - within // width) * BM


@mimw.jit
def key_blocks(query, seq_q, seq_k, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):
    """(how many blocks of keys the queries from `query` on look at, how many of those need no mask)."""
    if CAUSAL:
        ends = min(query + BM + seq_k - seq_q, seq_k)
        return tl.cdiv(ends, BN), min((query + seq_k - seq_q + 1) // BN, ends // BN)
    return tl.cdiv(seq_k, BN), seq_k // BN


@mimw.jit
def draw(counter, tiles):
    """The number of the next tile, `tiles` or more if none is left. Whoever draws last puts the counter back to 0."""
    drawn = tl.atomic_add(counter, 1, sem="relaxed")
    if drawn == tiles - 1:
        tl.atomic_xchg(counter, 0, sem="relaxed")
    return drawn + tl.num_programs(0)


@mimw.jit
def tell(order, tile, turn):
    """The other tasks learn that `tile` follows number `turn` of this program, when all know what followed the one before."""
    slots, told, known = order
    tlx.barrier_wait(known[0], turn % 2 ^ 1)
    tlx.local_store(slots[0], tl.full((1, ), tile, tl.int32))
    tlx.barrier_arrive(told[0])


@mimw.jit
def next_tile(order, turn):
    """Which tile follows number `turn` of this program."""
    slots, told, known = order
    tlx.barrier_wait(told[0], turn % 2)
    tile = tl.max(tlx.local_load(slots[0]), 0)
    tlx.barrier_arrive(known[0])
    return tile
