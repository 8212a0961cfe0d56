"""Everyday kernels over rows: softmax, norms, losses, places of the largest, by tiles whose extents are no powers of two.

Shapes: see each case. Each kernel is right.

Input: nothing. Output: `CASES`; a case gives a kernel, its arguments, compile-time values and what the last array becomes. For
example:

    kernel, args, meta, want, result = arguments(CASES["softmax"])      mimw.simulate(kernel, (1, ), *args, **meta)
"""

import ml_dtypes
import numpy as np
import triton
import triton.language as tl
from triton.language.extra import libdevice

import mimw
from tests.kernels.odd_extents import numbers


@mimw.jit
def _softmax(x, y, rows, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)
    places = at[:, None] * N + tl.arange(0, N)
    tile = tl.load(x + places, mask=at[:, None] < rows, other=0.0).to(tl.float32)
    tl.store(y + places, tl.softmax(tile, dim=1), mask=at[:, None] < rows)


def softmax():
    x = numbers(5, 176)
    power = np.exp(x - x.max(1, keepdims=True))
    return _softmax, (x, np.zeros((5, 176), np.float32), 5), dict(M=6, N=176), power / power.sum(1, keepdims=True)


@mimw.jit
def _layer_norm(x, weight, bias, y, n, eps, N: tl.constexpr):
    columns = tl.arange(0, N)
    inside = columns < n
    row = tl.load(x + tl.program_id(0) * n + columns, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(row, axis=0) / n
    centred = tl.where(inside, row - mean, 0.0)
    rstd = tl.rsqrt(tl.sum(centred * centred, axis=0) / n + eps)
    w, b = tl.load(weight + columns, mask=inside), tl.load(bias + columns, mask=inside)
    tl.store(y + tl.program_id(0) * n + columns, centred * rstd * w + b, mask=inside)


def layer_norm():
    x, w, b = numbers(1, 310), numbers(310, seed=1), numbers(310, seed=2)
    want = (x - x.mean(1)) / np.sqrt(x.var(1) + 1e-5) * w + b
    return _layer_norm, (x, w, b, np.zeros((1, 310), np.float32), 310, 1e-5), dict(N=320), want


@mimw.jit
def _rms_norm(x, weight, y, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tile = tl.load(x + at).to(tl.float32)
    scale = 1 / tl.sqrt(tl.sum(tile * tile, 1, keep_dims=True) / N + 1e-6)
    tl.store(y + at, (tile * scale * tl.load(weight + tl.arange(0, N))[None, :]).to(y.dtype.element_ty))


def rms_norm():
    x, w = numbers(7, 96).astype(ml_dtypes.bfloat16), numbers(96, seed=1)
    wide = x.astype(np.float32)
    want = wide / np.sqrt((wide * wide).mean(1, keepdims=True) + 1e-6) * w
    return _rms_norm, (x, w, np.zeros((7, 96), np.float16)), dict(M=7, N=96), want


@mimw.jit
def _cross_entropy(logits, labels, y, M: tl.constexpr, V: tl.constexpr):
    rows, columns = tl.arange(0, M), tl.arange(0, V)
    tile = tl.load(logits + rows[:, None] * V + columns[None, :])
    label = tl.load(labels + rows)
    top = tl.max(tile, 1)
    total = tl.log(tl.sum(tl.exp(tile - top[:, None]), 1)) + top
    chosen = tl.sum(tl.where(columns[None, :] == label[:, None], tile, 0.0), 1)
    tl.store(y + rows, total - chosen)


def cross_entropy():
    x, labels = numbers(12, 100), np.random.default_rng(1).integers(0, 100, 12).astype(np.int64)
    want = np.log(np.exp(x).sum(1)) - x[np.arange(12), labels]
    return _cross_entropy, (x, labels, np.zeros(12, np.float32)), dict(M=12, V=100), want


@mimw.jit
def _largest(x, y, M: tl.constexpr, N: tl.constexpr):
    rows = tl.arange(0, M)
    tile = tl.load(x + rows[:, None] * N + tl.arange(0, N)[None, :])
    value, place = tl.max(tile, 1, return_indices=True)
    least, at = tl.min(tile, 1, return_indices=True, keep_dims=True, return_indices_tie_break_left=False)
    tl.store(y + rows, value)
    tl.store(y + M + rows, place.to(tl.float32))
    tl.store(y + 2 * M + rows[:, None], least)
    tl.store(y + 3 * M + rows[:, None], at.to(tl.float32))


def largest():
    """All numbers are negative, so that an idle zero would win."""
    x = -np.abs(numbers(5, 48)) - 1
    want = np.concatenate([x.max(1), x.argmax(1), x.min(1), x.argmin(1)])
    return _largest, (x, np.zeros(20, np.float32)), dict(M=5, N=48), want


@mimw.jit
def _largest_of_all(x, y, M: tl.constexpr, N: tl.constexpr):
    tile = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    tl.store(y, tl.argmax(tl.reshape(tile, [M * N]), 0))
    tl.store(y + 1, tl.argmin(tl.ravel(tile), 0))


def largest_of_all():
    x = -np.abs(numbers(6, 20))
    return _largest_of_all, (x, np.zeros(2, np.int32)), dict(M=6, N=20), np.array([x.argmax(), x.argmin()])


@mimw.jit
def _in_blocks(x, y, n, BLOCK: tl.constexpr):
    """A softmax of a row that comes by blocks: the largest and the sum travel along."""
    top, total = tl.full((BLOCK, ), float("-inf"), tl.float32), tl.zeros((BLOCK, ), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tile = tl.load(x + at, mask=at < n, other=float("-inf"))
        new = tl.maximum(top, tile)
        shift = tl.where(new == float("-inf"), 0.0, new)
        total = total * tl.exp(top - shift) + tl.exp(tile - shift)
        top = new
    most = tl.max(top, 0)
    total = tl.sum(total * tl.exp(top - most), 0)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tile = tl.load(x + at, mask=at < n)
        tl.store(y + at, tl.exp(tile - most) / total, mask=at < n)


def in_blocks():
    x = numbers(1, 210)
    power = np.exp(x - x.max())
    return _in_blocks, (x, np.zeros((1, 210), np.float32), 210), dict(BLOCK=80), power / power.sum()


@mimw.jit
def _log_add(m, s, m_2, s_2):
    most = tl.maximum(m, m_2)
    return most, s * tl.exp(m - most) + s_2 * tl.exp(m_2 - most)


@mimw.jit
def _log_sum_exp(x, y, M: tl.constexpr, N: tl.constexpr):
    rows = tl.arange(0, M)
    tile = tl.load(x + rows[:, None] * N + tl.arange(0, N)[None, :])
    most, total = tl.reduce((tile, tl.full((M, N), 1.0, tl.float32)), 1, _log_add, keep_dims=True)
    tl.store(y + rows[:, None], most + tl.log(total))


def log_sum_exp():
    x = numbers(3, 24)
    return _log_sum_exp, (x, np.zeros(3, np.float32)), dict(M=3, N=24), np.log(np.exp(x).sum(1))


@mimw.jit
def _statistics(x, y, M: tl.constexpr, N: tl.constexpr):
    """Mean, any, all, how many, the product and the sum of int8 as int32."""
    rows = tl.arange(0, M)
    tile = tl.load(x + rows[:, None] * N + tl.arange(0, N)[None, :])
    tl.store(y + rows, tl.sum(tile, 1, dtype=tl.int32))
    tl.store(y + M + rows, tl.reduce_or(tile > 2, 1).to(tl.int32))
    tl.store(y + 2 * M + rows, tl.min((tile > -3).to(tl.int32), 1))
    tl.store(y + 3 * M + rows, tl.sum((tile == 1).to(tl.int32), 1))
    tl.store(y + 4 * M + rows, tl.xor_sum(tile.to(tl.int32), 1))


def statistics():
    x = np.random.default_rng(3).integers(-3, 4, (6, 11)).astype(np.int8)
    want = [x.sum(1), (x > 2).any(1), (x > -3).all(1), (x == 1).sum(1), np.bitwise_xor.reduce(x.astype(np.int32), 1)]
    return _statistics, (x, np.zeros(30, np.int32)), dict(M=6, N=11), np.concatenate(want)


@mimw.jit
def _quantised(x, q, N: tl.constexpr, G: tl.constexpr):
    """int8 with one scale for each group of G numbers."""
    at = tl.arange(0, N)
    groups = tl.reshape(tl.load(x + at), (N // G, G))
    scale = tl.max(tl.abs(groups), 1) / 127
    whole = libdevice.rint(groups / scale[:, None]).to(tl.int8)
    tl.store(q + at, tl.reshape(whole, (N, )))


def quantised():
    x = numbers(176)
    scale = np.abs(x.reshape(11, 16)).max(1) / np.float32(127)
    return _quantised, (x, np.zeros(176, np.int8)), dict(N=176, G=16), np.rint(x.reshape(11, 16) / scale[:, None]).ravel()


@mimw.jit
def _by_groups(x, y, M: tl.constexpr, N: tl.constexpr, G: tl.constexpr):
    """Each group of G columns over its largest number."""
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    groups = tl.reshape(tl.load(x + at), (M, N // G, G))
    tl.store(y + at, tl.reshape(groups / tl.max(tl.abs(groups), 2, keep_dims=True), (M, N)))


def by_groups():
    x = numbers(6, 48)
    groups = x.reshape(6, 3, 16)
    return _by_groups, (x, np.zeros((6, 48), np.float32)), dict(M=6, N=48, G=16), groups / np.abs(groups).max(2, keepdims=True)


@mimw.jit
def _by_odd_groups(x, y, N: tl.constexpr, G: tl.constexpr):
    groups = tl.reshape(tl.load(x + tl.arange(0, N)), (N // G, G))
    tl.store(y + tl.arange(0, N // G), tl.sum(groups, 1))


def by_odd_groups():
    x = numbers(36)
    return _by_odd_groups, (x, np.zeros(6, np.float32)), dict(N=36, G=6), x.reshape(6, 6).sum(1)


@mimw.jit
def _made_flat(x, y, M: tl.constexpr, N: tl.constexpr):
    tile = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    tl.store(y + tl.arange(0, M * N), tl.cumsum(tl.ravel(tile), 0))


def made_flat():
    x = numbers(5, 12)
    return _made_flat, (x, np.zeros(60, np.float32)), dict(M=5, N=12), np.cumsum(x)


@mimw.jit
def _clipped(x, y, n, N: tl.constexpr):
    """Gradients scaled to a norm of at most 1, the sum of squares in float64."""
    at = tl.arange(0, N)
    tile = tl.load(x + at, mask=at < n, other=0)
    norm = tl.sqrt(tl.sum(tile.to(tl.float64) * tile, 0)).to(tl.float32)
    tl.store(y + at, tile * tl.minimum(1.0, 1.0 / norm), mask=at < n)


def clipped():
    x = numbers(70)
    return _clipped, (x, np.zeros(70, np.float32), 70), dict(N=72), x / np.linalg.norm(x)


@triton.jit
def _moments(tile, axis: tl.constexpr):
    mean = tl.sum(tile, axis, keep_dims=True) / tile.shape[axis]
    return mean, tl.sum((tile - mean) * (tile - mean), axis, keep_dims=True) / tile.shape[axis]


@mimw.jit
def _group_norm(x, y, C: tl.constexpr, P: tl.constexpr):
    """Over channels and pixels of a group, by a helper of Triton's that asks for an extent."""
    at = tl.arange(0, C)[:, None] * P + tl.arange(0, P)[None, :]
    tile = tl.load(x + at)
    mean, _ = _moments(tile, 1)
    centre, spread = _moments(tl.sum(tile, 1), 0)
    tl.store(y + at, (tile - mean) * tl.rsqrt(spread + centre * centre))


def group_norm():
    x = numbers(3, 49)
    sums = x.sum(1)
    want = (x - x.mean(1, keepdims=True)) / np.sqrt(sums.var() + sums.mean()**2)
    return _group_norm, (x, np.zeros((3, 49), np.float32)), dict(C=3, P=49), want


CASES = {case.__name__: case for case in (
    softmax, layer_norm, rms_norm, cross_entropy, largest, largest_of_all, in_blocks, log_sum_exp, statistics, quantised, by_groups,
    by_odd_groups, made_flat, clipped, group_norm)}
