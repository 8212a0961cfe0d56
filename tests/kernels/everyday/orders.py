"""Everyday kernels that count, scan, sort, draw, turn and take apart, by tiles whose extents are no powers of two.

Shapes: see each case. Each kernel is right.

Input: nothing. Output: `CASES`; a case gives a kernel, its arguments, compile-time values and what the last array becomes. For
example:

    kernel, args, meta, want, result = arguments(CASES["recurrence"])       mimw.simulate(kernel, (1, ), *args, **meta)
"""

import numpy as np
import triton.language as tl

import mimw
import mimw.tle as tle
from tests.kernels.odd_extents import numbers


@mimw.jit
def _step(a, b, a_2, b_2):
    return a * a_2, b * a_2 + b_2


@mimw.jit
def _recurrence(gate, x, y, T: tl.constexpr, D: tl.constexpr):
    """h = gate h + x along time, as a state space model has it."""
    at = tl.arange(0, T)[:, None] * D + tl.arange(0, D)[None, :]
    _, state = tl.associative_scan((tl.load(gate + at), tl.load(x + at)), 0, _step)
    tl.store(y + at, state)


def recurrence():
    gate, x = np.abs(numbers(12, 20)) * 0.5, numbers(12, 20, seed=1)
    want, h = np.zeros((12, 20), np.float32), np.zeros(20, np.float32)
    for t in range(12):
        h = want[t] = gate[t] * h + x[t]
    return _recurrence, (gate, x, np.zeros((12, 20), np.float32)), dict(T=12, D=20), want


