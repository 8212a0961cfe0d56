"""Kernels for the emission with tensor memory, each with a way in which products meet what a task computes; small enough to prove.

Input: a name. Output: what `plain_of` takes, and a plan. For example:

    kernel, arguments, plan = CASES["two sums"];  plain_of(kernel, (1, ), arguments(), {"num_warps": 4}, "sm_100a")

`x` is (256, K), `y` is (K, 64) and `z` (64, K), of fp16 where a case does not say more; `c` is (256, 64). One program.
"""

import ml_dtypes
import numpy as np
import triton.language as tl

import mimw
from mimw.compiler.orchestrate.plan import Plan

K, B = 256, 64


@mimw.jit
def begins_with_a_tile(x_desc, y_desc, c_desc, start, K):
    acc = tl.load(start + tl.arange(0, 128)[:, None] * 64 + tl.arange(0, 64)[None, :])
    for k in range(0, K, 64):
        acc = tl.dot(x_desc.load([0, k]), y_desc.load([k, 0]), acc)
    c_desc.store([0, 0], acc.to(tl.float16))


@mimw.jit
def two_into_one(x_desc, y_desc, c_desc, start, K):
    """Two products of a trip add up in one place."""
    acc = tl.zeros((128, 64), tl.float32)
    for k in range(0, K, 64):
        acc = tl.dot(x_desc.load([0, k]), y_desc.load([k, 0]), acc)
        acc = tl.dot(x_desc.load([128, k]), y_desc.load([k, 0]), acc)
    c_desc.store([0, 0], acc.to(tl.float16))


@mimw.jit
def two_sums(x_desc, y_desc, c_desc, start, K):
    """Two sums that a loop carries, and one more loop that goes on with the first of them."""
    acc, gate = tl.zeros((128, 64), tl.float32), tl.zeros((128, 64), tl.float32)
    for k in range(0, K, 64):
        y = y_desc.load([k, 0])
        acc = tl.dot(x_desc.load([0, k]), y, acc)
        gate = tl.dot(x_desc.load([128, k]), y, gate)
    for k in range(0, K, 64):
        acc = tl.dot(x_desc.load([128, k]), y_desc.load([k, 0]), acc)
    c_desc.store([0, 0], (acc * tl.sigmoid(gate)).to(tl.float16))


