"""What `tl` offers, in kernels that take our path: each case is a kernel with a word, its inputs and a numpy reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import triton
import triton.language as tl
from triton.language.extra import libdevice

import mimw
import mimw.tlx as tlx

RNG = np.random.default_rng(7)


@dataclass(frozen=True)
class Case:
    """One kernel of `tl` on our path. Arrays that the kernel writes come last and are compared with `reference(*inputs)`."""

    kernel: object
    inputs: tuple
    reference: Callable
    meta: dict = field(default_factory=dict)
    tolerance: float = 0.0
    outputs: tuple | None = None

    def arguments(self):
        """Copies of the inputs, then an output array for each array of the reference, filled with -1."""
        expected = self.expected()
        inputs = tuple(value.copy() if isinstance(value, np.ndarray) else value for value in self.inputs)
        return inputs, tuple(np.full_like(array, -1) for array in expected)

    def expected(self):
        result = self.reference(*self.inputs)
        return result if isinstance(result, tuple) else (result, )


CASES: dict[str, Case] = {}


def case(*inputs, reference, tolerance=0.0, name="", **meta):
    """Add the decorated function as a kernel of `mimw.jit`."""

    def register(function):
        kernel = mimw.jit(function)
        CASES[name or function.__name__] = Case(kernel, inputs, reference, meta, tolerance)
        return kernel

    return register


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def ints(*shape, low=-1000, high=1000):
    return RNG.integers(low, high, shape).astype(np.int32)


# ---- reductions, scans, sorting ---------------------------------------------------------------------------------------

@case(floats(256), reference=lambda x: np.cumsum(x, dtype=np.float32), tolerance=1e-4)
def cumsum(x, y):
    tlx.fence("gpu")
    at = tl.arange(0, 256)
    tl.store(y + at, tl.cumsum(tl.load(x + at), 0))


@case(ints(16, 32), reference=lambda x: np.cumsum(x[:, ::-1], axis=1, dtype=np.int32)[:, ::-1].copy())
def cumsum_reverse(x, y):
    tlx.fence("gpu")
    at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
    tl.store(y + at, tl.cumsum(tl.load(x + at), 1, reverse=True))


@case(ints(64, low=1, high=3), reference=lambda x: np.cumprod(x % 2 * 2 - 1, dtype=np.int32))
def cumprod(x, y):
    tlx.fence("gpu")
    at = tl.arange(0, 64)
    tl.store(y + at, tl.cumprod(tl.load(x + at) % 2 * 2 - 1, 0))


@case(floats(8, 64), reference=lambda x: (np.argmax(x, 1).astype(np.int32), np.argmin(x, 1).astype(np.int32), x.max(1)))
def argmax(x, high, low, value):
    tlx.fence("gpu")
    rows, cols = tl.arange(0, 8), tl.arange(0, 64)
    tile = tl.load(x + rows[:, None] * 64 + cols[None, :])
    best, where = tl.max(tile, 1, return_indices=True)
    tl.store(high + rows, where)
    tl.store(low + rows, tl.argmin(tile, 1))
    tl.store(value + rows, best)


@case(ints(32, 16), reference=lambda x: (x.sum(0, dtype=np.int32), x.max(1), np.bitwise_xor.reduce(x.ravel(), keepdims=True)))
def reductions(x, columns, rows, everything):
    tlx.fence("gpu")
    i, j = tl.arange(0, 32), tl.arange(0, 16)
    tile = tl.load(x + i[:, None] * 16 + j[None, :])
    tl.store(columns + j, tl.sum(tile, 0))
    tl.store(rows + i, tl.max(tile, 1))
    tl.store(everything, tl.xor_sum(tl.xor_sum(tile, 1), 0))


@tl.core._aggregate
class Moments:
    mean: tl.tensor
    spread: tl.tensor

    @triton.constexpr_function
    def __init__(self, mean, spread):
        self.mean = mean
        self.spread = spread


@triton.jit
def welford(count_a, mean_a, m2_a, count_b, mean_b, m2_b):
    count = count_a + count_b
    delta = mean_b - mean_a
    share = count_b / count
    return count, mean_a + delta * share, m2_a + m2_b + delta * delta * count_a * share


@mimw.jit
def moments(tile):
    _, mean, m2 = tl.reduce((tl.full([8, 64], 1.0, tl.float32), tile, tl.zeros([8, 64], tl.float32)), 1, welford)
    return Moments(mean, m2 / 64)


@case(floats(8, 64), reference=lambda x: (x.mean(1), x.var(1)), tolerance=1e-5)
def reduce_tuple_of_values(x, mean, variance):
    tlx.fence("gpu")
    rows, cols = tl.arange(0, 8), tl.arange(0, 64)
    found = moments(tl.load(x + rows[:, None] * 64 + cols[None, :]))
    tl.store(mean + rows, found.mean)
    tl.store(variance + rows, found.spread)


@triton.jit
def linear(a0, b0, a1, b1):
    return a0 * a1, b0 * a1 + b1


def recurrence(a, b):
    state, out = 0.0, []
    for factor, term in zip(a.astype(np.float64), b.astype(np.float64)):
        state = state * factor + term
        out.append(state)
    return np.array(out, np.float32)


@case(floats(128) * 0.1, floats(128), reference=recurrence, tolerance=1e-4)
def associative_scan(a, b, y):
    tlx.fence("gpu")
    at = tl.arange(0, 128)
    _, state = tl.associative_scan((tl.load(a + at), tl.load(b + at)), 0, linear)
    tl.store(y + at, state)


@case(ints(4, 16), reference=lambda x: (np.sort(x, 1), np.sort(x, 1)[:, ::-1].copy()))
def sort(x, up, down):
    tlx.fence("gpu")
    at = tl.arange(0, 4)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tile = tl.load(x + at)
    tl.store(up + at, tl.sort(tile))
    tl.store(down + at, tl.sort(tile, descending=True))


@case(ints(32), reference=lambda x: np.sort(x)[::-1][:4].copy())
def topk(x, y):
    tlx.fence("gpu")
    tl.store(y + tl.arange(0, 4), tl.topk(tl.load(x + tl.arange(0, 32)), 4))


@case(ints(64), reference=lambda x: x[::-1].copy())
def flip(x, y):
    tlx.fence("gpu")
    at = tl.arange(0, 64)
    tl.store(y + at, tl.flip(tl.load(x + at), 0))


@case(ints(512, low=0, high=32), reference=lambda x: (np.bincount(x, minlength=32).astype(np.int32),
                                                      np.bincount(x[:100], minlength=32).astype(np.int32)))
def histogram(x, y, z):
    tlx.fence("gpu")
    at = tl.arange(0, 512)
    bins = tl.arange(0, 32)
    tl.store(y + bins, tl.histogram(tl.load(x + at), 32))
    tl.store(z + bins, tl.histogram(tl.load(x + at), 32, mask=at < 100))


@case(floats(16, 32), ints(16, 8, low=0, high=32), reference=lambda x, i: np.take_along_axis(x, i, 1))
def gather(x, index, y):
    tlx.fence("gpu")
    rows = tl.arange(0, 16)[:, None]
    tile = tl.load(x + rows * 32 + tl.arange(0, 32)[None, :])
    at = rows * 8 + tl.arange(0, 8)[None, :]
    tl.store(y + at, tl.gather(tile, tl.load(index + at), 1))


# ---- shapes -----------------------------------------------------------------------------------------------------------

@case(ints(16, 32), reference=lambda x: (x.reshape(2, 8, 32).transpose(1, 2, 0).ravel(), x.T.copy().ravel(), x.ravel()))
def reshape_permute_trans(x, y, z, w):
    tlx.fence("gpu")
    tile = tl.load(x + tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :])
    at = tl.arange(0, 512)
    tl.store(y + at, tile.reshape(2, 8, 32).permute(1, 2, 0).reshape(512))
    tl.store(z + at, tl.ravel(tl.permute(tl.trans(tl.trans(tile)), (1, 0))))
    tl.store(w + at, tl.view(tile, [512]))


@case(ints(64), ints(64), reference=lambda a, b: (np.stack([a, b], 1), a, b, np.stack([a, b], 1).ravel()))
def join_split_interleave(a, b, both, left, right, mixed):
    tlx.fence("gpu")
    at = tl.arange(0, 64)
    pair = tl.join(tl.load(a + at), tl.load(b + at))
    tl.store(both + at[:, None] * 2 + tl.arange(0, 2)[None, :], pair)
    first, second = tl.split(pair)
    tl.store(left + at, first)
    tl.store(right + at, second)
    tl.store(mixed + tl.arange(0, 128), tl.interleave(first, second))


@case(ints(64), ints(64), reference=lambda a, b: (np.concatenate([a, b]), np.concatenate([b, a])))
def cat(a, b, ordered, swapped):
    tlx.fence("gpu")
    at = tl.arange(0, 64)
    x, y = tl.load(a + at), tl.load(b + at)
    tl.store(ordered + tl.arange(0, 128), tl.trans(tl.join(x, y)).reshape(128))
    tl.store(swapped + tl.arange(0, 128), tl.cat(y, x, can_reorder=True))


@case(ints(16), reference=lambda x: (np.broadcast_to(x[:, None], (16, 8)).copy(), np.where(x > 0, x, -x * 2)))
def broadcast_where(x, y, z):
    tlx.fence("gpu")
    i, j = tl.arange(0, 16), tl.arange(0, 8)
    row = tl.load(x + i)
    tl.store(y + i[:, None] * 8 + j[None, :], tl.broadcast_to(tl.expand_dims(row, 1), [16, 8]))
    tl.store(z + i, tl.where(row > 0, row, -row * 2))


# ---- element by element -----------------------------------------------------------------------------------------------

@triton.jit
def collatz(n, steps):
    while n > 1 and steps < 20:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return n, steps


def collatz_reference(x):
    ends, counts = [], []
    for n in x.tolist():
        steps = 0
        while n > 1 and steps < 20:
            n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
        ends.append(n)
        counts.append(steps)
    return np.array(ends, np.int32), np.array(counts, np.int32)


@triton.jit
def quotient(a, b):
    return a * 2 + b


@case(ints(128), ints(128), reference=lambda a, b: a * 2 + b)
def map_elementwise(x, z, y):
    tlx.fence("gpu")
    at = tl.arange(0, 128)
    tl.store(y + at, tl.map_elementwise(quotient, tl.load(x + at), tl.load(z + at)))


@case(ints(128, low=1, high=200), reference=collatz_reference)
def map_elementwise_control_flow(x, y, z):
    tlx.fence("gpu")
    at = tl.arange(0, 128)
    n = tl.load(x + at)
    ends, counts = tl.map_elementwise(collatz, n, tl.zeros_like(n))
    tl.store(y + at, ends)
    tl.store(z + at, counts)


@case(np.abs(floats(128)) + 0.5, tolerance=1e-5, reference=lambda x: (
    np.tanh(x), np.power(x, np.float32(1.5)), np.exp2(x) + np.log(x), 1 / np.sqrt(x)))
def libdevice_and_math(x, y, z, u, v):
    tlx.fence("gpu")
    at = tl.arange(0, 128)
    value = tl.load(x + at)
    tl.store(y + at, libdevice.tanh(value))
    tl.store(z + at, libdevice.pow(value, 1.5))
    tl.store(u + at, tl.exp2(value) + tl.log(value))
    tl.store(v + at, tl.rsqrt(value))


@case(floats(128), reference=lambda x: (x.astype(np.float16).astype(np.float32), x.astype(np.int32),
                                        x.view(np.int32), np.clip(x, -0.5, 0.5)))
def casts(x, y, z, w, clamped):
    tlx.fence("gpu")
    at = tl.arange(0, 128)
    value = tl.load(x + at)
    tl.store(y + at, value.to(tl.float16).to(tl.float32))
    tl.store(z + at, value.to(tl.int32))
    tl.store(w + at, value.to(tl.int32, bitcast=True))
    tl.store(clamped + at, tl.clamp(value, -0.5, 0.5))


@case(ints(64), ints(64, low=1, high=50), reference=lambda a, b: (
    (np.sign(a) * (np.abs(a) // b)).astype(np.int32), np.fmod(a, b), a & b, a >> 3, np.maximum(a, b), -(-b // 7)))
def integers(x, z, quotients, remainders, ands, shifts, maxima, ceilings):
    tlx.fence("gpu")
    at = tl.arange(0, 64)
    a, b = tl.load(x + at), tl.load(z + at)
    tl.store(quotients + at, a // b)
    tl.store(remainders + at, a % b)
    tl.store(ands + at, a & b)
    tl.store(shifts + at, a >> 3)
    tl.store(maxima + at, tl.maximum(a, b))
    tl.store(ceilings + at, tl.cdiv(b, 7))


@case(reference=lambda: (lambda u: u)(np.zeros(1, np.int32)))
def random_is_reproducible(y):
    tlx.fence("gpu")
    at = tl.arange(0, 128)
    first, second = tl.rand(3, at), tl.rand(3, at)
    inside = (first >= 0) & (first < 1) & (first == second)
    tl.store(y, tl.sum(1 - inside.to(tl.int32), 0))


# ---- products ---------------------------------------------------------------------------------------------------------

@case(floats(32, 64).astype(np.float16), floats(64, 32).astype(np.float16), tolerance=1e-3,
      reference=lambda a, b: a.astype(np.float32) @ b.astype(np.float32))
def dot(a, b, c):
    tlx.fence("gpu")
    m, n, k = tl.arange(0, 32), tl.arange(0, 32), tl.arange(0, 64)
    lhs = tl.load(a + m[:, None] * 64 + k[None, :])
    rhs = tl.load(b + k[:, None] * 32 + n[None, :])
    tl.store(c + m[:, None] * 32 + n[None, :], tl.dot(lhs, rhs))


@case(floats(64, 128).astype(np.float16), floats(128, 64).astype(np.float16), tolerance=1e-3,
      reference=lambda a, b: a.astype(np.float32) @ b.astype(np.float32))
def dot_in_a_loop(a, b, c):
    tlx.fence("gpu")
    m, n, k = tl.arange(0, 64), tl.arange(0, 64), tl.arange(0, 32)
    acc = tl.zeros((64, 64), tl.float32)
    for start in tl.range(0, 128, 32, num_stages=3):
        lhs = tl.load(a + m[:, None] * 128 + (start + k)[None, :])
        rhs = tl.load(b + (start + k)[:, None] * 64 + n[None, :])
        acc = tl.dot(lhs, rhs, acc)
    tl.store(c + m[:, None] * 64 + n[None, :], acc)


@case(ints(32, 32, low=-9, high=9).astype(np.int8), ints(32, 32, low=-9, high=9).astype(np.int8),
      reference=lambda a, b: a.astype(np.int32) @ b.astype(np.int32))
def dot_of_bytes(a, b, c):
    tlx.fence("gpu")
    i, j = tl.arange(0, 32)[:, None], tl.arange(0, 32)[None, :]
    tl.store(c + i * 32 + j, tl.dot(tl.load(a + i * 32 + j), tl.load(b + i * 32 + j)))


@case(floats(2, 4, 16), floats(2, 16, 4), reference=lambda a, b: a @ b, tolerance=1e-5)
def dot_of_a_batch(a, b, c):
    tlx.fence("gpu")
    i, j, k = tl.arange(0, 2)[:, None, None], tl.arange(0, 4), tl.arange(0, 16)
    left, right = i * 64 + j[None, :, None] * 16 + k[None, None, :], i * 64 + k[None, :, None] * 4 + j[None, None, :]
    product = tl.dot(tl.load(a + left), tl.load(b + right), input_precision="ieee")
    tl.store(c + i * 16 + j[None, :, None] * 4 + j[None, None, :], product)


def e2m1(packed):
    values = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6], np.float32)
    return np.stack([values[packed & 15], values[packed >> 4]], -1).reshape(packed.shape[0], -1)


@case(RNG.integers(0, 256, (64, 32)).astype(np.uint8), RNG.integers(124, 130, (64, 2)).astype(np.uint8),
      floats(64, 16).astype(np.float16), tolerance=2e-2,
      reference=lambda a, s, b: (e2m1(a) * np.repeat(2.0 ** (s.astype(np.float32) - 127), 32, 1)).astype(np.float32)
      @ b.astype(np.float32))
def dot_scaled(a, scale, b, c):
    tlx.fence("gpu")
    m, n = tl.arange(0, 64), tl.arange(0, 16)
    lhs = tl.load(a + m[:, None] * 32 + tl.arange(0, 32)[None, :])
    factors = tl.load(scale + m[:, None] * 2 + tl.arange(0, 2)[None, :])
    rhs = tl.load(b + tl.arange(0, 64)[:, None] * 16 + n[None, :])
    tl.store(c + m[:, None] * 16 + n[None, :], tl.dot_scaled(lhs, factors, "e2m1", rhs, None, "fp16"))


# ---- memory -----------------------------------------------------------------------------------------------------------

@case(ints(64), ints(64, low=0, high=8), reference=lambda x, k: (
    np.bincount(k, weights=x, minlength=8).astype(np.int32) - 1, np.array([max(-1, x.max())], np.int32)))
def atomics(x, keys, sums, largest):
    tlx.fence("gpu")
    at = tl.arange(0, 64)
    value = tl.load(x + at)
    tl.atomic_add(sums + tl.load(keys + at), value, sem="relaxed", scope="gpu")
    tl.atomic_max(largest + tl.zeros_like(at), value)


@case(reference=lambda: (np.array([7], np.int32), np.array([5], np.int32), np.array([-1], np.int32)))
def atomic_swaps(swapped, exchanged, old):
    tlx.fence("gpu")
    tl.store(old, tl.atomic_cas(swapped, -1, 7))
    tl.atomic_xchg(exchanged, 5)


@case(floats(100), reference=lambda x: np.concatenate([x, np.full(28, 2.5, np.float32)]))
def masked(x, y):
    tlx.fence("gpu")
    at = tl.arange(0, 128)
    value = tl.load(x + at, mask=at < 100, other=2.5, eviction_policy="evict_first")
    tl.store(y + at, value, mask=at < 128, cache_modifier=".cs")


@case(mimw.TensorDescriptor.from_tensor(np.arange(64 * 64, dtype=np.float32).reshape(64, 64), [32, 32]),
      reference=lambda d: (d.base.array[32:, 32:] + 1, d.base.array[:32, :32].T.copy()))
def descriptors(source, y, z):
    tlx.fence("gpu")
    i, j = tl.arange(0, 32)[:, None], tl.arange(0, 32)[None, :]
    tl.store(y + i * 32 + j, source.load([32, 32]) + 1)
    tl.store(z + i * 32 + j, source.load([0, 0]).T)


@case(floats(256), 64, reference=lambda x, n: x.reshape(4, 64)[::2].ravel().copy())
def hints(x, n, y):
    tlx.fence("gpu")
    stride = tl.multiple_of(n, 64) * 2
    at = tl.max_contiguous(tl.multiple_of(tl.arange(0, 64), [64]), [64])
    for row in range(2):
        tl.store(y + row * 64 + at, tl.load(x + row * stride + tl.max_constancy(at, [1])))


# ---- control flow -----------------------------------------------------------------------------------------------------

@case(ints(8, 64), reference=lambda x: (x * np.arange(1, 9)[:, None]).sum(0, dtype=np.int32))
def static_range(x, y):
    tlx.fence("gpu")
    at = tl.arange(0, 64)
    total = tl.zeros((64, ), tl.int32)
    for row in tl.static_range(8):
        total += tl.load(x + row * 64 + at) * (row + 1)
    tl.store(y + at, total)


@case(ints(64), reference=lambda x: np.array([x[x > 0].sum(), x[:10].sum()], np.int32))
def nested_control_flow(x, y):
    tlx.fence("gpu")
    positive = 0
    first = 0
    i = 0
    while i < 64:
        value = tl.load(x + i)
        if value > 0:
            positive += value
        if i < 10:
            for _ in range(1):
                first += value
        i += 1
    tl.store(y, positive)
    tl.store(y + 1, first)


@mimw.jit
def clipped(value, low: tl.constexpr):
    if low is None:
        return value
    return tl.maximum(value, low)


@case(ints(64), reference=lambda x: np.maximum(x, 3) + x)
def helper_with_returns(x, y):
    tlx.fence("gpu")
    at = tl.arange(0, 64)
    value = tl.load(x + at)
    tl.store(y + at, clipped(value, 3) + clipped(value, None))


@triton.jit
def sign(value):
    if value > 0:
        return 1
    elif value < 0:
        return -1
    return 0


@case(ints(1), reference=lambda x: np.sign(x))
def scalar_returns(x, y):
    tlx.fence("gpu")
    tl.store(y, sign(tl.load(x)))


@case(ints(64), reference=lambda x: np.full(64, 7, np.int32))
def early_return(x, y):
    tlx.fence("gpu")
    at = tl.arange(0, 64)
    tl.store(y + at, 7)
    if tl.program_id(0) == 0:
        return
    tl.store(y + at, tl.load(x + at))


@case(np.arange(8, dtype=np.int32), reference=lambda x: np.array([0, 0, 1, 2, 3, 4, 5, 6], np.int32))
def previous(x, y):
    """The bug of stock Triton: `prev` and `it` hold one value when the loop begins."""
    tlx.fence("gpu")
    it = tl.load(x)
    prev = it
    for i in range(8):
        tl.store(y + i, prev)
        prev = it
        it += 1


@case(ints(64), reference=lambda x: x + 1)
def prints_and_assertions(x, y):
    tlx.fence("gpu")
    at = tl.arange(0, 64)
    value = tl.load(x + at)
    tl.static_print("tile of", value.shape[0])
    tl.static_assert(value.shape[0] == 64)
    tl.device_assert(value < 1000, "inputs are small")
    tl.assume(tl.num_programs(0) == 1)
    if tl.program_id(0) == 1:
        tl.device_print("never", value)
    tl.debug_barrier()
    tl.store(y + at, value + 1)
