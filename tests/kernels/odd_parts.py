"""Kernels that take a part of a buffer, as wide as no power of two, for something else than a product.

Shapes: a buffer of 64 x 128, of which N columns are taken; one program. The mistake of each is the part that its name says: it is
refused.

Input: nothing. Output: `REFUSED`: kernels, and what the error says. For example:

    mimw.compile(read, (1, ), x, N=48)
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def read(x, N: tl.constexpr):
    buffer = tlx.local_alloc((64, 128), tl.float16, 1)
    tile = tlx.local_load(tlx.local_slice(buffer[0], [0, 0], [64, N]))
    tl.store(x + tl.arange(0, 64)[:, None] * N + tl.arange(0, N)[None, :], tile)


@mimw.jit
def written(x, N: tl.constexpr):
    buffer = tlx.local_alloc((64, 128), tl.float16, 1)
    tile = tl.load(x + tl.arange(0, 64)[:, None] * N + tl.arange(0, N)[None, :])
    tlx.local_store(tlx.local_slice(buffer[0], [0, 0], [64, N]), tile)


@mimw.jit
def last_columns(x, N: tl.constexpr):
    buffer = tlx.local_alloc((64, 128), tl.float16, 1)
    tile = tlx.local_load(tlx.local_slice(buffer[0], [0, N], [64, N]))
    tl.store(x + tl.arange(0, 64)[:, None] * N + tl.arange(0, N)[None, :], tile)


REFUSED = {read: "a part of a tile that is not for a product", written: "a part of a tile that is not for a product",
           last_columns: "a box that cuts the 64 rows x 128 columns"}
