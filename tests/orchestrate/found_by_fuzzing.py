"""The smallest programs of `python -m tests.fuzz .. --family ordinary` that automatic orchestration got wrong once, each with its
plan.

    CASES["a dead product"]         (kernel, arguments, plan)

`x` is 128 x 256, `y` 256 x 64, `c` 128 x 64; `K` is 256, four trips.
"""

import ml_dtypes
import numpy as np
import triton.language as tl

import mimw
from mimw.compiler.orchestrate.plan import Plan

M, N, K, B = 128, 64, 256, 64


@mimw.jit
def dead_product(x_desc, y_desc, c_desc, K):
    acc = tl.zeros((128, 64), tl.float32)
    for k in range(0, K, 64):
        x = x_desc.load([0, k])
        acc = tl.dot(x, y_desc.load([k, 0]), acc)
        tl.dot(x, y_desc.load([0, 0]))
    c_desc.store([0, 0], acc.to(tl.float16))


@mimw.jit
def turned_first(x_desc, y_desc, c_desc, K):
    """The first tile of a ring is turned in front of the load of the second one."""
    acc = tl.zeros((64, 64), tl.float32)
    for k in range(0, K, 64):
        x = y_desc.load([k, 0]).T
        acc = tl.dot(x, y_desc.load([k, 0]), acc)
    c_desc.store([0, 0], acc.to(tl.float16))


@mimw.jit
def both_turned(x_desc, y_desc, c_desc, K):
    acc = tl.zeros((64, 64), tl.float32)
    for k in range(0, K, 64):
        acc = tl.dot(y_desc.load([k, 0]).T, y_desc.load([0, 0]).T, acc)
    c_desc.store([0, 0], acc.to(tl.float16))


@mimw.jit
def read_between(x_desc, y_desc, c_desc, K):
    """A product reads the first tile of what would be a ring before the second one is loaded."""
    acc = tl.zeros((128, 64), tl.float32)
    w = y_desc.load([0, 0])
    for k in range(0, K, 64):
        x = x_desc.load([0, k])
        s = tl.dot(x, w)
        acc = tl.dot(x, y_desc.load([k, 0]), acc + tl.maximum(s, 0.0))
    c_desc.store([0, 0], acc.to(tl.float16))


@mimw.jit
def in_place(x_desc, y_desc, c_desc, K):
    """What a trip stores the next one loads."""
    acc = tl.zeros((128, 64), tl.float32)
    for k in range(0, K, 64):
        acc = tl.dot(x_desc.load([0, k]), y_desc.load([k, 0]), acc)
        c_desc.store([0, 0], (c_desc.load([0, 0]) + acc).to(tl.float16))


@mimw.jit
def residual(x_desc, y_desc, c_desc, r_desc, K):
    """Each of two consumers loads its rows by a descriptor."""
    acc = tl.zeros((128, 64), tl.float32)
    for k in range(0, K, 64):
        acc = tl.dot(x_desc.load([0, k]), y_desc.load([k, 0]), acc)
    c_desc.store([0, 0], (acc + r_desc.load([0, 0])).to(tl.float16))


@mimw.jit
def by_while(x_desc, y_desc, c_desc, K):
    """All that a `while` carries goes round together: the address of a load with the sum of what it loads."""
    acc = tl.zeros((128, 64), tl.float32)
    x = x_desc.load([0, 0])
    k = 0
    while k < K:
        acc = tl.dot(x, y_desc.load([k, 0]), acc)
        k += 64
    c_desc.store([0, 0], acc.to(tl.float16))


@mimw.jit
def loaded_ahead(x_desc, y_desc, c_desc, K):
    """The author loads a trip ahead himself, from the array that the kernel writes: the load stays, and is carried."""
    acc = tl.zeros((128, 64), tl.float32)
    w = c_desc.load([0, 0])
    for k in range(0, K, 64):
        acc = tl.dot(x_desc.load([0, k]), y_desc.load([k, 0]), acc * 0.5)
        acc += w
        c_desc.store([0, 0], acc.to(tl.float16))
        w = c_desc.load([tl.minimum(k, 0), 0])


@mimw.jit
def one_array_twice(x_desc, y_desc, c_desc, K):
    """Keys and values are one array: both rings of the loop could go on in the pipe of the first trip."""
    q = x_desc.load([0, 0])
    acc = tl.zeros((128, 64), tl.float32)
    for k in range(0, K, 64):
        s = tl.dot(q, y_desc.load([k, 0]).T)
        p = tl.exp2(tl.minimum(s, 0.0))
        acc = tl.dot(p.to(tl.float16), y_desc.load([k, 0]), acc * 0.5)
    c_desc.store([0, 0], acc.to(tl.float16))


@mimw.jit
def two_loops_in_turn(x_desc, y_desc, c_desc, K):
    """Both loops use one pipe, and the second one's product runs on: what is left of its counter in front of it is read within."""
    for tile in range(tl.program_id(0), 2, tl.num_programs(0)):
        acc = tl.zeros((128, 64), tl.float32)
        for k in range(0, K, 64):
            acc += tl.exp2(tl.minimum(tl.dot(x_desc.load([0, k]), y_desc.load([k, 0])), 0.0))
        for k in range(64, K, 64):
            acc = tl.dot(x_desc.load([0, k]), y_desc.load([k, 0]), acc)
        c_desc.store([0, 0], (acc + tile).to(tl.float16))


