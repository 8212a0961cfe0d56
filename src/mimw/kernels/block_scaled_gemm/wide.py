"""Tiles of 192 columns, or of others that lie in at most two blocks of B's scales; each consumer has 64 rows.

Input: the pipe `inputs`, as in multiply.py, and where the tile's columns begin in their first block. Output: the scaled sums over
K, as a tuple of pieces of columns. For example, of 192 columns from column 576 on, which is column 64 of its block:

    where = blocks(576, N, next_block)
    sums = multiply_wide(chunks, part, where)           3 pieces of (64, 64), in fp32

Any tile of 192 columns and any block of 128 begins with a piece of 64. Here piece 0 has the scale of the first block, pieces 1 and
2 that of the second, which is chosen beside the product. So a chunk takes a multiply-add an element. Scales are loaded ahead as in
tall.py.
"""

from math import gcd
from typing import Any

import triton
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .multiply import BLOCK, plus_scaled, product, scales_of


@tle.struct
class Blocks:
    """The blocks of a tile's columns: the column of the first one where the tile begins, and the step from its scale to that of the
    next one, if B has one."""
    begin: Any
    next: Any


@mimw.jit
def blocks(n, N, next_block):
    """Those of the tile from column n on."""
    return Blocks(n % BLOCK, tl.where(n // BLOCK + 1 < tl.cdiv(N, BLOCK), next_block, 0))


@triton.constexpr_function
def piece_of(columns):
    """The columns of a piece."""
    return gcd(columns, 128)


@triton.constexpr_function
def first_block(columns, piece):
    """The number of the block in which a piece lies, if the tile begins with a block."""
    return piece * gcd(columns, 128) // 128


@triton.constexpr_function
def last_block(columns, piece):
    """The same, if the tile begins with a block's last piece."""
    return ((piece - 1) * gcd(columns, 128) + 128) // 128


@mimw.jit
def scales_at(at, where):
    """The scales of both blocks."""
    return tl.load(at), tl.load(at + where.next)


@mimw.jit
def scale_of(piece: tl.constexpr, begin, scales, COLUMNS: tl.constexpr):
    """A piece's scale, if the tile begins at column `begin` of its first block."""
    FIRST: tl.constexpr = first_block(COLUMNS, piece)
    LAST: tl.constexpr = last_block(COLUMNS, piece)
    tl.static_assert(LAST < 2, "a tile of so many columns lies in three blocks of scales")
    if FIRST == LAST:
        return scales[FIRST]
    return tl.where(begin + piece * piece_of(COLUMNS) < BLOCK, scales[0], scales[1])


@mimw.jit
def plus_pieces(sums, found, rows, scales, begin):
    """The sums of each piece, and its columns of a product, scaled."""
    PIECE: tl.constexpr = sums[0].shape[1]
    more = ()
    for piece in tl.static_range(len(sums)):
        part = tle.extract_tile(found, [0, piece], [64, PIECE])
        one = plus_scaled(sums[piece], part, rows, scale_of(piece, begin, scales, found.shape[1]))
        more += (tlx.async_dot_wait(0, one), )      # the sum is done here: the next product takes its registers
    return more


@mimw.jit
def plus_chunk(chunks, part, where, step, sums, found, scales, ahead):
    """The sums and chunk `step` of the tile; the registers of its product; and the blocks' scales of the second and third chunk
    behind it, unless they are there `ahead`."""
    slot = chunks.inputs.held(chunks.first + step)
    found = product(slot, part.ROW, found)
    tlx.fence("async_shared")               # of the reads of the chunk before and the next copy there
    chunks.inputs.release(chunks.first + step - 1, pred=step > 0)
    if ahead is None:
        ahead = (scales_at(chunks.scales_of_b(step + 2), where), scales_at(chunks.scales_of_b(step + 3), where))
    rows = scales_of(slot, chunks.shift, part.ROW, part.CONTIGUOUS)
    chunks.inputs.wait(chunks.first + tl.minimum(step + 1, chunks.steps - 1))
    found = tlx.async_dot_wait(0, found)
    return plus_pieces(sums, found, rows, scales, where.begin), found, ahead


@mimw.jit
def multiply_wide(chunks, part, where):
    """64 rows of A times B."""
    COLUMNS: tl.constexpr = part.COLUMNS
    sums = ()
    for piece in tl.static_range(COLUMNS // piece_of(COLUMNS)):
        sums += (tl.zeros((64, piece_of(COLUMNS)), tl.float32), )
    found = tl.zeros((64, COLUMNS), tl.float32)
    scales, second = scales_at(chunks.at, where), scales_at(chunks.scales_of_b(1), where)
    chunks.inputs.wait(chunks.first)
    for pair in range(chunks.steps // 2):
        sums, found, ahead = plus_chunk(chunks, part, where, 2 * pair, sums, found, scales, None)
        sums, found, ahead = plus_chunk(chunks, part, where, 2 * pair + 1, sums, found, second, ahead)
        scales, second = ahead
    if chunks.steps % 2 != 0:
        sums, found, ahead = plus_chunk(chunks, part, where, chunks.steps - 1, sums, found, scales, (scales, second))
    tlx.fence("async_shared")
    chunks.inputs.release(chunks.first + chunks.steps - 1)
    return sums