@mimw.jit
def in_some_trips(x_desc, y_desc, c_desc, start, K):
    """A product under a condition, in a loop over tiles; what it adds to is no zero from the second tile on."""
    acc = tl.zeros((128, 64), tl.float32)
    for tile in range(2):
        for k in range(0, K, 64):
            if (k // 64 + tile) % 2 == 0:
                acc = tl.dot(x_desc.load([tile * 128, k]), y_desc.load([k, 0]), acc)
        acc *= 0.5
    c_desc.store([0, 0], acc.to(tl.float16))


@mimw.jit
def scaled_before(x_desc, y_desc, c_desc, start, K):
    """The left operand is computed once for all trips, and read from tensor memory by each of them."""
    x = (x_desc.load([0, 0]).to(tl.float32) * 0.5).to(tl.float16)
    top = tl.zeros((128, 64), tl.float32)
    for k in range(0, K, 64):
        top = tl.maximum(top, tl.dot(x, y_desc.load([k, 0])))
    c_desc.store([0, 0], top.to(tl.float16))


@mimw.jit
def held_over_a_loop(x_desc, y_desc, c_desc, start, K):
    """The left operand of each tile is loaded once, and its slot is held while a loop reads it."""
    for tile in range(2):
        x = x_desc.load([tile * 128, 0])
        top = tl.zeros((128, 64), tl.float32)
        for k in range(0, K, 64):
            top = tl.maximum(top, tl.dot(x, y_desc.load([k, 0])))
        c_desc.store([tile * 128, 0], top.to(tl.float16))


@mimw.jit
def transformed(x_desc, y_desc, c_desc, start, K):
    """The right operand is computed from what is loaded, in each trip of a sum that stays where it is."""
    acc = tl.zeros((128, 64), tl.float32)
    for k in range(0, K, 64):
        y = y_desc.load([k, 0])
        acc = tl.dot(x_desc.load([0, k]), tl.where(y > 0, y, y * 0.5).to(tl.float16), acc)
    c_desc.store([0, 0], acc.to(tl.float16))


@mimw.jit
def with_triton_s_own_tasks(x_desc, y_desc, c_desc, start, K):
    """Loops that ask Triton for tasks of its own, which these stand in place of."""
    for tile in tl.range(0, 2, flatten=True, warp_specialize=True):
        acc = tl.zeros((128, 64), tl.float32)
        for k in tl.range(0, K, 64, num_stages=3, warp_specialize=True):
            acc = tl.dot(x_desc.load([tile * 128, k]), y_desc.load([k, 0]), acc)
        c_desc.store([tile * 128, 0], acc.to(tl.float16))


@mimw.jit
def both_turned(x_desc, y_desc, c_desc, start, K):
    """Both operands are turned, and half of the sum is stored."""
    acc = tl.zeros((64, 64), tl.float32)
    for k in range(0, K, 64):
        acc = tl.dot(y_desc.load([k, 0]).T, y_desc.load([0, 0]).T, acc)
    c_desc.store([0, 0], (acc * 0.5).to(tl.float16))


@mimw.jit
def of_bytes(x_desc, z_desc, c, start, K):
    """Products of bytes, whose sums are integers."""
    acc = tl.zeros((128, 64), tl.int32)
    for k in range(0, K, 64):
        acc = tl.dot(x_desc.load([0, k]), z_desc.load([0, k]).T, acc)
    tl.store(c + tl.arange(0, 128)[:, None] * 64 + tl.arange(0, 64)[None, :], acc)


@mimw.jit
def of_fp8(x_desc, z_desc, c, start, K):
    acc = tl.zeros((128, 64), tl.float32)
    for k in range(0, K, 64):
        acc = tl.dot(x_desc.load([0, k]), z_desc.load([0, k]).T, acc)
    tl.store(c + tl.arange(0, 128)[:, None] * 64 + tl.arange(0, 64)[None, :], acc.to(tl.int32))


def _halves(element=np.float16, rows=128):
    rng = np.random.default_rng(0)
    x, y = ((rng.standard_normal(shape) * 0.25).astype(element) for shape in ((256, K), (K, B)))
    c, start = np.zeros((256, B), element), rng.standard_normal((128, B)).astype(np.float32)
    describe = mimw.TensorDescriptor.from_tensor
    return describe(x, [128, B]), describe(y, [B, B]), describe(c, [rows, B]), start, K


def _bytes(element):
    rng = np.random.default_rng(0)
    x, z = (rng.integers(-4, 5, shape).astype(element) for shape in ((256, K), (B, K)))
    describe = mimw.TensorDescriptor.from_tensor
    return describe(x, [128, B]), describe(z, [B, B]), np.zeros((128, B), np.int32), np.zeros(1, np.float32), K


CASES = {
    "a sum that begins with a tile": (begins_with_a_tile, _halves, Plan(stages=2)),
    "two products into one sum": (two_into_one, _halves, Plan(stages=2)),
    "two sums": (two_sums, _halves, Plan(stages=2)),
    "a product in some trips": (in_some_trips, _halves, Plan(stages=3)),
    "an operand for all trips": (scaled_before, _halves, Plan(stages=2)),
    "a slot that a loop holds": (held_over_a_loop, _halves, Plan(stages=2)),
    "an operand that is computed": (transformed, _halves, Plan(stages=2)),
    "loops of Triton's tasks": (with_triton_s_own_tasks, _halves, Plan(stages=2)),
    "64 rows, both turned": (both_turned, lambda: _halves(rows=64), Plan(stages=2)),
    "bytes": (of_bytes, lambda: _bytes(np.int8), Plan(stages=2)),
    "fp8": (of_fp8, lambda: _bytes(ml_dtypes.float8_e4m3fn), Plan(stages=1)),
}

SHAPES = {      # slots of each array: sums in tensor memory, operands there, operands in shared memory
    "two sums": ([1, 1, 1], [], []),
    "two products into one sum": ([1], [], []),
    "an operand for all trips": ([1], [1], []),
    "an operand that is computed": ([1], [], [2]),
    "attention": ([1, 1], [1], []),
    "gemm_descriptors": ([2], [], []),
}
