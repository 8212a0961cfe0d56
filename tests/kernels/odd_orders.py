"""Kernels that put elements of tiles with odd extents in another order: by Triton's own words, and by atomics that swap.

Shapes: M x N numbers, or N; one program. Each kernel is right.

Input: nothing. Output: `CASES`, of each kernel its arguments and the result that numpy gives. For example:

    kernel, args, meta, want, result = arguments(CASES["in_order"])     mimw.simulate(kernel, (1, ), *args, **meta); result == want
"""

import numpy as np
import triton.language as tl

import mimw
from tests.kernels.odd_extents import numbers


@mimw.jit
def _swapped(x, y, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(y + at, tl.load(x + at))
    tl.debug_barrier()
    before = tl.atomic_cas(y + at, tl.full((M, N), 1, tl.int32), at + 100)
    tl.store(y + M * N + at, before)


def swapped():
    x = np.random.default_rng(1).integers(0, 3, (6, 20)).astype(np.int32)
    at = np.arange(120).reshape(6, 20)
    return _swapped, (x, np.zeros(240, np.int32)), dict(M=6, N=20), np.concatenate([np.where(x == 1, at + 100, x), x]).ravel()


@mimw.jit
def _turned_over(x, y, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tile = tl.load(x + at)
    tl.store(y + at, tl.flip(tile))
    tl.store(y + M * N + at, tile.flip(0))


def turned_over():
    x = numbers(6, 20)
    return _turned_over, (x, np.zeros(240, np.float32)), dict(M=6, N=20), np.concatenate([x[:, ::-1], x[::-1]]).ravel()


@mimw.jit
def _side_by_side(x, y, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    upper, lower = tl.load(x + at), tl.load(x + M * N + at)
    tl.store(y + tl.arange(0, 2 * M)[:, None] * N + tl.arange(0, N)[None, :], tl.cat(upper, lower))
    wide = tl.arange(0, M)[:, None] * (2 * N) + tl.arange(0, 2 * N)[None, :]
    tl.store(y + 2 * M * N + wide, tl.cat(upper, lower, dim=1))


def side_by_side():
    x = numbers(2, 6, 20)
    want = np.concatenate([x.ravel(), np.concatenate([x[0], x[1]], 1).ravel()])
    return _side_by_side, (x, np.zeros(480, np.float32)), dict(M=6, N=20), want


@mimw.jit
def _in_order(x, y, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.arange(0, M)[:, None]
    at = rows * N + tl.arange(0, N)[None, :]
    tile = tl.load(x + at)
    tl.store(y + at, tl.sort(tile))
    tl.store(y + M * N + at, tl.sort(tile, descending=True))
    tl.store(y + 2 * M * N + rows * K + tl.arange(0, K)[None, :], tl.topk(tile, K))


def in_order():
    x = numbers(3, 24)
    up = np.sort(x, 1)
    want = np.concatenate([up.ravel(), up[:, ::-1].ravel(), up[:, :-6:-1].ravel()])
    return _in_order, (x, np.zeros(want.size, np.float32)), dict(M=3, N=24, K=5), want


@mimw.jit
def _in_order_of_integers(x, y, N: tl.constexpr):
    """The largest numbers there are, which fill what is idle, are among them."""
    at = tl.arange(0, N)
    tile = tl.load(x + at)
    tl.store(y + at, tl.sort(tile))
    tl.store(y + N + at, tl.sort(tile, descending=True))


def in_order_of_integers():
    x = np.array([3, -128, 127, 0, 127, -1, -128, 5, 5, 9, 1], np.int8)
    return _in_order_of_integers, (x, np.zeros(22, np.int8)), dict(N=11), np.concatenate([np.sort(x), np.sort(x)[::-1]])


@mimw.jit
def _picked_by_few(x, places, y, N: tl.constexpr, P: tl.constexpr):
    """Indices of a power of two, into a tile with another extent."""
    at = tl.arange(0, P)
    tl.store(y + at, tl.gather(tl.load(x + tl.arange(0, N)), tl.load(places + at), 0))


def picked_by_few():
    x, at = numbers(24), np.random.default_rng(1).integers(0, 24, 16).astype(np.int32)
    return _picked_by_few, (x, at, np.zeros(16, np.float32)), dict(N=24, P=16), x[at]


CASES = {case.__name__: case for case in (swapped, turned_over, side_by_side, in_order, in_order_of_integers,
                                          picked_by_few)}
