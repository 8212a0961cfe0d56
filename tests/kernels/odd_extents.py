"""Kernels with tiles whose extents are no powers of two, a kernel for each way in which idle elements could be seen.

Shapes: see each case; one program. Each kernel is right.

Input: nothing. Output: `CASES`, of each kernel its arguments and what numpy makes of them. For example:

    kernel, args, meta, want, result = arguments(CASES["sums"])     mimw.simulate(kernel, (1, ), *args, **meta); result == want
"""

import numpy as np
import triton.language as tl

import mimw
import mimw.tle as tle


def numbers(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@mimw.jit
def _moved(x, y, n, N: tl.constexpr):
    at = tl.arange(0, N)
    part, whole = tl.load(x + at, mask=at < n, other=1.0), tl.load(x + at)
    tl.store(y + at, part * 2 + whole)
    tl.store(y + N + at, whole, mask=at >= n)


def moved():
    x, y = numbers(176), np.zeros(352, np.float32)
    at = np.arange(176)
    want = np.concatenate([np.where(at < 170, x, 1) * 2 + x, np.where(at >= 170, x, 0)])
    return _moved, (x, 170, y), dict(N=176), want


@mimw.jit
def _sums(x, y, M: tl.constexpr, N: tl.constexpr):
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    tile = tl.load(x + rows[:, None] * N + columns[None, :])
    tl.store(y + rows, tl.sum(tile, 1))
    tl.store(y + M + columns, tl.max(tile, 0))
    tl.store(y + M + N + rows, tl.min(tile, 1))
    tl.store(y + 2 * M + N, tl.sum(tile))


def sums():
    x, y = numbers(12, 176), np.zeros(2 * 12 + 176 + 1, np.float32)
    return _sums, (x, y), dict(M=12, N=176), np.concatenate([x.sum(1), x.max(0), x.min(1), [x.sum()]])


@mimw.jit
def _nothing_but_nan(x, y, N: tl.constexpr):
    """The maximum of nothing but NaN is NaN: idle elements must not be numbers."""
    tile = tl.load(x + tl.arange(0, N))
    tl.store(y, tl.max(tile))
    tl.store(y + 1, tl.min(tile))
    tl.store(y + 2, tl.reduce(tile, 0, _wide_maximum))


@mimw.jit
def _wide_maximum(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


def nothing_but_nan():
    return _nothing_but_nan, (np.full(11, np.nan, np.float32), np.zeros(3, np.float32)), dict(N=11), np.full(3, np.nan, np.float32)


@mimw.jit
def _integers(x, y, N: tl.constexpr):
    tile = tl.load(x + tl.arange(0, N))
    tl.store(y, tl.max(tile))
    tl.store(y + 1, tl.min(tile))
    tl.store(y + 2, tl.xor_sum(tile))
    tl.store(y + 3, tl.sum(tile))
    tl.store(y + 4, tl.reduce(tile, 0, _and))
    tl.store(y + 5, tl.reduce(tile, 0, _times))


@mimw.jit
def _and(a, b):
    return a & b


@mimw.jit
def _times(a, b):
    return a * b


def integers():
    x = -np.random.default_rng(0).integers(1, 4, 24).astype(np.int32)
    want = [x.max(), x.min(), np.bitwise_xor.reduce(x), x.sum(), np.bitwise_and.reduce(x), np.multiply.reduce(x)]
    return _integers, (x, np.zeros(6, np.int32)), dict(N=24), np.array(want, np.int32)


@mimw.jit
def _without_sign(x, y, N: tl.constexpr):
    tile = tl.load(x + tl.arange(0, N))
    tl.store(y, tl.max(tile))
    tl.store(y + 1, tl.min(tile))


def without_sign():
    x = np.random.default_rng(0).integers(200, 255, 12).astype(np.uint8)
    return _without_sign, (x, np.zeros(2, np.uint8)), dict(N=12), np.array([x.max(), x.min()], np.uint8)


@mimw.jit
def _places(x, y, N: tl.constexpr):
    tile = tl.load(x + tl.arange(0, N))
    tl.store(y, tl.argmax(tile, 0))
    tl.store(y + 1, tl.argmin(tile, 0))


def places():
    x = -np.abs(numbers(20))
    return _places, (x, np.zeros(2, np.int32)), dict(N=20), np.array([x.argmax(), x.argmin()], np.int32)


@mimw.jit
def _welford(mean, spread, count, mean_2, spread_2, count_2):
    """Two parts of a set of numbers: a combination without a neutral element that is easily said."""
    both, away = count + count_2, mean_2 - mean
    return mean + away * count_2 / both, spread + spread_2 + away * away * count * count_2 / both, both


@mimw.jit
def _spread(x, y, M: tl.constexpr, N: tl.constexpr):
    rows = tl.arange(0, M)
    tile = tl.load(x + rows[:, None] * N + tl.arange(0, N)[None, :])
    mean, spread, count = tl.reduce((tile, tile * 0, tile * 0 + 1), 1, _welford)
    tl.store(y + rows, mean)
    tl.store(y + M + rows, spread / count)


def spread():
    x = numbers(3, 48) + 5
    return _spread, (x, np.zeros(6, np.float32)), dict(M=3, N=48), np.concatenate([x.mean(1), x.var(1)])


@mimw.jit
def _first(a, b):
    return a


@mimw.jit
def _scans(x, y, M: tl.constexpr, N: tl.constexpr):
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    at = rows[:, None] * N + columns[None, :]
    tile = tl.load(x + at)
    tl.store(y + at, tl.cumsum(tile, 1))
    tl.store(y + M * N + at, tl.cumsum(tile, 1, reverse=True))
    tl.store(y + 2 * M * N + at, tl.cumsum(tile, 0, reverse=True))
    tl.store(y + 3 * M * N + at, tl.associative_scan(tile, 1, _first, reverse=True))


def scans():
    x = numbers(6, 40)
    from_end = np.cumsum(x[:, ::-1], 1)[:, ::-1], np.cumsum(x[::-1], 0)[::-1]
    want = np.stack([np.cumsum(x, 1), *from_end, np.repeat(x[:, -1:], 40, 1)])
    return _scans, (x, np.zeros(want.size, np.float32)), dict(M=6, N=40), want.ravel()


@mimw.jit
def _products(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, columns, deep = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + rows[:, None] * K + deep[None, :])
    y = tl.load(b + deep[:, None] * N + columns[None, :])
    tl.store(c + rows[:, None] * N + columns[None, :], tl.dot(x, y))


def products():
    a, b = numbers(48, 80, dtype=np.float16), numbers(80, 176, seed=1, dtype=np.float16)
    return _products, (a, b, np.zeros(48 * 176, np.float32)), dict(M=48, N=176, K=80), (a.astype(np.float32) @ b).ravel()


@mimw.jit
def _loops(x, y, trips, N: tl.constexpr):
    at = tl.arange(0, N)
    total = tl.zeros((N, ), tl.float32)
    for trip in range(trips):
        tile = tl.load(x + trip * N + at)
        if trip % 2 == 0:
            total += tile
        else:
            total -= tile
    rounds = 0
    while tl.sum(total) < 1000.0 and rounds < 40:
        total += 1.0
        rounds += 1
    tl.store(y + at, total)


def loops():
    x = numbers(3, 96)
    want = x[0] - x[1] + x[2]
    while want.sum() < 1000:
        want = want + 1
    return _loops, (x, 3, np.zeros(96, np.float32)), dict(N=96), want


@mimw.jit
def _shapes(x, y, M: tl.constexpr, N: tl.constexpr):
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    tile = tl.load(x + rows[:, None] * N + columns[None, :])
    turned = tl.trans(tile)
    tl.store(y + columns[:, None] * M + rows[None, :], turned)
    pairs = tl.interleave(tl.sum(tile, 1), tl.max(tile, 1))
    tl.store(y + M * N + tl.arange(0, 2 * M), pairs)
    parted = tl.reshape(tl.load(x + tl.arange(0, 4 * M)), (M, 4))
    even, odd = tl.split(tl.reshape(parted, (2 * M, 2)))
    tl.store(y + M * N + 2 * M + tl.arange(0, 2 * M), even - odd)


def shapes():
    x = numbers(6, 24)
    pairs = np.stack([x.sum(1), x.max(1)], 1).ravel()
    flat = x.ravel()[:24].reshape(12, 2)
    want = np.concatenate([x.T.ravel(), pairs, flat[:, 0] - flat[:, 1]])
    return _shapes, (x, np.zeros(want.size, np.float32)), dict(M=6, N=24), want


@mimw.jit
def _picked(x, places, y, N: tl.constexpr, P: tl.constexpr):
    at = tl.arange(0, P)
    tl.store(y + at, tl.gather(tl.load(x + tl.arange(0, N)), tl.load(places + at), 0))


def picked():
    x, at = numbers(24), np.random.default_rng(1).integers(0, 24, 40).astype(np.int32)
    return _picked, (x, at, np.zeros(40, np.float32)), dict(N=24, P=40), x[at]


@mimw.jit
def _counted(x, y, N: tl.constexpr, B: tl.constexpr):
    tl.store(y + tl.arange(0, B), tl.histogram(tl.load(x + tl.arange(0, N)), B))


def counted():
    x = np.random.default_rng(1).integers(0, 12, 100).astype(np.int32)
    return _counted, (x, np.zeros(12, np.int32)), dict(N=100, B=12), np.bincount(x, minlength=12).astype(np.int32)


@mimw.jit
def _atomics(x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    before = tl.atomic_add(y + at, tl.load(x + at))
    tl.atomic_max(y + N + at // 4, before + 1, mask=at > 3)


def atomics():
    x = np.arange(40, dtype=np.int32)
    want = np.concatenate([x, [0] + [1] * 9, np.zeros(30)]).astype(np.int32)
    return _atomics, (x, np.zeros(80, np.int32)), dict(N=40), want


@mimw.jit
def _softmax(x, y, n, N: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, N)
    tile = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
    power = tl.exp(tile - tl.max(tile))
    tl.device_assert(power <= 1.0, "a power is above 1")
    tl.store(y + row * n + at, power / tl.sum(power), mask=at < n)


def softmax():
    x = numbers(1, 200)
    power = np.exp(x - x.max(1, keepdims=True))
    return _softmax, (x, 200, np.zeros(200, np.float32)), dict(N=208), (power / power.sum()).ravel()


@mimw.jit
def _parts(x, y, M: tl.constexpr, N: tl.constexpr):
    tile = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    low, right = tle.extract_tile(tile, [2, 1], [16, 32]), tile.extract_tile([1, 4], [8, 16])
    large = tle.extract_tile(tile > 0, (0, 0), [32, 64])
    tl.store(y + tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :], low)
    tl.store(y + 512 + tl.arange(0, 8)[:, None] * 16 + tl.arange(0, 16)[None, :], right)
    tl.store(y + 640 + tl.arange(0, 32)[:, None] * 64 + tl.arange(0, 64)[None, :], tl.where(large, 1.0, 2.0))
    tl.store(y + 2688 + tl.arange(0, 2), tle.extract_tile(tl.sum(tile, 1), 23, [2]))


def parts():
    x = numbers(48, 80)
    found = x[32:, 32:64], x[8:16, 64:], np.where(x[:32, :64] > 0, 1, 2), x.sum(1)[46:]
    return _parts, (x, np.zeros(2690, np.float32)), dict(M=48, N=80), np.concatenate([one.ravel() for one in found])


CASES = {case.__name__: case for case in (
    moved, sums, nothing_but_nan, integers, without_sign, places, spread, scans, products, loops, shapes, parts, picked,
    counted, atomics, softmax)}


def arguments(case):
    """(kernel, arguments, compile-time values, the result that is wanted) of a function in `CASES`; the result is the last array of
    the arguments."""
    kernel, given, meta, want = case()
    arrays = [one for one in given if isinstance(one, np.ndarray)]
    numbers_ = [one for one in given if not isinstance(one, np.ndarray)]
    return kernel, [*arrays, *numbers_], meta, want, arrays[-1]