@mimw.jit
def _sums_so_far(x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    tile = tl.load(x + at)
    tl.store(y + at, tl.cumsum(tile, 0))
    tl.store(y + N + at, tl.cumprod(tile, 0))
    tl.store(y + 2 * N + at, tl.cumsum(tile > 0, 0).to(tl.float32))
    tl.store(y + 3 * N + at, tl.associative_scan(tile, 0, _most, reverse=True))


@mimw.jit
def _most(a, b):
    return tl.maximum(a, b)


def sums_so_far():
    x = numbers(20)
    want = [np.cumsum(x), np.cumprod(x), np.cumsum(x > 0), np.maximum.accumulate(x[::-1])[::-1]]
    return _sums_so_far, (x, np.zeros(80, np.float32)), dict(N=20), np.concatenate(want)


@mimw.jit
def _histogram(x, y, n, N: tl.constexpr, BINS: tl.constexpr):
    at = tl.arange(0, N)
    tile = tl.load(x + at, mask=at < n, other=0)
    tl.atomic_add(y + tl.arange(0, BINS), tl.histogram(tile, BINS, mask=at < n))


def histogram():
    x = np.random.default_rng(0).integers(0, 10, 90).astype(np.int32)
    return _histogram, (x, np.zeros(10, np.int32), 90), dict(N=96, BINS=10), np.bincount(x, minlength=10)


@mimw.jit
def _votes(x, y, n, N: tl.constexpr):
    """Atomics under masks: a count by where, the largest, a flag, and what was there before."""
    at = tl.arange(0, N)
    tile = tl.load(x + at, mask=at < n, other=0)
    tl.atomic_add(y + tile, 1, mask=at < n)
    tl.atomic_max(y + 16 + at % 4, tile, mask=at < n)
    tl.atomic_min(y + 20 + at * 0, tile, mask=at < n)
    tl.atomic_or(y + 21 + at * 0, 1 << tile, mask=at < n)
    before = tl.atomic_xchg(y + 24 + at, tile + 5, mask=at < n)
    tl.store(y + 100 + at, before, mask=at < n)


def votes():
    x, want = np.random.default_rng(0).integers(1, 10, 70).astype(np.int32), np.zeros(200, np.int32)
    np.add.at(want, x, 1)
    np.maximum.at(want, 16 + np.arange(70) % 4, x)
    want[21] = np.bitwise_or.reduce(1 << x)
    want[24:94] = x + 5
    return _votes, (x, np.zeros(200, np.int32), 70), dict(N=72), want


@mimw.jit
def _dropout(x, y, seed, p, N: tl.constexpr):
    at = tl.arange(0, N)
    keep = tl.rand(seed, at) > p
    tl.store(y + at, tl.where(keep, tl.load(x + at) / (1 - p), 0.0))


@mimw.jit
def _dropout_of_all(x, y, seed, p, N: tl.constexpr):
    """The same by blocks of 32, which need nothing of ours."""
    for start in range(0, N, 16):
        at = start + tl.arange(0, 16)
        tl.store(y + at, tl.where(tl.rand(seed, at) > p, tl.load(x + at) / (1 - p), 0.0))


def dropout():
    x, want = numbers(176), np.zeros(176, np.float32)
    mimw.simulate(_dropout_of_all, (1, ), x, want, 5, 0.3, N=176)
    return _dropout, (x, np.zeros(176, np.float32), 5, 0.3), dict(N=176), want


@mimw.jit
def _drawn(y, seed, N: tl.constexpr):
    at = tl.arange(0, N)
    a, b, c, d = tl.randint4x(seed, at)
    tl.store(y + at, tl.randn(seed, at))
    tl.store(y + N + at, (a ^ b ^ c ^ d).to(tl.float32) * 0)
    tl.store(y + 2 * N + at, tl.rand(seed, at) * 0 + (tl.randint(seed, at) == a).to(tl.float32))


@mimw.jit
def _normal(y, seed, N: tl.constexpr):
    for start in range(0, N, 8):
        tl.store(y + start + tl.arange(0, 8), tl.randn(seed, start + tl.arange(0, 8)))


def drawn():
    want = np.zeros(120, np.float32)
    mimw.simulate(_normal, (1, ), want, 11, N=40)
    want[80:] = 1
    return _drawn, (np.zeros(120, np.float32), 11), dict(N=40), want


@mimw.jit
def _rotary(x, cos, sin, y, T: tl.constexpr, H: tl.constexpr):
    """Pairs of neighbours are turned: split, and interleaved again."""
    at = tl.arange(0, T)[:, None] * (2 * H) + tl.arange(0, 2 * H)[None, :]
    even, odd = tl.split(tl.reshape(tl.load(x + at), (T, H, 2)))
    half = tl.arange(0, T)[:, None] * H + tl.arange(0, H)[None, :]
    c, s = tl.load(cos + half), tl.load(sin + half)
    tl.store(y + at, tl.interleave(even * c - odd * s, even * s + odd * c))


def rotary():
    x, angle = numbers(5, 48), numbers(5, 24, seed=1)
    even, odd, c, s = x[:, ::2], x[:, 1::2], np.cos(angle), np.sin(angle)
    want = np.stack([even * c - odd * s, even * s + odd * c], 2)
    return _rotary, (x, c, s, np.zeros((5, 48), np.float32)), dict(T=5, H=24), want


@mimw.jit
def _joined(x, y, M: tl.constexpr, N: tl.constexpr):
    """join, a permute of three axes, and split once more."""
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tile = tl.load(x + at)
    three = tl.permute(tl.join(tile, tile * 2), (2, 0, 1))
    places = tl.arange(0, 2)[:, None, None] * M * N + at[None, :, :]
    tl.store(y + places, three)
    one, two = tl.join(tile, -tile).split()
    tl.store(y + 2 * M * N + at, one + two * 3)


def joined():
    x = numbers(6, 20)
    return _joined, (x, np.zeros((3, 6, 20), np.float32)), dict(M=6, N=20), np.stack([x, x * 2, x * -2])


@mimw.jit
def _turned(x, y, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    a, b, c = tl.arange(0, A)[:, None, None], tl.arange(0, B)[None, :, None], tl.arange(0, C)[None, None, :]
    tile = tl.permute(tl.load(x + (a * B + b) * C + c), 2, 0, 1)
    at = (tl.arange(0, C)[:, None, None] * A + tl.arange(0, A)[None, :, None]) * B + tl.arange(0, B)[None, None, :]
    tl.store(y + at, tile)


def turned():
    x = numbers(3, 5, 12)
    return _turned, (x, np.zeros((12, 3, 5), np.float32)), dict(A=3, B=5, C=12), x.transpose(2, 0, 1)


@mimw.jit
def _distances(x, z, y, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    """All pairs: expand_dims, broadcasts, a sum over the last axis."""
    one = tl.expand_dims(tl.load(x + tl.arange(0, M)[:, None] * D + tl.arange(0, D)[None, :]), 1)
    two = tl.expand_dims(tl.load(z + tl.arange(0, N)[:, None] * D + tl.arange(0, D)[None, :]), 0)
    one, two = tl.broadcast(one, two)
    far = tl.sqrt(tl.sum((one - two) * (one - two), -1))
    ones = tl.broadcast_to(tl.full((1, N), 1.0, tl.float32), (M, N))
    tl.store(y + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], far + ones)


def distances():
    x, z = numbers(5, 3), numbers(12, 3, seed=1)
    want = np.linalg.norm(x[:, None] - z[None], axis=-1) + 1
    return _distances, (x, z, np.zeros((5, 12), np.float32)), dict(M=5, N=12, D=3), want


@mimw.jit
def _looked_up(table, tokens, y, T: tl.constexpr, D: tl.constexpr, V: tl.constexpr):
    """Rows of a table by indices; then columns of the tile by tl.gather."""
    tokens = tl.load(tokens + tl.arange(0, T))
    rows = tl.load(table + tokens[:, None] * D + tl.arange(0, D)[None, :], mask=(tokens < V)[:, None], other=0.0)
    at = tl.arange(0, T)[:, None] * D + tl.arange(0, D)[None, :]
    turned = (tl.arange(0, D)[None, :] + 1 + tl.zeros((T, D), tl.int32)) % D
    tl.store(y + at, tl.gather(rows, turned, 1))


def looked_up():
    table, tokens = numbers(11, 24), np.array([3, 10, 11, 0, 7, 3], np.int32)
    rows = np.where((tokens < 11)[:, None], table[tokens % 11], 0)
    return _looked_up, (table, tokens, np.zeros((6, 24), np.float32)), dict(T=6, D=24, V=11), np.roll(rows, -1, 1)


@mimw.jit
def _sorted(x, y, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tile = tl.load(x + at)
    tl.store(y + at, tl.sort(tile, dim=1, descending=True))
    tl.store(y + M * N + at, tl.flip(tile, 1))
    tl.store(y + 2 * M * N + tl.arange(0, M)[:, None] * K + tl.arange(0, K)[None, :], tl.topk(tile, K, 1))


def sorted_():
    x = numbers(3, 20)
    down = np.sort(x, 1)[:, ::-1]
    return _sorted, (x, np.zeros(132, np.float32)), dict(M=3, N=20, K=4), np.concatenate(
        [down.ravel(), x[:, ::-1].ravel(), down[:, :4].ravel()])


@mimw.jit
def _convolved(x, weight, y, n, N: tl.constexpr, W: tl.constexpr):
    """A causal convolution: shifted loads, unrolled."""
    at = tl.arange(0, N)
    acc = tl.zeros((N, ), tl.float32)
    for i in tl.static_range(W):
        from_ = at - (W - 1) + i
        acc += tl.load(x + from_, mask=(from_ >= 0) & (at < n), other=0.0) * tl.load(weight + i)
    tl.store(y + at, acc * tl.sigmoid(acc), mask=at < n)


def convolved():
    x, w = numbers(100), numbers(3, seed=1)
    acc = np.convolve(np.pad(x, (2, 0)), w[::-1], "valid")
    return _convolved, (x, w, np.zeros(100, np.float32), 100), dict(N=104, W=3), acc / (1 + np.exp(-acc))


@mimw.jit
def _rows_moved(x, y, N: tl.constexpr):
    """Rows by their numbers, there and back, by descriptors; two fall on one."""
    from_ = tl.make_tensor_descriptor(x, [64, 32], [32, 1], [1, 16])
    to = tl.make_tensor_descriptor(y, [64, 32], [32, 1], [1, 16])
    at = tl.arange(0, N)
    to.scatter(from_.gather(63 - at, 16) * 2, at * 2, 0)


def rows_moved():
    x, want = numbers(64, 32), np.zeros((64, 32), np.float32)
    want[np.arange(24) * 2, :16] = x[63 - np.arange(24), 16:] * 2
    return _rows_moved, (x, np.zeros((64, 32), np.float32)), dict(N=24), want


@mimw.jit
def _offsets(x, y, N: tl.constexpr):
    """Where each of N lists of so many elements begins, and how many there are."""
    at = tl.arange(0, N)
    before, total = tle.cumsum(tl.load(x + at))
    tl.store(y + at, before)
    tl.store(y + N, total)
    behind, _ = tle.cumsum(tl.load(x + at).to(tl.float32), reverse=True)
    tl.store(y + N + 1 + at, behind.to(tl.int32))


def offsets():
    x = np.random.default_rng(0).integers(0, 9, 44).astype(np.int32)
    ends = np.cumsum(x)
    return _offsets, (x, np.zeros(89, np.int32)), dict(N=44), np.concatenate([ends - x, ends[-1:], ends[-1] - ends])


CASES = {case.__name__.rstrip("_"): case for case in (
    recurrence, sums_so_far, histogram, votes, dropout, drawn, rotary, joined, turned, distances, looked_up, sorted_, convolved,
    rows_moved, offsets)}
