"""Everyday kernels of elements: activations, optimisers, bits, assertions, assembly, branches, by tiles whose extents are no powers
of two.

Shapes: see each case. Each kernel is right.

Input: nothing. Output: `CASES`; a case gives a kernel, its arguments, compile-time values and what the last array becomes. For
example:

    kernel, args, meta, want, result = arguments(CASES["gelu"])         mimw.simulate(kernel, (1, ), *args, **meta)
"""

import ml_dtypes
import numpy as np
import triton
import triton.language as tl
from triton.language.extra import libdevice

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from tests.kernels.odd_extents import numbers


@mimw.jit
def _gelu(x, gate, y, n, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    a, b = tl.load(x + at, mask=at < n), tl.load(gate + at, mask=at < n)
    out = 0.5 * a * (1 + libdevice.tanh(0.7978845608 * (a + 0.044715 * a * a * a))) * b + tl.erf(b)
    tl.store(y + at, out, mask=at < n)


def gelu():
    x, gate = numbers(90), numbers(90, seed=1)
    from math import erf
    want = 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3))) * gate + np.array([erf(one) for one in gate])
    return _gelu, (x, gate, np.zeros(90, np.float32), 90), dict(N=96), want


@mimw.jit
def _adam(p, g, m, v, out, lr, N: tl.constexpr):
    at = tl.arange(0, N)
    grad = tl.load(g + at).to(tl.float32)
    m_new = tl.load(m + at) * 0.9 + grad * 0.1
    v_new = tl.fma(grad, grad * 0.01, tl.load(v + at) * 0.99)
    step = tl.fdiv(m_new, tl.sqrt(v_new) + 1e-8)
    tl.store(out + at, tl.clamp(tl.load(p + at) - lr * step, -2.0, 2.0))


def adam():
    p, m, v = numbers(50), numbers(50, seed=1), np.abs(numbers(50, seed=2))
    g = numbers(50, seed=3).astype(ml_dtypes.bfloat16)
    grad = g.astype(np.float32)
    want = np.clip(p - 0.1 * (m * 0.9 + grad * 0.1) / (np.sqrt(v * 0.99 + grad * grad * 0.01) + 1e-8), -2, 2)
    return _adam, (p, g, m, v, np.zeros(50, np.float32), 0.1), dict(N=50), want


@mimw.jit
def _bits(x, y, N: tl.constexpr):
    """The exponent of fp32 by its bits, a hash by umulhi, and shifts."""
    at = tl.arange(0, N)
    bits = tl.load(x + at).to(tl.uint32, bitcast=True)
    power = ((bits >> 23) & 255).to(tl.int32) - 127
    mixed = tl.umulhi(bits, at.to(tl.uint32) * 0x9E3779B9) & 255
    tl.store(y + at, power * 256 + mixed.to(tl.int32))


def bits():
    x = numbers(44)
    raw = x.view(np.uint32).astype(np.uint64)
    mixed = (raw * (np.arange(44, dtype=np.uint64) * 0x9E3779B9 & 0xFFFFFFFF) >> np.uint64(32)).astype(np.int64) & 255
    return _bits, (x, np.zeros(44, np.int32)), dict(N=44), ((raw >> np.uint64(23)).astype(np.int64) % 256 - 127) * 256 + mixed


@mimw.jit
def _asserted(x, y, n, N: tl.constexpr):
    tl.static_assert(N % 8 == 0)
    tl.assume(n > 0)
    at = tl.multiple_of(tl.arange(0, N), 8)
    tile = tl.load(x + at, mask=at < n, other=1)
    tl.device_assert(tile > 0, "a number is not positive")
    tl.device_assert(n > 0)
    tl.store(y + at, tl.log2(tile), mask=at < n)


def asserted():
    x = np.abs(numbers(70)) + 1
    return _asserted, (x, np.zeros(70, np.float32), 70), dict(N=72), np.log2(x)


