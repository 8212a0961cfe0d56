"""Predictions for AMD's chips: what bounds a product, attention and a softmax, what is said of every time, and the instructions that
the model takes Triton to pick."""

import re
from collections import Counter

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.errors import TargetError
from mimw.simulator.costs import model
from tests.compiling import to_assembly

CHIPS = ("gfx942", "gfx950")


@mimw.jit
def gemm(a, b, c, K, N, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SLOTS: tl.constexpr):
    """C = A B^T, both along K: copies straight to LDS, SLOTS - 1 ahead."""
    m, n = tl.program_id(0) // (N // BN), tl.program_id(0) % (N // BN)
    rows, columns, k = m * BM + tl.arange(0, BM), n * BN + tl.arange(0, BN), tl.arange(0, BK)
    left, right = tlx.local_alloc((BM, BK), tlx.dtype_of(a), SLOTS), tlx.local_alloc((BN, BK), tlx.dtype_of(b), SLOTS)
    for i in range(SLOTS - 1):
        tlx.async_load(a + rows[:, None] * K + i * BK + k[None, :], left[i])
        tlx.async_load(b + columns[:, None] * K + i * BK + k[None, :], right[i])
        tlx.async_load_commit_group()
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(K // BK):
        tlx.async_load_wait_group(SLOTS - 2)
        acc = tl.dot(tlx.local_load(left[i % SLOTS]), tlx.local_load(tlx.local_trans(right[i % SLOTS])), acc)
        ahead = (i + SLOTS - 1) % (K // BK)
        tlx.async_load(a + rows[:, None] * K + ahead * BK + k[None, :], left[(i + SLOTS - 1) % SLOTS])
        tlx.async_load(b + columns[:, None] * K + ahead * BK + k[None, :], right[(i + SLOTS - 1) % SLOTS])
        tlx.async_load_commit_group()
    tl.store(c + rows[:, None] * N + columns[None, :], acc.to(tl.float16))


def product(chip, tile, extent=4096, slots=2, dtype=np.float16, warps=8):
    a, c = np.empty((extent, extent), dtype), np.empty((extent, extent), np.float16)
    return mimw.predict(gemm, (extent // tile[0] * (extent // tile[1]), ), a, a, c, extent, extent, *tile, slots, num_warps=warps,
                        target=chip, ctas=2)


def test_a_product_of_large_tiles_is_bound_by_the_matrix_cores():
    """256 x 256 x 32 halves: 1024 cycles of four matrix cores; the eight waves, two by four, read A four times and B twice, 96 KiB at
    256 bytes a cycle."""
    found = product("gfx950", (256, 256, 32), slots=3)
    assert found.bound.startswith("matrix cores, busy") and found.residency == (1, "LDS")
    assert found.units["shared"] / found.units["tensor"] == pytest.approx(96 * 1024 / 256 / 1024, rel=0.02)
    assert "matrix cores" in str(found) and "a compute unit" in str(found) and "tensor cores" not in str(found)


def test_a_product_of_narrow_tiles_is_bound_by_the_bytes_of_lds():
    """32 x 256 on eight waves: each of them reads all of A."""
    found = product("gfx942", (32, 256, 32), warps=8)
    assert found.units["shared"] > found.units["tensor"]
    assert found.bound.startswith("LDS bytes") or "(LDS bytes)" in found.bound
