"""The order of output tiles on a chip of several dies (XCDs), each with an L2 of its own.

Input: the number of a program, which the hardware gives to one XCD after the other. Output: the number of a tile. For example:

    tile = tile_of_xcd(tl.program_id(0), 20, 8)     programs 0, 8, 16 of XCD 0 take tiles 0, 1, 2; 1, 9, 17 of XCD 1 tiles 3, 4, 5
    m, n = tile_origin(tile, M, N, grid)            gemm/tiles.py: neighbours in a band of tiles, which share A and B
"""

import triton.language as tl

import mimw


@mimw.jit
def tile_of_xcd(program, tiles, XCDS: tl.constexpr):
    """Neighbouring tiles for the programs of one XCD: what they share is read into one L2. The first `tiles % XCDS` XCDs have one
    tile more."""
    each, more, xcd = tiles // XCDS, tiles % XCDS, program % XCDS
    return xcd * each + min(xcd, more) + program // XCDS
