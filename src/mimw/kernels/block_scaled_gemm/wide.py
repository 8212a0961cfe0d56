"""Tiles of 192 columns, which lie in two blocks of B's scales; each consumer has 64 rows.

Input: the pipe `inputs`, as in multiply.py, and where the tile's columns begin in their first block. Output: the scaled sums over
K, by thirds of the columns:

    sums = multiply_wide(chunks, part, blocks(n, N, next_block))        sums.left, sums.middle, sums.right: (64, 64) each, in fp32

The left third has the scale of the first block, the right one that of the second, and the middle one either, by where the tile
begins. So a chunk takes a multiply-add an element. Scales are loaded ahead as in tall.py.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .multiply import BLOCK, begin_chunk, plus_scaled, scales_of


@tle.struct
class Blocks:
    """The blocks of a tile's columns: `whole` if it begins with one; the step from its first scale to the next, if B has one."""
    whole: Any
    next: Any


@tle.struct
class Thirds:
    """Sums."""
    left: tl.tensor
    middle: tl.tensor
    right: tl.tensor


@tle.struct
class Scales:
    """Those of a tile's two blocks for one chunk."""
    first: Any
    second: Any


@mimw.jit
def blocks(n, N, next_block):
    """Those of the tile from column n on."""
    return Blocks(n % BLOCK == 0, tl.where(n // BLOCK + 1 < tl.cdiv(N, BLOCK), next_block, 0))


@mimw.jit
def scales_at(at, where):
    """The scales of both blocks."""
    return Scales(tl.load(at), tl.load(at + where.next))


@mimw.jit
def plus_third(sums, found, third: tl.constexpr, rows, column):
    """The sums of a third of the columns, and those of a product, scaled."""
    sums = plus_scaled(sums, tle.extract_tile(found, [0, third], [64, BLOCK // 2]), rows, column)
    return tlx.async_dot_wait(0, sums)      # the sum is done here: the next product takes its registers


@mimw.jit
def plus_product(chunks, part, where, step, sums, found, scales, ahead):
    """The sums and chunk `step` of the tile; the registers of its product; and the scales of the second and third chunk behind it,
    unless they are there `ahead`."""
    slot, found = begin_chunk(chunks, part, step, found)
    if ahead is None:
        ahead = (scales_at(chunks.scales_of_b(step + 2), where), scales_at(chunks.scales_of_b(step + 3), where))
    rows = scales_of(slot, chunks.shift, part.ROW, part.CONTIGUOUS)
    chunks.inputs.wait(chunks.first + tl.minimum(step + 1, chunks.steps - 1))
    found = tlx.async_dot_wait(0, found)
    left = plus_third(sums.left, found, 0, rows, scales.first)
    middle = plus_third(sums.middle, found, 1, rows, tl.where(where.whole, scales.first, scales.second))
    return Thirds(left, middle, plus_third(sums.right, found, 2, rows, scales.second)), found, ahead


@mimw.jit
def multiply_wide(chunks, part, where):
    """64 rows of A times B."""
    none = tl.zeros((64, BLOCK // 2), tl.float32)
    sums, found = Thirds(none, none, none), tl.zeros((64, BLOCK // 2 * 3), tl.float32)
    scales, second = scales_at(chunks.at, where), scales_at(chunks.scales_of_b(1), where)
    chunks.inputs.wait(chunks.first)
    for pair in range(chunks.steps // 2):
        sums, found, ahead = plus_product(chunks, part, where, 2 * pair, sums, found, scales, None)
        sums, found, ahead = plus_product(chunks, part, where, 2 * pair + 1, sums, found, second, ahead)
        scales, second = ahead
    if chunks.steps % 2 != 0:
        sums, found, ahead = plus_product(chunks, part, where, chunks.steps - 1, sums, found, scales, (scales, second))
    tlx.fence("async_shared")
    chunks.inputs.release(chunks.first + chunks.steps - 1)
    return sums
