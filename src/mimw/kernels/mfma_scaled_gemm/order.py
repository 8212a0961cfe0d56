"""Which tile of C a program computes, so that programs of one XCD, which have an L2 in common, read the same rows and columns.

Input: the number of a program, sizes, and a grid of tiles. Output: the tile's first row and column. For example:

    m, n = origin(tl.program_id(0), M, N, form)     form.XCDS is 8 on MI300 and MI350

The hardware hands programs out in turn: programs p, p + 8, p + 16, .. run on one XCD. They get tiles that follow each other.
"""

import mimw

from ..gemm.tiles import output_tiles, tile_origin


@mimw.jit
def origin(program, M, N, form):
    """First row and column of the program's tile: each XCD has as many tiles that follow each other as it has programs, in an order
    that keeps a band of GROUP_M tile rows."""
    count = output_tiles(M, N, form)
    die, turn = program % form.XCDS, program // form.XCDS
    return tile_origin(die * (count // form.XCDS) + min(die, count % form.XCDS) + turn, M, N, form)
