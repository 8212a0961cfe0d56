"""Which tile of which sequence a program computes next: found on the device, of sequences whose lengths only the device knows.

Input: where the sequences begin, `cu_q` and `cu_k`, and the number of a tile. Output: the tile's place, sent to all roles through a
pipe. For example, with BM = 128, 2 heads, and sequences of 200 and 0 and 100 queries:

    find(5, 0, 0, cu_q, 3, 2, 128)      (2, 4, 6, ...): sequence 2, which has the tiles from 4 on; 6 tiles in all
    tile = next_tile(order, turn)       what the scheduler said of this program's tile number `turn`
    is_one(tile)                        false behind the last one
    sizes(tile, problem)                the sizes of its sequence, for ../attention

Tiles are numbered sequence by sequence, and in each of them as ../attention/schedule.py numbers those of its heads. The scheduler
looks at 128 sequences at a time and remembers where it was, so no program reads all lengths for each tile. A tile is taken, and
found, while the one before is computed.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..attention.nouns import Blocks
from ..attention.schedule import keys_of, rows_of, window_at
from ..attention.softmax import slope_at
from ..consumers import consumers

SEQUENCES = tl.constexpr(128)       # looked at together, 4 by each thread of the scheduler


@tle.struct
class Tile:
    """Place of an output tile: its sequence, -1 behind the last tile; its head and first query; where the sequence's queries and
    keys begin, and how many there are."""

    sequence: Any
    head: Any
    query: Any
    q_start: Any
    q_length: Any
    k_start: Any
    k_length: Any


@mimw.jit
def orders(CONSUMERS: tl.constexpr):
    """The pipe of tiles: all other roles read each number."""
    one: tl.constexpr = (2, 1)
    return tle.pipe(capacity=2, readers=consumers(CONSUMERS, "load", "store"), name="order", sequence=tle.gpu.alloc(one, tl.int32),
                    head=tle.gpu.alloc(one, tl.int32), query=tle.gpu.alloc(one, tl.int32), q_start=tle.gpu.alloc(one, tl.int32),
                    q_length=tle.gpu.alloc(one, tl.int32), k_start=tle.gpu.alloc(one, tl.int32),
                    k_length=tle.gpu.alloc(one, tl.int32))


@mimw.jit
def tiles_from(first, cu_q, sequences, heads, BM: tl.constexpr):
    """The number of tiles of each of the sequences from `first` on."""
    at = first + tl.arange(0, SEQUENCES)
    starts = tl.load(cu_q + at, mask=at < sequences, other=0)
    ends = tl.load(cu_q + at + 1, mask=at < sequences, other=0)
    return tl.cdiv(ends - starts, BM) * heads


@mimw.jit
def find(tile, first, before, cu_q, sequences, heads, BM: tl.constexpr):
    """(the sequence of a tile, or `sequences` or more behind the last; the number of its first tile; first, before). The sequences
    in front of `first` have `before` tiles, no more than `tile`; the last two are such a pair closer to it."""
    each = tiles_from(first, cu_q, sequences, heads, BM)
    starts, tiles = tle.cumsum(each)
    while (tile >= before + tiles) & (first + SEQUENCES < sequences):
        first += SEQUENCES
        before += tiles
        each = tiles_from(first, cu_q, sequences, heads, BM)
        starts, tiles = tle.cumsum(each)
    over = before + starts + each <= tile
    sequence = first + tl.sum(over.to(tl.int32))
    start = before + tl.sum(tl.where(over, each, 0))
    return sequence, start, first, before


@mimw.jit
def schedule(order, counter, cu_q, cu_k, sequences, heads, keys_in_l2, left, BM: tl.constexpr, GROUP: tl.constexpr,
             CAUSAL: tl.constexpr):
    """Take tile after tile, find it, and send it to the other roles; -1 as its sequence says that none is left."""
    tile = tl.program_id(0)
    turn, first, before, sequence = 0, 0, 0, 0
    while sequence >= 0:
        sequence, start, first, before = find(tile, first, before, cu_q, sequences, heads, BM)
        head, query, q_start, q_length, k_start, k_length = 0, 0, 0, 0, 0, 0
        if sequence < sequences:
            q_start, k_start = tl.load(cu_q + sequence), tl.load(cu_k + sequence)
            q_length, k_length = tl.load(cu_q + sequence + 1) - q_start, tl.load(cu_k + sequence + 1) - k_start
            band = 1
            if CAUSAL and left is None:
                band = max(1, min(heads, keys_in_l2 // max(k_length, 1) * GROUP))
            head, query = rows_of(tile - start, 1, heads, band, q_length, BM)
        else:
            if tile - tl.num_programs(0) == start - 1:  # of all tiles: who takes the last one resets the counter
                tl.atomic_xchg(counter, 0, sem="relaxed")
            sequence = -1
        slot = order.acquire(turn)
        tlx.local_store(slot.sequence, tl.full((1, ), sequence, tl.int32))
        tlx.local_store(slot.head, tl.full((1, ), head, tl.int32))
        tlx.local_store(slot.query, tl.full((1, ), query, tl.int32))
        tlx.local_store(slot.q_start, tl.full((1, ), q_start, tl.int32))
        tlx.local_store(slot.q_length, tl.full((1, ), q_length, tl.int32))
        tlx.local_store(slot.k_start, tl.full((1, ), k_start, tl.int32))
        tlx.local_store(slot.k_length, tl.full((1, ), k_length, tl.int32))
        order.commit(turn)
        if sequence >= 0:
            tile = tl.atomic_add(counter, 1, sem="relaxed") + tl.num_programs(0)
        turn += 1


@mimw.jit
def number(buffer):
    """The one number in a buffer."""
    return tl.max(tlx.local_load(buffer), 0)


@mimw.jit
def next_tile(order, turn):
    """Tile number `turn` of this program."""
    slot = order.wait(turn).slot
    tile = Tile(number(slot.sequence), number(slot.head), number(slot.query), number(slot.q_start), number(slot.q_length),
                number(slot.k_start), number(slot.k_length))
    order.release(turn)
    return tile


@mimw.jit
def is_one(tile):
    """True for a tile that there is."""
    return tile.sequence >= 0


@mimw.jit
def sizes(tile, problem):
    """The sizes of the tile's sequence, as ../attention has them of a launch; `problem` has those that all sequences share."""
    return problem.replace(seq_q=tile.q_length, seq_k=tile.k_length)


@mimw.jit
def blocks_at(tile, problem, form):
    """Blocks of keys that a tile of a sequence with these sizes looks at, one at least: of a tile that sees no key every score is
    masked. Their slope is None (`blocks_of`)."""
    ends, plain = keys_of(tile.query, problem, form)
    low, inside = window_at(tile.query, problem, form)
    return Blocks(tile.query, low, max(tl.cdiv(ends - low, form.BN), 1), max(plain - low // form.BN, 0), inside, None)


@mimw.jit
def blocks_of(tile, rules, form):
    """The same with the slope of the tile's head; `rules` are those of its sequence."""
    blocks = blocks_at(tile, rules.problem, form)
    return blocks.replace(slope=slope_at(tile.sequence, tile.head, rules))
