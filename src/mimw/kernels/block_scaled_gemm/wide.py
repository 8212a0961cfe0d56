"""A tile of any number of columns, which lie in two or three blocks of B's scales: 64 rows for each consumer.

Input: the pipe `inputs`, as in multiply.py, and where the tile's columns begin in their first block. Output: the scaled sums over K,
as a tuple of tiles of PIECE columns. For example, of 176 columns from column 352 on, which is column 96 of its block:

    PIECE = piece_of(176)               16: each block begins and ends with a piece
    sums = multiply_wide(chunks, part, 176, ScalesOfColumns(96, next_block, last))      11 tiles of (64, 16)

Pieces 0 and 1 have the scale of the first block, pieces 2 to 9 that of the second, and the last one that of the third. The scale
of a piece is chosen among those of the blocks; so a chunk takes a multiply and add an element, and a multiply and a choice a piece.
"""

from math import gcd
from typing import Any

import triton
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .multiply import BLOCK, awaited, in_turn, scales_of


@tle.struct
class Blocks:
    """The blocks of a tile's columns: the column of the first one where the tile begins, and the steps from its scale to those of the
    next ones, of which none is behind B's last."""
    begin: Any
    second: Any
    third: Any


@triton.constexpr_function
def piece_of(columns):
    """The columns of a piece: any tile of so many columns, and any block of 128, begins with one."""
    return gcd(columns, 128)


