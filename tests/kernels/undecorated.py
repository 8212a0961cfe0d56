"""Kernels without a word of ours, undecorated, so that both decorators can have them.

Shapes: rows of `columns` elements, BLOCK at a time, or (M, K) by (K, N). Each kernel is right.
"""

import triton
import triton.language as tl


def softmax(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
    values = tl.exp(values - tl.max(values, 0))
    tl.store(y + row * columns + at, values / tl.sum(values, 0), mask=at < columns)


def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        lhs = tl.load(a + m[:, None] * K + (start + k)[None, :], mask=(m < M)[:, None] & (start + k < K)[None, :], other=0.0)
        rhs = tl.load(b + (start + k)[:, None] * N + n[None, :], mask=(start + k < K)[:, None] & (n < N)[None, :], other=0.0)
        acc = tl.dot(lhs, rhs, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.float16), mask=(m < M)[:, None] & (n < N)[None, :])


def layer_norm(x, weight, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK, ), tl.float32)
    squares = tl.zeros((BLOCK, ), tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * columns + at, mask=at < columns, other=0.0)
        total += values
        squares += values * values
    mean = tl.sum(total, 0) / columns
    scale = tl.rsqrt(tl.sum(squares, 0) / columns - mean * mean + 1e-5)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        values = (tl.load(x + row * columns + at, mask=at < columns, other=0.0) - mean) * scale
        tl.store(y + row * columns + at, values * tl.load(weight + at, mask=at < columns), mask=at < columns)


@triton.jit
def linear(a0, b0, a1, b1):
    return a0 * a1, b0 * a1 + b1


def scan(a, b, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    _, state = tl.associative_scan((tl.load(a + at), tl.load(b + at)), 0, linear)
    tl.store(y + at, tl.cumsum(state, 0))


def atomics(x, sums, lock, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.atomic_add(sums + at % 8, tl.load(x + at), sem="relaxed")
    tl.atomic_xchg(lock, 0)


def descriptors(a, c, BM: tl.constexpr, BN: tl.constexpr):
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    c.store([row, column], (a.load([row, column]) * 2).to(tl.float16))


def device_descriptor(a, c, M, N, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(a, [M, N], [N, 1], [BM, BN])
    target = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    target.store([row, column], source.load([row, column]))


def histogram_and_sort(x, counts, ordered, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    values = tl.load(x + at)
    tl.store(counts + tl.arange(0, 32), tl.histogram(values, 32))
    tl.store(ordered + at, tl.sort(values))


def early_return(x, y, n):
    at = tl.program_id(0)
    if at >= n:
        return
    value = tl.load(x + at)
    if value < 0:
        tl.store(y + at, -value)
        return
    tl.store(y + at, value)


def while_loop(x, y):
    steps = 0
    value = tl.load(x + tl.program_id(0))
    while value > 1:
        value = value // 2 if value % 2 == 0 else 3 * value + 1
        steps += 1
    tl.store(y + tl.program_id(0), steps)


@triton.jit(noinline=True)
def polynomial(value, scale):
    return (value * scale + 1.0) * value


@triton.jit
def twice(value, scale):
    return polynomial(polynomial(value, scale), scale)


def noinline_helper(x, y, scale):
    value = tl.load(x)
    tl.store(y, twice(value, scale) + polynomial(value, 2.0))


def prints(x, y):
    value = tl.load(x)
    tl.device_assert(value > 0, "positive")
    tl.device_print("value", value)
    tl.store(y, value)


F32 = dict(x="*fp32", y="*fp32")
KERNELS = {
    "softmax": (softmax, dict(**F32, columns="i32"), dict(BLOCK=1024)),
    "matmul": (matmul, dict(a="*fp16", b="*fp16", c="*fp16", M="i32", N="i32", K="i32"), dict(BM=64, BN=128, BK=32)),
    "layer_norm": (layer_norm, dict(**F32, weight="*fp32", columns="i32"), dict(BLOCK=256)),
    "scan": (scan, dict(a="*fp32", b="*fp32", y="*fp32"), dict(BLOCK=512)),
    "atomics": (atomics, dict(x="*fp32", sums="*fp32", lock="*i32"), dict(BLOCK=256)),
    "descriptors": (descriptors, dict(a="tensordesc<fp32[64,32]>", c="tensordesc<fp16[64,32]>"), dict(BM=64, BN=32)),
    "device_descriptor": (device_descriptor, dict(a="*fp16", c="*fp16", M="i32", N="i32"), dict(BM=64, BN=64)),
    "histogram_and_sort": (histogram_and_sort, dict(x="*i32", counts="*i32", ordered="*i32"), dict(BLOCK=256)),
    "early_return": (early_return, dict(x="*i32", y="*i32", n="i32"), {}),
    "while_loop": (while_loop, dict(x="*i32", y="*i32"), {}),
    "noinline_helper": (noinline_helper, dict(**F32, scale="fp32"), {}),
    "prints": (prints, dict(x="*i32", y="*i32"), {}),
}
