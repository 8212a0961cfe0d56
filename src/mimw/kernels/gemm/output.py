"""Where the sums of a GEMM go: by way of staging tiles in shared memory, in column pieces.

Input: a descriptor of C, a consumer's sums, and a place. Output: C is written. For example:

    out = output(c_desc, tiles)                     with staging tiles for all consumers
    out.store(acc, place, part)
    send(out, staging_tile(out, me, piece), sums, place, right)     one piece, of sums that something was done to
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .product import columns


@tle.struct
class Output:
    """C in PIECES, which STAGING tiles of each consumer carry in turn."""
    c_desc: tl.tensor_descriptor
    staging: tlx.buffered_tensor | None
    PIECES: tl.constexpr
    STAGING: tl.constexpr

    @mimw.jit
    def store(self, acc, at, part):
        """Write an output tile; a piece waits only for the store that last used its staging tile."""
        for piece in tl.static_range(self.PIECES):
            tile = staging_tile(self, part.me, piece)
            send(self, tile, columns(acc, piece, self.PIECES), at, piece * (acc.shape[1] // self.PIECES))


@mimw.jit
def output(c_desc, tiles):
    """C, with the staging tiles of all consumers."""
    SHAPE: tl.constexpr = (tiles.rows(), tiles.BN // tiles.PIECES)
    staging = tlx.local_alloc(SHAPE, tlx.dtype_of(c_desc), tiles.STAGING * tiles.CONSUMERS)
    return Output(c_desc, staging, tiles.PIECES, tiles.STAGING)


@mimw.jit
def staging_tile(out, me: tl.constexpr, piece: tl.constexpr):
    """The staging tile for a piece, as soon as the store that last used it has read it."""
    tile = out.staging[out.STAGING * me + piece % out.STAGING]
    tlx.async_descriptor_store_wait(out.STAGING - 1)
    return tile


@mimw.jit
def send(out, tile, sums, at, right: tl.constexpr):
    """Store sums by way of a staging tile, so many columns to the right of a place."""
    tlx.local_store(tile, sums.to(tlx.dtype_of(out.c_desc)))
    tlx.fence("async_shared")
    tlx.async_descriptor_store(out.c_desc, tile, at.box(right))
