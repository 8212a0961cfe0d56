"""The K largest or smallest of each row, in order, by sorting: plain Triton, for any GPU and for lists that are short.

Input: x [rows, N] and, where x are candidates already, their places. Output: the first K of each block of a row, sorted. For
example, for K = 2:

    x = 7 5 nan 7         values nan 7, indices 2 0

A number and its place become one 64-bit integer, whose order is that of the numbers, then of the places: NaN is above all, and
of equal ones the first comes first. What is not there is the smallest integer of all, and comes out as index -1.
"""

import triton.language as tl

import mimw

NOTHING = tl.constexpr(-1 << 63)


@mimw.jit
def ordered(x, LARGEST: tl.constexpr):
    """Signed integers that are ordered as fp32 numbers are, or the other way round; NaN is larger than all numbers."""
    bits = x.to(tl.int32, bitcast=True)
    key = tl.where(x != x, 0x7FFFFFFF, bits ^ ((bits >> 31) & 0x7FFFFFFF))
    return key if LARGEST else ~key


@mimw.jit
def number(key, LARGEST: tl.constexpr):
    """The fp32 number that `ordered` made `key` of."""
    bits = key if LARGEST else ~key
    bits = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return bits.to(tl.float32, bitcast=True)


@mimw.jit
def plain_topk(x, places, values, indices, N, K, blocks, stride, step, LARGEST: tl.constexpr, HAS_PLACES: tl.constexpr,
               BLOCK: tl.constexpr):
    """values, indices[row, block, :K] = the first K of block number `block` of a row of N numbers, `step` apart."""
    row, block = (tl.program_id(0) // blocks).to(tl.int64), tl.program_id(0) % blocks
    column = block * BLOCK + tl.arange(0, BLOCK)
    there = column < N
    found = tl.load(x + row * stride + column.to(tl.int64) * step, mask=there, other=0.0).to(tl.float32)
    place = column
    if HAS_PLACES:
        place = tl.load(places + row * N + column, mask=there, other=-1).to(tl.int32)
        there = there & (place >= 0)
    word = (ordered(found, LARGEST).to(tl.int64) << 32) | (0xFFFFFFFF - place.to(tl.int64))
    word = tl.sort(tl.where(there, word, NOTHING), descending=True)
    place = tl.where(word == NOTHING, -1, 0xFFFFFFFF - (word & 0xFFFFFFFF))
    rank = tl.arange(0, BLOCK)
    to = tl.program_id(0).to(tl.int64) * K + rank
    tl.store(values + to, number((word >> 32).to(tl.int32), LARGEST).to(values.dtype.element_ty), mask=rank < K)
    tl.store(indices + to, place, mask=rank < K)
