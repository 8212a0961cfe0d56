"""Buffer accesses in whole programs: simulated against numpy, and compiled to a binary."""

import numpy as np
import pytest

from mimw.testing import compare
from tests.programs_amd import rows
from tests.programs_amd.launches import is_product, launch, random

FOUR = dict(num_warps=4, num_stages=1)


@pytest.mark.parametrize("chip", ["gfx942", "gfx1250"])
def test_layer_norm(chip):
    x, w, b, y = random(9, 200), random(200, seed=1), random(200, seed=2), np.zeros((9, 200), np.float16)
    mean, rstd = np.zeros(9, np.float32), np.zeros(9, np.float32)
    launch(rows.layer_norm, (4, ), (x, w, b, y, mean, rstd, 9, 200, 200, 1e-5), chip, FOUR, BLOCK=256, NUM_CUS=4)
    exact = x.astype(np.float32)
    normed = (exact - exact.mean(1, keepdims=True)) / np.sqrt(exact.var(1, keepdims=True) + 1e-5)
    compare(y, (normed * w.astype(np.float32) + b.astype(np.float32)).astype(np.float16), rtol=1e-2, atol=1e-2)
    compare(rstd, 1 / np.sqrt(exact.var(1) + 1e-5), rtol=1e-3, atol=1e-3)


def test_layer_norm_gradient(chip="gfx950"):
    x, w, dy = random(20, 100), random(100, seed=1), random(20, 100, seed=2)
    exact, grad = x.astype(np.float32), dy.astype(np.float32)
    mean, rstd = exact.mean(1), 1 / np.sqrt(exact.var(1) + 1e-5)
    dx, dw, db = np.zeros((20, 100), np.float32), np.zeros(100, np.float32), np.zeros(100, np.float32)
    code = launch(rows.layer_norm_gradient, (3, ), (x, w, dy, dx, dw, db, mean, rstd, 20, 100, 100), chip, FOUR, BLOCK_ROWS=8,
                  BLOCK=128)
    normed, scaled = (exact - mean[:, None]) * rstd[:, None], grad * w.astype(np.float32)
    compare(dw, (grad * normed).sum(0), rtol=1e-3, atol=1e-3)
    compare(db, grad.sum(0), rtol=1e-3, atol=1e-3)
    want = scaled - normed * (normed * scaled).mean(1, keepdims=True) - scaled.mean(1, keepdims=True)
    compare(dx, want * rstd[:, None], rtol=1e-3, atol=1e-3)
    assert code["buffer_atomic_add_f32"]


def test_parts_of_k_behind_a_lock(chip="gfx942"):
    a, b, c = random(80, 200), random(64, 200, seed=1), np.zeros((80, 64), np.float16)
    parts, locks = np.zeros((2, 3, 64, 64), np.float32), np.zeros(2, np.int32)
    code = launch(rows.split_k_in_turns, (2, 3), (a, b, c, parts, locks, 80, 64, 200, 200, 200, 64), chip, FOUR, BLOCK_M=64,
                  BLOCK_N=64, BLOCK_K=32, SPLIT_K=3)
    is_product(c, a, b)
    assert code["buffer_wbl2"] and code["buffer_inv"]


@pytest.mark.long(but=["gfx1250-False"], everywhere=True)
@pytest.mark.parametrize("chip, add", [("gfx942", True), ("gfx1250", False)])
def test_experts(chip, add):
    tokens, top_k, n, k = 24, 2, 64, 128
    draw = np.random.default_rng(0)
    a, b = random(tokens, k), random(3, n, k, seed=1)
    chosen = np.stack([draw.permutation(3)[:top_k] for _ in range(tokens)]).reshape(-1)
    blocks = [np.flatnonzero(chosen == one) for one in range(3)]
    order = np.concatenate([np.pad(one, (0, -len(one) % 32), constant_values=tokens * top_k) for one in blocks]).astype(np.int32)
    owner = np.repeat(np.arange(3), [-(-len(one) // 32) for one in blocks]).astype(np.int32)
    weights = draw.random(tokens * top_k).astype(np.float32)
    c = np.zeros((tokens if add else tokens * top_k, n), np.float16)
    launch(rows.experts, (len(owner), 1), (a, b, c, weights, order, owner, tokens * top_k, n, k, n * k), chip, FOUR, TOP_K=top_k,
           BLOCK_M=32, BLOCK_N=64, BLOCK_K=64, ADD=add)
    products = np.einsum("tk,tnk->tn", a.astype(np.float32).repeat(top_k, 0), b.astype(np.float32)[chosen])
    want = (products * weights[:, None]).reshape(tokens, top_k, n).sum(1) if add else products / (1 + np.exp(-products))
    compare(c, want.astype(np.float16), rtol=2e-2, atol=2e-2)


def test_pages(chip="gfx950"):
    lengths, heads, dim, page = np.array([100, 33], np.int32), 16, 64, 16
    pool = [random(16 * page, dim, seed=seed) for seed in (1, 2)]
    table = np.random.default_rng(3).permutation(16)[:14].reshape(2, 7).astype(np.int32)
    q, parts, lse = random(2, heads, dim), np.zeros((2, 2, heads, dim), np.float32), np.zeros((2, 2, heads), np.float32)
    scale = float(np.log2(np.e)) / 8
    launch(rows.paged_decode, (2, 2), (q, *pool, table, lengths, parts, lse, scale, 7), chip, FOUR, HEADS=heads, D=dim, PAGE=page,
           PAGES=2, SPLITS=2)
    o = np.zeros((2, heads, dim), np.float16)
    launch(rows.merged, (2, ), (parts, lse, o), chip, FOUR, HEADS=heads, D=dim, SPLITS=2)
    for seq, length in enumerate(lengths):
        k, v = (one.reshape(16, page, dim)[table[seq]].reshape(-1, dim)[:length].astype(np.float32) for one in pool)
        p = np.exp2(q[seq].astype(np.float32) @ k.T * scale)
        compare(o[seq], (p / p.sum(1, keepdims=True) @ v).astype(np.float16), rtol=1e-2, atol=1e-2)


@pytest.mark.long(but=["gfx950"], everywhere=True)
@pytest.mark.parametrize("chip", ["gfx950", "gfx1250"])
def test_convolution(chip):
    x, w, y = random(2, 6, 7, 32), random(3, 3, 32, 32, seed=1), np.zeros((2, 6, 7, 32), np.float16)
    launch(rows.convolved, (2, ), (x, w, y, 2, 6, 7), chip, FOUR, OUT=32, C=32, R=3, S=3, BLOCK_M=64)
    padded = np.pad(x.astype(np.float32), ((0, 0), (1, 1), (1, 1), (0, 0)))
    want = sum(padded[:, r:r + 6, s:s + 7] @ w[r, s].astype(np.float32).T for r in range(3) for s in range(3))
    compare(y, want.astype(np.float16), rtol=1e-2, atol=1e-2)