@triton.constexpr_function
def blocks_of(columns):
    """The most blocks that such a tile may touch."""
    return -(-(128 - gcd(columns, 128) + columns) // 128)


@mimw.jit
def blocks(n, N, step):
    """Those of the tile from column n on."""
    left = tl.cdiv(N, BLOCK) - 1 - n // BLOCK
    return Blocks(n % BLOCK, tl.minimum(left, 1) * step, tl.minimum(left, 2) * step)


@mimw.jit
def scales_at(at, where, COLUMNS: tl.constexpr):
    """The scales of the blocks."""
    BLOCKS: tl.constexpr = blocks_of(COLUMNS)
    first = tl.load(at)
    second = tl.load(at + where.second) if BLOCKS > 1 else first
    third = tl.load(at + where.third) if BLOCKS > 2 else second
    return first, second, third


@mimw.jit
def scale_of(piece: tl.constexpr, begin, scales, COLUMNS: tl.constexpr):
    """A piece's scale; which blocks it may be in is known from its place."""
    PIECE: tl.constexpr = piece_of(COLUMNS)
    FIRST: tl.constexpr = piece * PIECE
    LAST: tl.constexpr = FIRST + 128 - PIECE        # if the tile begins as late in its block as it may
    if FIRST // 128 == LAST // 128:
        return scales[FIRST // 128]
    return tl.where(begin < (FIRST // 128 + 1) * 128 - FIRST, scales[FIRST // 128], scales[LAST // 128])


@mimw.jit
def one_chunk(chunks, part, where, step, sums, found, scales, LOADS: tl.constexpr):
    COLUMNS: tl.constexpr = found.shape[1]
    PIECE: tl.constexpr = piece_of(COLUMNS)
    last = chunks.steps - 1
    slot = chunks.inputs.held(chunks.first + step)
    found = in_turn(slot, part, part.ROW, COLUMNS, found)
    tlx.fence("async_shared")
    chunks.inputs.release(chunks.first + step - 1, pred=step > 0)
    one, two = scales, scales
    if LOADS:
        one = scales_at(chunks.at + tl.minimum(step + 2, last) * chunks.next_step, where, COLUMNS)
        two = scales_at(chunks.at + tl.minimum(step + 3, last) * chunks.next_step, where, COLUMNS)
    rows = scales_of(slot, chunks.shift, part.ROW, part.CONTIGUOUS)
    chunks.inputs.wait(chunks.first + tl.minimum(step + 1, last))
    found = awaited(found, part, False)
    more = ()
    for piece in tl.static_range(len(sums)):
        each = tle.extract_tile(found, [0, piece], [64, PIECE])
        more += (tlx.async_dot_wait(0, sums[piece] + each * (rows * scale_of(piece, where.begin, scales, COLUMNS))[:, None]), )
    return more, found, one, two


@mimw.jit
def multiply_pairs(chunks, part, where, COLUMNS: tl.constexpr):
    PIECE: tl.constexpr = piece_of(COLUMNS)
    sums = ()
    for _ in tl.static_range(COLUMNS // PIECE):
        sums += (tl.zeros((64, PIECE), tl.float32), )
    found = tl.zeros((64, COLUMNS), tl.float32)
    one = scales_at(chunks.at, where, COLUMNS)
    two = scales_at(chunks.at + tl.minimum(1, chunks.steps - 1) * chunks.next_step, where, COLUMNS)
    chunks.inputs.wait(chunks.first)
    for pair in range(chunks.steps // 2):
        sums, found, third, fourth = one_chunk(chunks, part, where, 2 * pair, sums, found, one, True)
        sums, found, _x, _y = one_chunk(chunks, part, where, 2 * pair + 1, sums, found, two, False)
        one, two = third, fourth
    if chunks.steps % 2 != 0:
        sums, found, _x, _y = one_chunk(chunks, part, where, chunks.steps - 1, sums, found, one, False)
    tlx.fence("async_shared")
    chunks.inputs.release(chunks.first + chunks.steps - 1)
    return sums


@mimw.jit
def multiply_wide(chunks, part, where, COLUMNS: tl.constexpr):
    """64 rows of A times COLUMNS columns of B, one chunk at a time; meanwhile the other consumer's are added."""
    PIECE: tl.constexpr = piece_of(COLUMNS)
    COUNT: tl.constexpr = COLUMNS // PIECE
    sums = ()
    for _ in tl.static_range(COUNT):
        sums += (tl.zeros((64, PIECE), tl.float32), )
    found = tl.zeros((64, COLUMNS), tl.float32)
    scales = scales_at(chunks.at, where, COLUMNS)
    if part.EARLY:
        chunks.inputs.wait(chunks.first)
        for step in range(chunks.steps):
            behind = tl.minimum(step + 1, chunks.steps - 1)
            slot = chunks.inputs.held(chunks.first + step)
            found = in_turn(slot, part, part.ROW, COLUMNS, found)
            tlx.fence("async_shared")
            chunks.inputs.release(chunks.first + step - 1, pred=step > 0)
            following = scales_at(chunks.at + behind * chunks.next_step, where, COLUMNS)
            rows = scales_of(slot, chunks.shift, part.ROW, part.CONTIGUOUS)
            chunks.inputs.wait(chunks.first + behind)
            found = awaited(found, part, False)
            more = ()
            for piece in tl.static_range(COUNT):
                one = tle.extract_tile(found, [0, piece], [64, PIECE]) if COUNT > 1 else found
                more += (sums[piece] + one * (rows * scale_of(piece, where.begin, scales, COLUMNS))[:, None], )
            sums = more
            scales = following
        tlx.fence("async_shared")
        chunks.inputs.release(chunks.first + chunks.steps - 1)
        return sums
    for step in range(chunks.steps):
        slot = chunks.inputs.wait(chunks.first + step).slot
        following = scales_at(chunks.at + tl.minimum(step + 1, chunks.steps - 1) * chunks.next_step, where, COLUMNS)
        found = in_turn(slot, part, part.ROW, COLUMNS, found)
        rows = scales_of(slot, chunks.shift, part.ROW, part.CONTIGUOUS)
        found = awaited(found, part, True)
        chunks.inputs.release(chunks.first + step)
        more = ()
        for piece in tl.static_range(COUNT):
            one = tle.extract_tile(found, [0, piece], [64, PIECE]) if COUNT > 1 else found
            more += (sums[piece] + one * (rows * scale_of(piece, where.begin, scales, COLUMNS))[:, None], )
        sums = more
        scales = following
    return sums
