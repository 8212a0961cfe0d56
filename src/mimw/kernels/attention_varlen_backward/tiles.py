"""The list of tiles: which keys, or which queries, of which sequence a program owns. Made on the device, which alone knows the
lengths.

Input: where the sequences begin, `cu_q` and `cu_k`. Output: eight int32 for each tile, read by every role of its program. For
example, with BN = 128, sequences of 100 and 300 queries on as many keys:

    list_sequence(tiles, 1, cu_q, cu_k, 2, 4, 64, 128, 16, False)   tiles 0, 1 and 2 are keys 0, 128 and 256 of sequence 1
    tile = tile_of(tiles)       (sequence, first row, where its queries begin, how many, where its keys begin, how many, block)
    is_one(tile)                whether the program has one: the list is as long as it may have to be, and -1 fills it up

Sequences with much to look at come first, as their tiles take longest: what runs while some programs are over already is short.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle

ENTRY = tl.constexpr(8)     # int32 for a tile


@tle.struct
class Tile:
    """Keys or queries of one sequence from number `start` on, the places and lengths of its queries and keys, and the number of its
    first block of queries."""

    sequence: Any
    start: Any
    q_start: Any
    q_length: Any
    k_start: Any
    k_length: Any
    number: Any


@mimw.jit
def first_block(start, sequence, BM: tl.constexpr):
    """The number of a sequence's first block of BM queries in arrays whose blocks hold rows of one sequence only. From the start of
    a sequence to that of the next one this grows by its length // BM + 1 at least, so every sequence has enough blocks, and one."""
    return start // BM + sequence


@mimw.jit
def sequence_of(block, cu_q, sequences, BM: tl.constexpr, TOGETHER: tl.constexpr):
    """The sequence that block number `block` of such an array belongs to; TOGETHER of them are looked at at a time."""
    count = 0
    for first in range(0, sequences, TOGETHER):
        at = first + tl.arange(0, TOGETHER)
        starts = tl.load(cu_q + at, mask=at < sequences, other=0)
        count += tl.sum(((first_block(starts, at, BM) <= block) & (at < sequences)).to(tl.int32))
    return count - 1


@mimw.jit
def list_sequence(tiles, sequence, cu_q, cu_k, sequences, size, BM: tl.constexpr, ROWS: tl.constexpr, TOGETHER: tl.constexpr,
                  QUERIES: tl.constexpr):
    """Write the tiles of one sequence, ROWS keys or, with QUERIES, so many queries each; what fills the list of `size` tiles up
    comes from the first sequence. Of queries, which see more keys under a causal mask, the last ones come first."""
    q_start, k_start = tl.load(cu_q + sequence), tl.load(cu_k + sequence)
    q_length, k_length = tl.load(cu_q + sequence + 1) - q_start, tl.load(cu_k + sequence + 1) - k_start
    begin, total = 0, 0
    for first in range(0, sequences, TOGETHER):
        at = first + tl.arange(0, TOGETHER)
        inside = at < sequences
        queries = tl.load(cu_q + at + 1, mask=inside, other=0) - tl.load(cu_q + at, mask=inside, other=0)
        keys = tl.load(cu_k + at + 1, mask=inside, other=0) - tl.load(cu_k + at, mask=inside, other=0)
        count = tl.cdiv(queries if QUERIES else keys, ROWS)
        total += tl.sum(count)
        if QUERIES:
            earlier = (keys > k_length) | ((keys == k_length) & (at < sequence))
        else:
            earlier = (queries > q_length) | ((queries == q_length) & (at < sequence))
        begin += tl.sum(tl.where(earlier, count, 0))
    length = q_length if QUERIES else k_length
    own = tl.cdiv(length, ROWS)
    nothing = tl.zeros((128, ), tl.int32)
    for one in range(0, own, 128):
        number = one + tl.arange(0, 128)
        mask = (number < own) & (begin + number < size)
        entry = tiles + (begin + number) * ENTRY
        tl.store(entry, nothing + sequence, mask=mask)
        tl.store(entry + 1, (own - 1 - number if QUERIES else number) * ROWS, mask=mask)
        tl.store(entry + 2, nothing + q_start, mask=mask)
        tl.store(entry + 3, nothing + q_length, mask=mask)
        tl.store(entry + 4, nothing + k_start, mask=mask)
        tl.store(entry + 5, nothing + k_length, mask=mask)
        tl.store(entry + 6, nothing + first_block(q_start, sequence, BM), mask=mask)
    if sequence == 0:
        for one in range(total, size, 128):
            number = one + tl.arange(0, 128)
            tl.store(tiles + number * ENTRY, nothing - 1, mask=number < size)


@mimw.jit
def tile_of(tiles):
    """The program's tile."""
    entry = tiles + tl.program_id(0) * ENTRY
    return Tile(tl.load(entry), tl.load(entry + 1), tl.load(entry + 2), tl.load(entry + 3), tl.load(entry + 4), tl.load(entry + 5),
                tl.load(entry + 6))


@mimw.jit
def is_one(tile):
    """True if there is such a tile."""
    return tile.sequence >= 0


@mimw.jit
def sizes(tile, problem):
    """The sizes of the tile's sequence, as ../attention_backward has them of a whole launch. Of a sequence without queries one is
    looked at, behind its end, where all probabilities are 0."""
    return problem.replace(seq_q=tl.maximum(tile.q_length, 1), seq_k=tile.k_length)
