"""Operand A in tensor memory with 64 rows in each CTA of a pair: it lies there twice, and may share columns with a sum."""

import re

import ml_dtypes
import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.errors import NotYet
from mimw.runtime.compile_kernel import compile_kernel

PAIR = {"ctas_per_cga": (2, 1, 1)}


@mimw.jit
def two_products(a, b, v, c, back, N: tl.constexpr, SLOTS: tl.constexpr):
    """(a @ b) as bf16, over its columns, @ v: what attention does. a (128, 64) of the pair, b (64, N), v (N, 64)."""
    rank = tlx.cluster_cta_rank()
    m, k = rank * 64 + tl.arange(0, 64), tl.arange(0, 64)
    n, half = rank * (N // 2) + tl.arange(0, N // 2), rank * 32 + tl.arange(0, 32)
    left, right = tlx.local_alloc((64, 64), tl.bfloat16, 1), tlx.local_alloc((N // 2, 64), tl.bfloat16, 1)
    more = tlx.local_alloc((32, N), tl.bfloat16, 1)
    scores = tlx.local_alloc((64, N), tl.float32, SLOTS, tlx.storage_kind.tmem)
    p = tlx.local_alloc((64, N), tl.bfloat16, SLOTS, tlx.storage_kind.tmem, reuse=scores)
    out = tlx.local_alloc((64, 64), tl.float32, 1, tlx.storage_kind.tmem)
    done = tlx.alloc_barriers(2)
    whole = tl.arange(0, N)
    tlx.local_store(left[0], tl.load(a + m[:, None] * 64 + k[None, :]))
    tlx.local_store(right[0], tl.load(b + k[None, :] * N + n[:, None]))
    tlx.local_store(more[0], tl.load(v + whole[None, :] * 64 + half[:, None]))
    tlx.fence("async_shared")
    tlx.cluster_barrier()
    tlx.async_dot(left[0], tlx.local_trans(right[0]), scores[SLOTS - 1], use_acc=False, mBarriers=[done[0]], two_ctas=True)
    tlx.barrier_wait(done[0], 0)
    tlx.local_store(p[SLOTS - 1], tlx.local_load(scores[SLOTS - 1]).to(tl.bfloat16))
    tl.store(back + m[:, None] * N + whole[None, :], tlx.local_load(p[SLOTS - 1]))
    tlx.cluster_barrier()
    tlx.async_dot(p[SLOTS - 1], tlx.local_trans(more[0]), out[0], use_acc=False, mBarriers=[done[1]], two_ctas=True)
    tlx.barrier_wait(done[1], 0)
    tl.store(c + m[:, None] * 64 + k[None, :], tlx.local_load(out[0]))


@pytest.mark.parametrize("slots", [1, 2])
def test_a_sum_becomes_an_operand(slots):
    random = np.random.default_rng(3)
    a, b, v = (random.integers(-2, 3, shape).astype(ml_dtypes.bfloat16) for shape in ((128, 64), (64, 64), (64, 64)))
    c, back = np.zeros((128, 64), np.float32), np.zeros((128, 64), ml_dtypes.bfloat16)
    mimw.simulate(two_products, (2, ), a, b, v, c, back, 64, slots, target="sm_100a", races=True, **PAIR)
    scores = (a.astype(np.float32) @ b.astype(np.float32)).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(back.astype(np.float32), scores.astype(np.float32))
    np.testing.assert_array_equal(c, scores.astype(np.float32) @ v.astype(np.float32))
    assert mimw.check(two_products, (2, ), a, b, v, c, back, 64, slots, target="sm_100a", seeds=2, **PAIR).ok


def test_compiled(sass_has):
    """The operand is stored to all 128 lanes at once, 32 columns of 32 bits, and read by the address of its columns."""
    signature = dict(a="*bf16", b="*bf16", v="*bf16", c="*fp32", back="*bf16")
    found = compile_kernel(two_products, signature, dict(N=64, SLOTS=1), "sm_100a", PAIR)
    ptx = found.ptx
    from_memory = re.findall(r"tcgen05\.mma\.cta_group::2\.kind::f16 \[%r\d+\], \[low\], right, (\d+), adds", ptx)
    assert len(from_memory) == 4 and len(set(from_memory)) == 1
    assert (int(from_memory[0]) >> 24 & 31) * 16 == 128      # M of the instruction descriptor: both CTAs' rows
    assert "tcgen05.st.sync.aligned.32x32b.x32" in ptx or "tcgen05.st.sync.aligned.32x32b.x16" in ptx
    sass_has(found, r"UTCHMMA\.2CTA")


@mimw.jit
def a_sum_and_an_operand(c):
    x = tlx.local_alloc((64, 64), tl.float32, 1, tlx.storage_kind.tmem)
    b = tlx.local_alloc((64, 32), tl.bfloat16, 1)
    a = tlx.local_alloc((64, 64), tl.bfloat16, 1)
    tlx.async_dot(a[0], b[0], x[0], use_acc=False, two_ctas=True)
    y = tlx.local_alloc((64, 64), tl.float32, 1, tlx.storage_kind.tmem)
    tlx.async_dot(tlx.local_reinterpret(x[0], tl.bfloat16), b[0], y[0], use_acc=False, two_ctas=True)


@mimw.jit
def now_this_now_that(c, which):
    p = tlx.local_alloc((64, 64), tl.bfloat16, 1, tlx.storage_kind.tmem)
    other = tlx.local_alloc((64, 64), tl.bfloat16, 1, tlx.storage_kind.tmem)
    b = tlx.local_alloc((64, 32), tl.bfloat16, 1)
    y = tlx.local_alloc((64, 64), tl.float32, 1, tlx.storage_kind.tmem)
    tlx.async_dot(p[0], b[0], y[0], use_acc=False, two_ctas=True)
    if which > 0:
        chosen = p[0]
    else:
        chosen = other[0]
    tlx.local_store(chosen, tl.zeros((64, 64), tl.bfloat16))


def test_refused():
    with pytest.raises(Exception, match="is operand A of another one"):
        mimw.simulate(a_sum_and_an_operand, (2, ), np.zeros(4, np.float32), target="sm_100a", **PAIR)
    with pytest.raises(NotYet, match="now operand A of a pair of CTAs, now another array"):
        mimw.simulate(now_this_now_that, (2, ), np.zeros(4, np.float32), 2, target="sm_100a", **PAIR)
