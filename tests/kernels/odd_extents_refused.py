"""Kernels that do something to a tile of odd extents which idle elements would be part of.

Shapes: N, or M x N, numbers from x on; one program. The mistake of each is the op that its name says: it is refused.

Input: nothing. Output: `REFUSED`: kernel, arguments, compile-time values and what the error says.
"""

import numpy as np
import triton.language as tl

import mimw
import mimw.tle as tle


@mimw.jit
def cuts(x, M: tl.constexpr, N: tl.constexpr):
    tile = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    tl.store(x + tl.arange(0, M * N), tl.reshape(tile, (M * N, )))


@mimw.jit
def turns_over(x, M: tl.constexpr, N: tl.constexpr):
    flat = tl.load(x + tl.arange(0, M * N))
    tl.store(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], tl.reshape(flat, (M, N)))


@mimw.jit
def prints(x, N: tl.constexpr):
    tl.device_print("x", tl.load(x + tl.arange(0, N)))


@mimw.jit
def points(x, M: tl.constexpr, N: tl.constexpr):
    rows, columns = tl.arange(0, M)[:, None] + tl.zeros((M, N), tl.int32), tl.arange(0, N)[None, :] + tl.zeros((M, N), tl.int32)
    buffer = tle.gpu.alloc([M, N], tl.float32)
    tl.store(tle.gpu.local_ptr(buffer, (rows, columns)), tl.load(x + rows * N + columns))


@mimw.jit
def leaves_some(x, at, N: tl.constexpr):
    tl.store(x + tl.arange(0, 8), tle.extract_tile(tl.load(x + tl.arange(0, N)), at, [8]))


_X = np.zeros(4096, np.float32)
REFUSED = {
    "cuts": (cuts, (_X, ), dict(M=8, N=12), "reshape"),
    "turns_over": (turns_over, (_X, ), dict(M=8, N=12), "reshape"),
    "points": (points, (_X, ), dict(M=5, N=12), r"(?s)reshape.*give such a tile one dimension"),
    "prints": (prints, (_X, ), dict(N=12), "print"),
}
