"""`async_dot` of float32 at the precisions that the tensor core has not, alone and between others in flight."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.runtime.compile_kernel import compile_kernel
from tests.compiling import to_assembly


@mimw.jit
def products(a, b, c, STEPS: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr,
             REGISTERS: tl.constexpr):
    """The sum of `STEPS` products; B lies as it comes, (K, N)."""
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a_tile, b_tile = tlx.local_alloc((M, K), tl.float32, 1), tlx.local_alloc((K, N), tl.float32, 1)
    acc = tl.zeros((M, N), tl.float32)
    for step in range(STEPS):
        left = tl.load(a + step * M * K + m[:, None] * K + k[None, :])
        tlx.local_store(b_tile[0], tl.load(b + step * K * N + k[:, None] * N + n[None, :]))
        if REGISTERS:
            acc = tlx.async_dot(left, b_tile[0], acc, input_precision=PRECISION)
        else:
            tlx.local_store(a_tile[0], left)
            acc = tlx.async_dot(a_tile[0], b_tile[0], acc, input_precision=PRECISION)
        acc = tlx.async_dot_wait(0, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc)


@pytest.mark.parametrize("registers", [False, True])
@pytest.mark.parametrize("precision, error", [("tf32x3", 1e-6), ("ieee", 2e-7)])
def test_error_of_sums(machine, precision, error, registers):
    """tf32 has 10 bits of mantissa, an error of 1e-3 of a product; these are as good as float32's own rounding."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(3, 64, 32)).astype(np.float32), rng.normal(size=(3, 32, 64)).astype(np.float32)
    c = np.zeros((64, 64), np.float32)
    machine.launch(products, (1, ), a, b, c, 3, 64, 64, 32, precision, registers)
    wanted = (a.astype(np.float64) @ b.astype(np.float64)).sum(0)
    scale = (abs(a).astype(np.float64) @ abs(b).astype(np.float64)).sum(0)
    assert (abs(c - wanted) / scale).max() < error


@mimw.jit
def mixed(a, b, c, d, PRECISION: tl.constexpr):
    """A tf32 dot in flight, a precise one behind it, a wait that leaves the newest group, and a chain through both kinds."""
    line = tl.arange(0, 32)
    at = tl.arange(0, 64)[:, None] * 32 + line[None, :]
    a_tile, b_tile = tlx.local_alloc((64, 32), tl.float32, 1), tlx.local_alloc((32, 32), tl.float32, 1)
    tlx.local_store(a_tile[0], tl.load(a + at))
    tlx.local_store(b_tile[0], tl.load(b + line[:, None] * 32 + line[None, :]))
    turned = tlx.local_trans(b_tile[0])
    first = tlx.async_dot(a_tile[0], turned)
    second = tlx.async_dot(a_tile[0], turned, input_precision=PRECISION)
    first = tlx.async_dot_wait(1, first)
    tl.store(c + at, first)
    third = tlx.async_dot(a_tile[0], turned, second)
    fourth = tlx.async_dot(a_tile[0], turned, third, input_precision=PRECISION)
    tl.store(d + at, tlx.async_dot_wait(0, fourth))


@pytest.mark.parametrize("precision", ["tf32x3", "ieee"])
def test_between_others(machine, precision):
    """Small integers: every precision is exact."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (rows, 32)).astype(np.float32) for rows in (64, 32))
    c, d = np.zeros_like(a), np.zeros_like(a)
    machine.launch(mixed, (1, ), a, b, c, d, precision)
    assert (c == a @ b.T).all() and (d == 3 * (a @ b.T)).all()


def test_a_precise_dot_is_a_group():
    """One commit for each call, so that waits count alike: two dots of the tensor core, two others (as several each)."""
    ptx = to_assembly(mixed, dict.fromkeys("abcd", "*fp32"), {"PRECISION": "ieee"}).stage("ptx")
    assert ptx.count("wgmma.commit_group") == 4
    assert "wgmma.wait_group.sync.aligned 1" in ptx
    assert compile_kernel(mixed, dict.fromkeys("abcd", "*fp32"), {"PRECISION": "tf32x3"}).stages["cubin"]