@mimw.jit
def _branches(x, y, mode, N: tl.constexpr):
    at = tl.arange(0, N)
    tile = tl.load(x + at)
    if mode == 0:
        tile = tile + 1
    elif mode == 1:
        tile = tl.where(tile > 0, tile, 0.0)
    else:
        for i in range(mode):
            tile = tile * 2 if i % 2 == 0 else tile - 1
    best = tl.sum(tile)
    while best > 10.0:
        tile = tile * 0.5
        best = tl.sum(tile)
    tl.store(y + at, tile)


def branches():
    x = numbers(40)
    want = (x * 2 - 1) * 2
    while want.sum() > 10:
        want = want * 0.5
    return _branches, (x, np.zeros(40, np.float32), 3), dict(N=40), want


@triton.jit
def _pair(x, y):
    return x + y, x - y


@mimw.jit
def _mapped(x, y, N: tl.constexpr):
    """A scalar function for each element; tuples in and out."""
    at = tl.arange(0, N)
    tile = tl.load(x + at)
    both = tl.map_elementwise(_picked, tile, at)
    plus, minus = _pair(both, tile)
    tl.store(y + at, plus * minus)


@triton.jit
def _picked(x, i):
    if i % 3 == 0:
        return -x
    return x * 2


def mapped():
    x = numbers(24)
    both = np.where(np.arange(24) % 3 == 0, -x, x * 2)
    return _mapped, (x, np.zeros(24, np.float32)), dict(N=24), (both + x) * (both - x)


