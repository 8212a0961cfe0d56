"""Kernels to freeze: all kinds of parameters, a tuple, three descriptors. Each call makes a new one, with caches of its own.

    y[i * stride] = x[i] * factor for i < n         scale()[(1, )](x, y, n, stride, factor, None, True, BLOCK=128)

Shapes: x, y and bias hold n elements or more, a BLOCK for each CTA along x; a, b and c are [BLOCK * CTAs, 64], described by
blocks [BLOCK, 64]. Each kernel is right.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx


def scale():
    @mimw.jit
    def scale(x, y, n, stride, factor, bias, double, BLOCK: tl.constexpr, FLAG: tl.constexpr = True):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        value = tl.load(x + at, mask=at < n) * factor
        if bias is not None:
            value += tl.load(bias + at, mask=at < n)
        tl.store(y + at * stride, tl.where(double, value * 2, value), mask=at < n)

    return scale


def pairs():
    @mimw.jit
    def pairs(both, n, BLOCK: tl.constexpr):
        at = tl.arange(0, BLOCK)
        tlx.fence("gpu")
        tl.store(both[1][0] + at, tl.load(both[0] + at, mask=at < n) + both[1][1], mask=at < n)

    return pairs


def add():
    @mimw.jit
    def add(a, b, c, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK
        tlx.fence("gpu")
        c.store([at, 0], a.load([at, 0]) + b.load([at, 0]) * n)

    return add
