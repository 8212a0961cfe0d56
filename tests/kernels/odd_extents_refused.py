"""Kernels that do something to a tile of odd extents which idle elements would be part of.

Shapes: N, or M x N, numbers from x on; one program. The mistake of each is the op that its name says: it is refused.

Input: nothing. Output: `REFUSED`: kernel, arguments, compile-time values and what the error says.
"""

import numpy as np
import triton
import triton.language as tl

import mimw
import mimw.tle as tle


@triton.jit
def _of_two(one, other):
    return one + other, one - other


@mimw.jit
def takes_neighbours(x, N: tl.constexpr):
    tl.store(x + tl.arange(0, N), tl.map_elementwise(_of_two, tl.load(x + tl.arange(0, N)), pack=2)[0])


@mimw.jit
def does_more(x, N: tl.constexpr):
    tile = tl.load(x + tl.arange(0, N))
    tl.store(x + tl.arange(0, N), tl.inline_asm_elementwise("add.f32 $0, $1, $1;", "=f,f", [tile], tl.float32, False, 1))


@mimw.jit
def picks_odd_rows(x, N: tl.constexpr):
    rows = tl.make_tensor_descriptor(x, [64, 64], [64, 1], [1, 24])
    tl.store(x + tl.arange(0, N)[:, None] * 24 + tl.arange(0, 24)[None, :], rows.gather(tl.arange(0, N), 0))


@mimw.jit
def leaves_some(x, at, N: tl.constexpr):
    tl.store(x + tl.arange(0, 8), tle.extract_tile(tl.load(x + tl.arange(0, N)), at, [8]))


_X = np.zeros(4096, np.float32)
REFUSED = {
    "takes_neighbours": (takes_neighbours, (_X, ), dict(N=12), "whose function takes neighbours"),
    "does_more": (does_more, (_X, ), dict(N=12), "may do more than give its results"),
    "picks_odd_rows": (picks_odd_rows, (_X, ), dict(N=12), "a number of columns that is no power of two"),
}