@mimw.jit
def _assembly(x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    tile = tl.load(x + at)
    doubled = tl.inline_asm_elementwise("add.f32 $0, $1, $1;", "=f,f", [tile], dtype=tl.float32, is_pure=True, pack=1)
    tl.store(y + at, doubled)


def assembly():
    x = numbers(40)
    return _assembly, (x, np.zeros(40, np.float32)), dict(N=40), 2 * x


@mimw.jit
def _by_pairs(x, y, N: tl.constexpr):
    """Two halves in one register, as assembly for conversions has them; of fp8 four."""
    at = tl.arange(0, N)
    tile = tl.load(x + at)
    doubled = tl.inline_asm_elementwise("add.f16x2 $0, $1, $1;", "=r,r", [tile], dtype=tl.float16, is_pure=True, pack=2)
    tl.store(y + at, doubled.to(tl.float32))


def by_pairs():
    x = numbers(44, dtype=np.float16)
    return _by_pairs, (x, np.zeros(44, np.float32)), dict(N=44), 2 * x.astype(np.float32)


@mimw.jit
def _printed(x, y, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tile = tl.load(x + at)
    tl.device_print("tile", tile)
    tl.assume(tile < 1000)
    tl.store(y + at, tile + 1)


def printed():
    x = numbers(3, 12)
    return _printed, (x, np.zeros((3, 12), np.float32)), dict(M=3, N=12), x + 1


@mimw.jit
def _turned_in_shared_memory(x, y, M: tl.constexpr, N: tl.constexpr):
    """Single elements by pointers with two indices."""
    rows, columns = tl.arange(0, M)[:, None] + tl.zeros((M, N), tl.int32), tl.arange(0, N)[None, :] + tl.zeros((M, N), tl.int32)
    buffer = tle.gpu.alloc([M, N], tl.float32)
    tl.store(tle.gpu.local_ptr(buffer, (rows, columns)), tl.load(x + rows * N + columns))
    tl.debug_barrier()
    tl.store(y + rows * N + columns, tl.load(tle.gpu.local_ptr(buffer, (M - 1 - rows, (columns + 1) % N))))


def turned_in_shared_memory():
    x = numbers(5, 12)
    return _turned_in_shared_memory, (x, np.zeros((5, 12), np.float32)), dict(M=5, N=12), np.roll(x[::-1], -1, 1)


@mimw.jit
def _types(x, y, N: tl.constexpr):
    """To fp8, bf16, fp16, int8 and bool, and back."""
    at = tl.arange(0, N)
    tile = tl.load(x + at)
    out = tile.to(tl.float8e5).to(tl.float32) + tile.to(tl.bfloat16).to(tl.float32)
    out += tile.to(tl.float16).to(tl.float32) + tile.to(tl.int8).to(tl.float32) + (tile > 0).to(tl.float32)
    tl.store(y + at, out)


def types():
    x = numbers(20)
    parts = [x.astype(kind).astype(np.float32) for kind in (ml_dtypes.float8_e5m2, ml_dtypes.bfloat16, np.float16, np.int8)]
    return _types, (x, np.zeros(20, np.float32)), dict(N=20), sum(parts) + (x > 0)


@mimw.jit
def _masked_select(x, count, y, n, N: tl.constexpr):
    """What is positive, one behind the other."""
    at = tl.arange(0, N)
    tile = tl.load(x + at, mask=at < n, other=0.0)
    keep = tile > 0
    place = tl.cumsum(keep.to(tl.int32), 0) - 1
    tl.store(y + place, tile, mask=keep)
    tl.store(count, tl.sum(keep.to(tl.int32)))


def masked_select():
    x = numbers(90)
    want = np.zeros(90, np.float32)
    kept = x[x > 0]
    want[:len(kept)] = kept
    return _masked_select, (x, np.zeros(1, np.int32), np.zeros(90, np.float32), 90), dict(N=96), want


@mimw.jit
def _in_shared_memory(x, y, n, N: tl.constexpr):
    """A staging buffer that threads fill and read, by an asynchronous copy and by a store."""
    at = tl.arange(0, N)
    buffers = tlx.local_alloc((N, ), tl.float32, 2)
    token = tlx.async_load(x + at, buffers[0], mask=at < n, other=0.0)
    tlx.async_load_commit_group([token])
    tlx.async_load_wait_group(0)
    tlx.local_store(buffers[1], tlx.local_load(buffers[0]) * 2)
    tl.store(y + at, tlx.local_load(buffers[1]), mask=at < n)


def in_shared_memory():
    x = numbers(45)
    return _in_shared_memory, (x, np.zeros(45, np.float32), 45), dict(N=48), x * 2


@mimw.jit
def _two_tasks(x, y, n, N: tl.constexpr):
    """One task loads blocks of a row, the other one stores them."""
    ring = tlx.local_alloc((N, ), tl.float32, 2)
    full, free = tlx.alloc_barriers(2), tlx.alloc_barriers(2)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            for i in range(tl.cdiv(n, N)):
                tlx.barrier_wait(free[i % 2], (i // 2 & 1) ^ 1)
                at = i * N + tl.arange(0, N)
                tlx.local_store(ring[i % 2], tl.load(x + at, mask=at < n, other=0.0))
                tlx.barrier_arrive(full[i % 2])
        with tlx.async_task(num_warps=4):
            for i in range(tl.cdiv(n, N)):
                tlx.barrier_wait(full[i % 2], i // 2 & 1)
                at = i * N + tl.arange(0, N)
                tile = tlx.local_load(ring[i % 2])
                tlx.barrier_arrive(free[i % 2])
                tl.store(y + at, tile - tl.max(tile), mask=at < n)


def two_tasks():
    x = np.abs(numbers(280))
    want = np.concatenate([part - part.max() for part in np.split(x, range(80, 280, 80))])
    return _two_tasks, (x, np.zeros(280, np.float32), 280), dict(N=80), want


@mimw.jit
def _strided(x, y, s0, s1, M: tl.constexpr, N: tl.constexpr):
    """A copy by strides, with eviction hints, int64 places and a mask of a broadcast."""
    rows, columns = tl.arange(0, M).to(tl.int64), tl.arange(0, N).to(tl.int64)
    tile = tl.load(x + rows[:, None] * s0 + columns[None, :] * s1, mask=(columns < N - 1)[None, :], other=0.0,
                   eviction_policy="evict_first")
    tl.store(y + rows[:, None] * N + columns[None, :], tile, cache_modifier=".cs")


def strided():
    x = numbers(20, 12)
    want = x.T.copy()
    want[:, -1] = 0
    return _strided, (x, np.zeros((12, 20), np.float32), 1, 12), dict(M=12, N=20), want


CASES = {case.__name__: case for case in (
    gelu, adam, bits, asserted, branches, mapped, assembly, by_pairs, printed,
    turned_in_shared_memory, types, masked_select, in_shared_memory, two_tasks, strided)}
