"""Kernels whose results may be wrong, or written in part or twice: tiles of a matrix, numbers of each program, sums in place.

    tiled(swapped=True)                                     a launch whose coordinates are swapped, and what it should give
    writes[2, ](x, y, n, N=64, SAME=True)                   both programs store to y[:64], of 64 numbers the first n
    adds[1, ](x, y, N=64, ATOMIC=True)                      y[:64] += x

Shapes: `tiles` any that B divides, `writes` and `adds` N numbers, a power of two, a program. Mistakes: SWAPPED coordinates, the
SAME place for all programs, fewer programs than there is to write.
"""

import numpy as np
import triton.language as tl

import mimw


@mimw.jit
def tiles(x, y, B: tl.constexpr, SWAPPED: tl.constexpr):
    m, n = tl.program_id(0) * B, tl.program_id(1) * B
    if SWAPPED:
        tile = x.load([n, m])                                                        # swapped
    else:
        tile = x.load([m, n])
    y.store([m, n], 2 * tile)                                                        # stored


@mimw.jit
def writes(x, y, n, N: tl.constexpr, SAME: tl.constexpr):
    """Each program the first n numbers of its own N, or of those of program 0."""
    at = tl.arange(0, N)
    to = at if SAME else tl.program_id(0) * N + at
    tl.store(y + to, tl.load(x + at), mask=at < n)                                   # written


@mimw.jit
def adds(x, y, N: tl.constexpr, ATOMIC: tl.constexpr):
    """To half of y, which holds something before."""
    at = tl.arange(0, N)
    if ATOMIC:
        tl.atomic_add(y + at, tl.load(x + at))
    else:
        tl.store(y + at, tl.load(y + at) + tl.load(x + at))


def tiled(swapped=False):
    x = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    described = [mimw.TensorDescriptor.from_tensor(array, [32, 32]) for array in (x, np.zeros_like(x))]
    return tiles, (2, 2), described, {"B": 32, "SWAPPED": swapped}, lambda x: 2 * x
