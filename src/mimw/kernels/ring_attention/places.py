"""Which rows of the whole sequence a rank holds, and which blocks of keys a tile of its queries looks at.

Input: ranks, and a `Zigzag`, how chunks lie at this rank. Output: numbers of blocks. For example,
rank 1 of four with two chunks of 2 blocks each, 1 and 6 of eight:

    extras(1, 4, 2, 2, True)        (2, 10): what queries of chunk 1, and of chunk 6, see at other ranks
    seen(0, 1, 0, zigzag, True)     2: of rank 0's chunks 0 and 7 a query of chunk 1 sees the first
    seen(3, 1, 1, zigzag, True)     4: of rank 3's chunks 3 and 4 a query of chunk 6 sees both

The whole sequence is PARTS chunks a rank. With two parts rank r of N holds chunk r and chunk 2 N - 1 - r, one behind the
other. Under a causal mask a query of chunk c sees c whole chunks, and of its own what is not behind it. Of a rank's own rows
that is what it would see if they were a sequence of their own, and of those of another rank none, the first chunk or both:
rows from the first one on. The sum over a rank's two chunks, r + (2 N - 1 - r), is the same at every rank: so is the work, and
none waits for another.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle

from ..attention import schedule


@tle.struct
class Zigzag:
    """PARTS chunks of `blocks` blocks each at a rank, and the blocks of other ranks' keys that queries of each part see."""

    blocks: Any
    extra: Any
    late_extra: Any
    PARTS: tl.constexpr


@tle.struct
class Tile:
    """Place of an output tile: its part, its blocks of `own` keys, which may need masks, and `extra` ones of other ranks; `plain`
    of all need no mask."""

    batch: Any
    head: Any
    query: Any
    part: Any
    own: Any
    extra: Any
    plain: Any


def extras(rank: int, size: int, parts: int, blocks: int, causal: bool) -> tuple[int, int]:
    """Blocks of other ranks' keys that queries of each part see, where a chunk has `blocks`; with one part, twice the same."""
    if not causal:
        return ((size - 1) * parts * blocks, ) * 2
    if parts == 1:
        return (rank * blocks, ) * 2
    return rank * blocks, (2 * size - 2 - rank) * blocks


@mimw.jit
def tile_at(number, problem, zigzag, form):
    """Tile number `number`; `problem` has the sizes of the rank's own rows."""
    tile = schedule.tile_at(number, problem, form)
    if zigzag.PARTS == 1:
        part, extra = 0, zigzag.extra
    else:
        part = tl.where(tile.query < zigzag.blocks * form.BN, 0, 1)
        extra = tl.where(part == 0, zigzag.extra, zigzag.late_extra)
    return Tile(tile.batch, tile.head, tile.query, part, tile.count, extra, tile.plain + extra)


@mimw.jit
def seen(source, me, part, zigzag, CAUSAL: tl.constexpr):
    """The number of blocks of another rank's keys, from its first row on, that queries of a part of rank `me` look at."""
    blocks = zigzag.blocks
    if not CAUSAL:
        return blocks * zigzag.PARTS
    elif zigzag.PARTS == 1:
        return tl.where(source < me, blocks, 0)
    else:
        return tl.where(part == 0, tl.where(source < me, blocks, 0), tl.where(source > me, 2 * blocks, blocks))
