"""Where the sums of a GEMM go: by way of staging tiles in shared memory, in column pieces.

Input: a descriptor of C, or one for each width of its pieces (pieces.py), a consumer's sums, and a place. Output: C is written. For
example:

    out = output(c_desc, tiles)                     with staging tiles for all consumers
    out.store(acc, place, part)
    send(out, staging_tile(out, me, piece), sums, place, right, piece)      one piece, of sums that something was done to
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .pieces import begin, count, is_cut, kind, pending, piece_of, slot


@tle.struct
class Output:
    """C in PIECES, which STAGING tiles of each consumer carry in turn; `c_desc` and `staging` are tuples, one for each width, where
    the pieces are of several. REDUCE "add": what is stored is added to C by TMA, each element once, rounded to C's type before."""
    c_desc: Any
    staging: Any
    PIECES: tl.constexpr
    STAGING: tl.constexpr
    REDUCE: tl.constexpr = ""

    @mimw.jit
    def store(self, acc, at, part):
        """Write an output tile; a piece waits only for the store that last used its staging tile."""
        for piece in tl.static_range(count(self.PIECES)):
            tile = staging_tile(self, part.me, piece)
            send(self, tile, piece_of(acc, piece, self.PIECES), at, begin(self.PIECES, piece, acc.shape[1]), piece)


@mimw.jit
def output(c_desc, tiles, REDUCE: tl.constexpr = ""):
    """C, with the staging tiles of all consumers."""
    COUNT: tl.constexpr = tiles.STAGING * tiles.CONSUMERS
    if is_cut(tiles.PIECES):
        staging = ()
        for each in tl.static_range(len(c_desc)):
            staging += (tiles_for(c_desc[each], tiles, COUNT if each == 0 else tiles.CONSUMERS), )
    else:
        staging = tiles_for(c_desc, tiles, COUNT)
    return Output(c_desc, staging, tiles.PIECES, tiles.STAGING, REDUCE)


@mimw.jit
def tiles_for(c_desc, tiles, COUNT: tl.constexpr):
    """So many staging tiles, as wide as the blocks of a descriptor."""
    return tlx.local_alloc((tiles.rows(), c_desc.block_shape[-1]), tlx.dtype_of(c_desc), COUNT)


@mimw.jit
def staging_tile(out, me: tl.constexpr, piece: tl.constexpr):
    """The staging tile for a piece, as soon as the store that last used it has read it."""
    EACH: tl.constexpr = out.STAGING if kind(out.PIECES, piece) == 0 else 1
    tile = of_width(out, out.staging, piece)[EACH * me + slot(out.PIECES, piece, out.STAGING)]
    tlx.async_descriptor_store_wait(pending(out.PIECES, piece, out.STAGING))
    return tile


@mimw.jit
def tile_of_both(out, me: tl.constexpr, piece: tl.constexpr, second: tl.constexpr):
    """The staging tile for the first or second of two matrices that a piece is written to: all tiles in turn, where pieces have one
    width; else one tile for both."""
    if is_cut(out.PIECES):
        if second:
            tlx.async_descriptor_store_wait(0)
            return of_width(out, out.staging, piece)[(out.STAGING if kind(out.PIECES, piece) == 0 else 1) * me
                                                     + slot(out.PIECES, piece, out.STAGING)]
        return staging_tile(out, me, piece)
    tlx.async_descriptor_store_wait(out.STAGING - 1)
    return out.staging[out.STAGING * me + (2 * piece + second) % out.STAGING]


@mimw.jit
def of_width(out, each, piece: tl.constexpr):
    """The one that is for a piece among `c_desc` or `staging`."""
    if is_cut(out.PIECES):
        return each[kind(out.PIECES, piece)]
    return each


@mimw.jit
def send(out, tile, sums, at, right: tl.constexpr, piece: tl.constexpr = 0):
    """Store sums by way of a staging tile, so many columns to the right of a place; `piece` is their number where pieces are of
    several widths."""
    c_desc = of_width(out, out.c_desc, piece)
    tlx.local_store(tile, sums.to(tlx.dtype_of(c_desc)))
    tlx.fence("async_shared")
    tlx.async_descriptor_store(c_desc, tile, at.box(right), store_reduce=out.REDUCE)
