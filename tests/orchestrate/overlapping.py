"""Programs on which certain mistakes show: arrays that overlap, products in some trips only, tiles in turn.

    kernel, args = overlapping()        what a trip stores is what the next one loads, through another argument
"""

import numpy as np
import triton.language as tl

import mimw


@mimw.jit
def stores_ahead(x_desc, y_desc, c_desc, K):
    acc = tl.zeros((128, 64), tl.float32)
    for k in range(0, K, 64):
        acc = tl.dot(x_desc.load([0, k]), y_desc.load([k, 0]), acc)
        c_desc.store([0, k + 64], acc.to(tl.float16))


@mimw.jit
def in_some_trips(x_desc, y_desc, c_desc, K, first):
    acc = tl.zeros((128, 64), tl.float32)
    for k in range(0, K, 64):
        if k >= first:
            acc = tl.dot(x_desc.load([0, k]), y_desc.load([k, 0]), acc)
    c_desc.store([0, 0], acc.to(tl.float16))


@mimw.jit
def in_turn(x_desc, y_desc, c_desc, K, tiles):
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        acc = tl.zeros((128, 64), tl.float32)
        for k in range(0, K, 64):
            acc = tl.dot(x_desc.load([0, k]), y_desc.load([k, 0]), acc)
        c_desc.store([tile * 128, 0], (acc + tile).to(tl.float16))


def _arrays(rows=128):
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(shape).astype(np.float16) for shape in ((128, 320), (320, 64)))
    return x, y, np.zeros((rows, 64), np.float16)


def overlapping():
    x, y, _ = _arrays()
    describe = mimw.TensorDescriptor.from_tensor
    return stores_ahead, (describe(x, [128, 64]), describe(y, [64, 64]), describe(x, [128, 64]), 256)


def some_trips():
    describe, (x, y, c) = mimw.TensorDescriptor.from_tensor, _arrays()
    return in_some_trips, (describe(x, [128, 64]), describe(y, [64, 64]), describe(c, [128, 64]), 320, 128)


def tiles():
    describe, (x, y, c) = mimw.TensorDescriptor.from_tensor, _arrays(384)
    return in_turn, (describe(x, [128, 64]), describe(y, [64, 64]), describe(c, [128, 64]), 320, 3)
