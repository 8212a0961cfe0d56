"""Tiles of a chunk's columns in registers, as gates by key want them: sums over rows within a thread.

Input: buffers that TMA has filled, tiles. Output: tiles in the registers TILE, and these in shared or global memory. For example:

    gates = tile_of(chunk.g[part])              (BLOCK, BLOCKS, COLUMNS) in fp32: rows of a block first
    within, totals = sums_in_blocks(gates)      no exchange between threads
    totals = everywhere(numbers, totals)        the one exchange: each warp has the totals of all blocks of its columns

Of 4 warps each has a block of 16 rows, each thread two columns of it. So sums over rows need no shuffles, and an instruction stores
128 bytes of one row. Rows of a block are the first axis: of such a tile Triton chooses these registers itself where threads store
two numbers each, so it moves nothing.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from .nouns import C

BLOCK = tl.constexpr(16)
BLOCKS = tl.constexpr(4)
COLUMNS = tl.constexpr(64)      # of keys at a time

TILE = tl.constexpr(tlx.layout(((32, 4), (2, 16)), ((2, 64), (1, 256))))        # of (BLOCK, BLOCKS, COLUMNS)
FLAT = tl.constexpr(tlx.layout(((32, 4), (2, 16)), ((2, 1024), (1, 64))))       # the same of (C, COLUMNS)
BY_ROW = tl.constexpr(tlx.layout(((32, 4), (16, )), ((0, 1), (4, ))))           # of (BLOCK, BLOCKS): a number for each row of TILE
BY_COLUMN = tl.constexpr(tlx.layout(((32, 4), (2, )), ((2, 0), (1, ))))         # of (COLUMNS, ): a number for each column of TILE
OWN = tl.constexpr(tlx.layout(((32, 4), (2, )), ((2, 64), (1, ))))              # of (BLOCKS, COLUMNS): the warp's block
ALL = tl.constexpr(tlx.layout(((32, 4), (2, 4)), ((2, 0), (1, 64))))            # of (BLOCKS, COLUMNS): all blocks in each warp
ROWS = tl.constexpr(tlx.layout(((16, 2, 4), (32, )), ((64, 32, 1024), (1, ))))  # of (C, COLUMNS): two threads have a row
BY_COLUMN_OF_ROWS = tl.constexpr(tlx.layout(((16, 2, 4), (32, )), ((0, 32, 0), (1, ))))     # of (COLUMNS, )


@mimw.jit
def tile_of(buffer):
    """A buffer of (C, COLUMNS) in fp32, as TILE."""
    tile = tl.reshape(tlx.local_load(buffer, layout=FLAT), (BLOCKS, BLOCK, COLUMNS))
    return tlx.require_layout(tl.permute(tile, (1, 0, 2)), TILE).to(tl.float32)


@mimw.jit
def scaled_tile_of(buffer, factors):
    """The same with rows times numbers of a buffer of (C, ), unless that is None."""
    if factors is None:
        return tile_of(buffer)
    else:
        by_block = tlx.local_trans(tlx.local_reshape(factors, [BLOCKS, BLOCK]))
        return tile_of(buffer) * tlx.local_load(by_block, layout=BY_ROW)[:, :, None]


@mimw.jit
def put_operand(buffer, tile):
    """A tile, as TILE, to where a product reads it, a buffer of (C, COLUMNS)."""
    tile = tl.permute(tlx.require_layout(tile.to(buffer.dtype), TILE), (1, 0, 2))
    tlx.local_store(buffer, tlx.require_layout(tl.reshape(tile, (C, COLUMNS)), FLAT))


@mimw.jit
def put_rows(pointer, tile, K: tl.constexpr):
    """A tile, as TILE, to global memory, rows of K numbers."""
    i, n = tl.arange(0, BLOCK)[:, None, None], tl.arange(0, BLOCKS)[None, :, None]
    at = (n * BLOCK + i) * K + tl.arange(0, COLUMNS)[None, None, :]
    at = tl.max_contiguous(tl.multiple_of(at, (1, 1, 2)), (1, 1, 2))        # what a thread has
    tl.store(pointer + at, tlx.require_layout(tile.to(pointer.dtype.element_ty), TILE))


@mimw.jit
def row_of(tile, number):
    """Row `number` of each block, (BLOCKS, COLUMNS); none of it is computed, as x + -0.0 is x."""
    return tl.sum(tl.where(tl.arange(0, BLOCK)[:, None, None] == number, tile, -0.0), 0)


@mimw.jit
def block_of(numbers, block):
    """Row `block` of (BLOCKS, COLUMNS)."""
    return tl.sum(tl.where(tl.arange(0, BLOCKS)[:, None] == block, numbers, -0.0), 0)


@mimw.jit
def sums_in_blocks(tile):
    """(the sums of a tile's rows from the first one of each block on, those of whole blocks)."""
    i = tl.arange(0, BLOCK)[:, None, None]
    total, sums = row_of(tile, 0), tile
    for row in tl.static_range(1, BLOCK):
        total += row_of(tile, row)
        sums = tl.where(i == row, total[None, :, :], sums)
    return sums, total


@mimw.jit
def sums_behind(tile):
    """The sums of a tile's rows behind each one, to the end of its block."""
    i = tl.arange(0, BLOCK)[:, None, None]
    total, sums = row_of(tile, BLOCK - 1), tl.where(i == BLOCK - 1, 0.0, tile)
    for step in tl.static_range(2, BLOCK + 1):
        sums = tl.where(i == BLOCK - step, total[None, :, :], sums)
        total += row_of(tile, BLOCK - step)
    return sums


@mimw.jit
def sums_of_others(totals):
    """(The sums of the blocks before each one, of those behind it), of totals as ALL; for rows of the warp's block."""
    n, before = tl.arange(0, BLOCKS)[:, None], tl.zeros((BLOCKS, COLUMNS), tl.float32)
    behind = before
    for block in tl.static_range(BLOCKS):
        total = block_of(totals, block)[None, :]
        before, behind = before + tl.where(n > block, total, 0.0), behind + tl.where(n < block, total, 0.0)
    return tlx.require_layout(before, OWN)[None, :, :], tlx.require_layout(behind, OWN)[None, :, :]


@mimw.jit
def everywhere(numbers, tile):
    """Numbers of blocks, (BLOCKS, COLUMNS), for all warps, as ALL, by way of the buffer `numbers`."""
    tlx.local_store(numbers, tlx.require_layout(tile, OWN))
    return tlx.local_load(numbers, layout=ALL)
