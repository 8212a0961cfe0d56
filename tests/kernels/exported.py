"""A kernel with every kind of argument that an export has: a tensor by descriptor, an address, a number, constants. No mistakes.

    scale_rows      target[r, c] = factor * source[r, c] for rows r < rows, 32 at a time; source by TMA, target by address
Shapes: source and target are fp32, rows x WIDTH, contiguous; WIDTH is a power of two.

    case()          (kernel, grid, args, meta) of 80 rows of 64
"""

import numpy as np
import triton.language as tl

import mimw
from mimw import tlx

ROWS, WIDTH, BLOCK = 80, 64, 32


@mimw.jit
def scale_rows(source, target, factor, rows, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    tile = tlx.local_alloc((ROWS, WIDTH), tl.float32, 1)
    full = tlx.alloc_barriers(1)
    first = tl.program_id(0) * ROWS
    tlx.barrier_expect_bytes(full[0], 4 * ROWS * WIDTH)
    tlx.async_descriptor_load(source, tile[0], [first, 0], full[0])
    tlx.barrier_wait(full[0], 0)
    row, column = first + tl.arange(0, ROWS)[:, None], tl.arange(0, WIDTH)[None, :]
    tl.store(target + row * WIDTH + column, factor * tlx.local_load(tile[0]), mask=row < rows)


def case():
    """A launch with a row of CTAs of which the last is not full."""
    source = np.random.default_rng(0).standard_normal((ROWS, WIDTH), np.float32)
    described = mimw.TensorDescriptor.from_tensor(source, [BLOCK, WIDTH])
    return scale_rows, (-(-ROWS // BLOCK), ), (described, np.zeros_like(source), 2.5, ROWS), {"ROWS": BLOCK, "WIDTH": WIDTH}
