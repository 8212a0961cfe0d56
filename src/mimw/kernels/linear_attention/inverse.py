"""The inverse of a unit lower triangular matrix of 64 rows.

Input: A, the part below the diagonal, fp32, zeros elsewhere. Output: (I + A)^-1, fp32. For example, in a kernel of 4 warps:

    T = inverse(A, room_of()) * beta[None, :]

Blocks of 16 rows on the diagonal are inverted by forward substitution in fp32: their powers may be large though their inverse is
not (keys that are alike), so no long series of powers is summed. Then blocks are joined, in products of fp16, which has tf32's
digits. With D, the inverses of blocks on the diagonal, and E = D A, A without these blocks, (I + A)^-1 = (I + E)^-1 D; of four
blocks E^4 = 0, so with G = (I - E) D it is G + E^2 G, and E^2 and G do not wait for each other.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .nouns import C

BLOCK = tl.constexpr(16)
BLOCKS = tl.constexpr(4)
STEPS = tl.constexpr(4)     # columns of L at a time: 16 bytes of a row

# Registers of 128 threads. A thread has one column of a block's inverse, all rows of it, so nothing of a step of the substitution
# goes from thread to thread; of L it reads what its block's other threads read. Two threads do the same.
COLUMN = tl.constexpr(tlx.layout(((16, 2, 2, 2), (16, )), ((1, 256, 512, 0), (16, ))))      # of (BLOCKS, BLOCK, BLOCK)
FACTORS = tl.constexpr(tlx.layout(((16, 2, 2, 2), (4, 16)), ((0, 64, 128, 0), (1, 4))))     # of STEPS columns of L
FACTOR = tl.constexpr(tlx.layout(((16, 2, 2, 2), (16, )), ((0, 16, 32, 0), (1, ))))         # of one
OWN = tl.constexpr(tlx.layout(((4, 8, 4), (2, 2, 2)), ((2, 16, 256), (1, 128, 8))))         # blocks, as a product's sum has them
SUM = tl.constexpr(tlx.layout(((4, 8, 4), (2, 2, 8)), ((2, 64, 1024), (1, 512, 8))))        # a product's sum
OF_ROWS = tl.constexpr(tlx.layout(((4, 8, 4), (2, )), ((0, 1, 16), (8, ))))                 # numbers of its rows
OF_COLUMNS = tl.constexpr(tlx.layout(((4, 8, 4), (2, 8)), ((2, 0, 0), (1, 8))))             # and of its columns


@tle.struct
class Room:
    """Shared memory: blocks on the diagonal, and right operands of products, two in turn."""

    blocks: Any
    tiles: Any


@mimw.jit
def room_of(reuse=None):
    """The buffers; `reuse` is of memory that somebody else is done with then."""
    return Room(tlx.local_alloc((C, BLOCK), tl.float32, 1, reuse=reuse), tlx.local_alloc((C, C), tl.float16, 2, reuse=reuse))


@mimw.jit
def of_room(room):
    """The group of its buffers, where they share memory with others."""
    return tlx.reuse_group(room.blocks, room.tiles, group_type=tlx.reuse_group_type.distinct)


@mimw.jit
def blocks_inverse(A, blocks):
    """The inverses of I + A's blocks on the diagonal, as a (BLOCKS, BLOCK, BLOCK) tile."""
    parts = tl.reshape(A, (BLOCKS, BLOCK, BLOCKS, BLOCK))
    own = tl.arange(0, BLOCKS)[:, None, None, None] == tl.arange(0, BLOCKS)[None, None, :, None]
    tlx.local_store(blocks, tl.reshape(tl.sum(tl.where(own, parts, 0.0), 2), (C, BLOCK)))
    i, j = tl.arange(0, BLOCK)[None, :, None], tl.arange(0, BLOCK)[None, None, :]
    X = tlx.require_layout(tl.where(i == j, 1.0, 0.0) + tl.zeros((BLOCKS, BLOCK, BLOCK), tl.float32), COLUMN)
    for first in tl.static_range(0, BLOCK, STEPS):
        factors = tlx.local_load(tlx.local_slice(blocks, [0, first], [C, STEPS]), layout=FACTORS)
        factors = tlx.require_layout(tl.reshape(factors, (BLOCKS, BLOCK, STEPS)), FACTORS)
        for step in tl.static_range(STEPS):
            column = tl.sum(tl.where(tl.arange(0, STEPS)[None, None, :] == step, factors, -0.0), 2)     # x + -0.0 is x
            column = tlx.require_layout(column, FACTOR)
            row = tl.sum(tl.where(i == first + step, X, -0.0), 1)       # of X: final
            X = tl.where(i > first + step, X - column[:, :, None] * row[:, None, :], X)
    return X


@mimw.jit
def on_diagonal(X):
    """The tile of blocks as blocks on the diagonal of a (64, 64) one."""
    own = tl.arange(0, BLOCKS)[:, None, None, None] == tl.arange(0, BLOCKS)[None, None, :, None]
    X = tlx.require_layout(X, OWN)
    D = tlx.require_layout(tl.where(own, X[:, :, None, :], 0.0), SUM)
    return tlx.release_layout(tlx.require_layout(tl.reshape(D, (C, C)), SUM))


@mimw.jit
def product(x, y, more=None):
    """x y, and `more`, of tiles in shared memory."""
    return tl.dot(tlx.local_load(x), tlx.local_load(y), more)


@mimw.jit
def inverse(A, room):
    """(I + A)^-1; `room` of `room_of`."""
    block_of_row, block_of_column = tl.arange(0, C)[:, None] // BLOCK, tl.arange(0, C)[None, :] // BLOCK
    tlx.local_store(room.tiles[0], A.to(tl.float16))
    tlx.local_store(room.tiles[1], on_diagonal(blocks_inverse(A, room.blocks[0]).to(tl.float16)))
    E = tl.where(block_of_row > block_of_column, product(room.tiles[1], room.tiles[0]), 0.0)
    E = -tlx.require_layout(E, SUM)         # pinned, or LLVM rounds before it selects, halves of registers
    tlx.local_store(room.tiles[0], E.to(tl.float16))
    square = product(room.tiles[0], room.tiles[0]).to(tl.float16)
    G = product(room.tiles[0], room.tiles[1], tlx.local_load(room.tiles[1]).to(tl.float32))
    tlx.local_store(room.tiles[0], square)
    tlx.local_store(room.tiles[1], G.to(tl.float16))
    return product(room.tiles[0], room.tiles[1], G)