@mimw.jit
def large_sums(x_desc, y_desc, r_desc, c, K):
    """40,960 bytes a slot, five slots, and 32,768 bytes through which the sums change their layout."""
    at = tl.arange(0, 128)[:, None] * 64 + tl.arange(0, 64)[None, :]
    acc = tl.zeros((128, 64), tl.float32)
    for k in range(0, K, 64):
        y = y_desc.load([k, 0])
        acc = tl.dot(x_desc.load([0, k]), y, acc)
        acc = tl.dot(x_desc.load([0, 0]), y, acc + 1)
    for tile in range(tl.num_programs(0)):
        tl.store(c + at, acc + r_desc.load([0, 0]).to(tl.float32))


@mimw.jit
def computed_rows(x_desc, y_desc, c_desc, K):
    """A is computed in each trip, in registers that the next trip writes while a product that runs on would still read them."""
    acc = tl.zeros((128, 64), tl.float32)
    for k in range(0, K, 64):
        acc = tl.dot((x_desc.load([0, k]) * 2.0).to(tl.float16), y_desc.load([k, 0]), acc)
    c_desc.store([0, 0], acc.to(tl.float16))


@mimw.jit
def as_long_as_an_array_says(x_desc, y_desc, c_desc, ends):
    """What is written is also read, so that a run in which rounds are only counted would show in the arrays of the caller."""
    acc = tl.zeros((128, 64), tl.float32)
    for k in range(0, tl.load(ends), 64):
        acc = tl.dot(x_desc.load([0, k]), y_desc.load([k, 0]), acc)
    c_desc.store([0, 0], (c_desc.load([0, 0]) + acc + 1.0).to(tl.float16))


@mimw.jit
def one_slot(x_desc, y_desc, c_desc, K):
    """Slots of 196,608 bytes: one fits, and no product runs on into the next trip."""
    acc = tl.zeros((128, 64), tl.float32)
    for k in range(0, K, 512):
        acc = tl.dot(x_desc.load([0, k]), y_desc.load([k, 0]), acc)
    c_desc.store([0, 0], acc.to(tl.float16))


def _arrays(element=np.float16):
    rng = np.random.default_rng(0)
    x, y, r = (rng.standard_normal(shape).astype(np.float32).astype(element) for shape in ((M, K), (K, N), (M, N)))
    return x, y, np.zeros((M, N), np.float16), r


def _arguments(element=np.float16, turned=False, residual=False):
    x, y, c, r = _arrays(element)
    describe, rows = mimw.TensorDescriptor.from_tensor, 64 if turned else M
    given = [describe(x, [rows, B]), describe(y, [B, N]), describe(c, [rows, N]), *([describe(r, [M, N])] if residual else [])]
    return (*given, K)


def _deep():
    rng, describe = np.random.default_rng(0), mimw.TensorDescriptor.from_tensor
    x, y = (rng.standard_normal(shape).astype(np.float16) for shape in ((M, 1536), (1536, N)))
    return describe(x, [M, 512]), describe(y, [512, N]), describe(np.zeros((M, N), np.float16), [M, N]), 1536


CASES = {
    "a dead product": (dead_product, _arguments(), Plan(stages=2)),
    "the first tile of a ring is turned": (turned_first, _arguments(turned=True), Plan(stages=2)),
    "8 bits that are turned": (both_turned, _arguments(ml_dtypes.float8_e4m3fn, turned=True), Plan(stages=2)),
    "a product between the loads of a ring": (read_between, _arguments(), Plan(stages=2)),
    "a store that runs on": (residual, _arguments(residual=True), Plan(stages=2, stores=True)),
    "a store that runs on is read again": (in_place, _arguments(), Plan(stages=2, stores=True)),
    "a consumer loads its rows": (residual, _arguments(residual=True), Plan(consumers=2, stages=2)),
    "sums that change their layout": (large_sums, (*_arguments()[:2], _arguments()[2], np.zeros((M, N), np.float32), K),
    Plan(stages=2)),
    "two loops of one pipe": (two_loops_in_turn, _arguments(), Plan(stages=3)),
    "computed rows": (computed_rows, _arguments(), Plan(stages=2)),
    "as long as an array says": (as_long_as_an_array_says, (*_arguments()[:3], np.array([K], np.int32)), Plan(stages=2)),
    "one slot fits": (one_slot, _deep(), Plan()),
    "a while": (by_while, _arguments(), Plan(stages=2)),
    "a load that stays is carried": (loaded_ahead, _arguments(), Plan(stages=2)),
    "keys and values are one array": (one_array_twice, _arguments(), Plan(stages=2)),
    "the same, two consumers": (one_array_twice, _arguments(), Plan(consumers=2, stages=2)),
}
