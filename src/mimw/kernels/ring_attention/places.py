"""Which rows of the whole sequence a rank holds, and which blocks of keys a tile of its queries looks at.

Input: ranks, and `zigzag` = (blocks of a chunk, extra of part 0, extra of part 1). Output: numbers of blocks. For example,
rank 1 of four with two chunks of 2 blocks each, 1 and 6 of eight:

    extras(1, 4, 2, 2, True)        (2, 10): what queries of chunk 1, and of chunk 6, see at other ranks
    seen(0, 1, 0, 2, 2, True)       2: of rank 0's chunks 0 and 7 a query of chunk 1 sees the first
    seen(3, 1, 1, 2, 2, True)       4: of rank 3's chunks 3 and 4 a query of chunk 6 sees both

The whole sequence is PARTS chunks a rank. With two parts rank r of N holds chunk r and chunk 2 N - 1 - r, one behind the
other. Under a causal mask a query of chunk c sees c whole chunks, and of its own what is not behind it. Of a rank's own rows
that is what it would see if they were a sequence of their own, and of those of another rank none, the first chunk or both:
rows from the first one on. The sum over a rank's two chunks, r + (2 N - 1 - r), is the same at every rank: so is the work, and
none waits for another.
"""

import triton.language as tl

import mimw

from ..attention import schedule


def extras(rank: int, size: int, parts: int, blocks: int, causal: bool) -> tuple[int, int]:
    """Blocks of other ranks' keys that queries of each part see, where a chunk has `blocks`; with one part, twice the same."""
    if not causal:
        return ((size - 1) * parts * blocks, ) * 2
    if parts == 1:
        return (rank * blocks, ) * 2
    return rank * blocks, (2 * size - 2 - rank) * blocks


@mimw.jit
def tile_at(tile, shape, zigzag, BM: tl.constexpr, BN: tl.constexpr, PARTS: tl.constexpr, CAUSAL: tl.constexpr):
    """(batch, head, first query, part, blocks of own keys, blocks of other ranks' keys, how many of all need no mask) of tile
    `tile`;
    `shape` is ../attention's of the rank's own rows. The blocks that need a mask are the last of the own ones."""
    batch, head, query, own, plain = schedule.tile_at(tile, shape, BM, BN, CAUSAL)
    if PARTS == 1:
        part, extra = 0, zigzag[1]
    else:
        part = tl.where(query < zigzag[0] * BN, 0, 1)
        extra = tl.where(part == 0, zigzag[1], zigzag[2])
    return batch, head, query, part, own, extra, plain + extra


@mimw.jit
def seen(source, me, part, blocks, PARTS: tl.constexpr, CAUSAL: tl.constexpr):
    """How many blocks of another rank's keys, from its first row on, queries of a part of rank `me` look at; a chunk has
    `blocks`."""
    if not CAUSAL:
        return blocks * PARTS
    elif PARTS == 1:
        return tl.where(source < me, blocks, 0)
    else:
        return tl.where(part == 0, tl.where(source < me, blocks, 0), tl.where(source > me, 2 * blocks, blocks))
