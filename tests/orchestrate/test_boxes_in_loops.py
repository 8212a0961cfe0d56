"""Loads by pointers in loops of all kinds: which are boxes, and the same result to the last bit."""

import numpy as np
import pytest
import triton.language as tl

import mimw
from tests.orchestrate.launched import Launched


@mimw.jit
def product(a, b, c, M, N, K, sa, sb, sc, B: tl.constexpr, BK: tl.constexpr, HOW: tl.constexpr):
    pm, pn = tl.program_id(0), tl.program_id(1)
    rows, cols, ks = (pm * B + tl.arange(0, B))[:, None], (pn * B + tl.arange(0, B))[None, :], tl.arange(0, BK)
    acc = tl.zeros((B, B), tl.float32)
    if HOW == "down":
        for k in range(K - BK, -1, -BK):
            x = tl.load(a + rows * sa + (k + ks)[None, :], mask=rows < M, other=0.0)
            acc += tl.dot(x, tl.load(b + (k + ks)[:, None] * sb + cols, mask=cols < N, other=0.0))
    elif HOW == "from a program's number on":
        for k in range(pm * BK, K, BK):
            x = tl.load(a + rows * sa + (k + ks)[None, :], mask=(rows < M) & ((k + ks)[None, :] < K), other=0.0)
            acc += tl.dot(x, tl.load(b + (k + ks)[:, None] * sb + cols, mask=((k + ks)[:, None] < K) & (cols < N), other=0.0))
    elif HOW == "positions are carried":
        for _ in range(0, K, BK):
            x = tl.load(a + rows * sa + ks[None, :], mask=(rows < M) & (ks[None, :] < K), other=0.0)
            acc += tl.dot(x, tl.load(b + ks[:, None] * sb + cols, mask=(ks[:, None] < K) & (cols < N), other=0.0))
            ks += BK
    elif HOW == "in a branch":
        for k in range(0, K, BK):
            if k + pm > 0:
                x = tl.load(a + rows * sa + (k + ks)[None, :], mask=rows < M, other=0.0)
                acc += tl.dot(x, tl.load(b + (k + ks)[:, None] * sb + cols, mask=cols < N, other=0.0))
    else:
        k = 0
        while k < K:
            x = tl.load(a + rows * sa + (k + ks)[None, :], mask=rows < M, other=0.0)
            acc += tl.dot(x, tl.load(b + (k + ks)[:, None] * sb + cols, mask=cols < N, other=0.0))
            k += BK
    tl.store(c + rows * sc + cols, acc, mask=(rows < M) & (cols < N))


@pytest.mark.parametrize("how, at", [
    ("down", "K - 16*trip@17 - 16"), ("from a program's number on", "16*pm + 16*trip@21"), ("positions are carried", "16*trip@25"),
    ("in a branch", "16*trip@30"), ("as long as it takes", "its block begins anywhere in a row (k)"),
])
def test_loops(how, at):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((40, 64), (64, 48)))
    c = np.full((40, 64), 7, np.float32)
    launched = Launched(product, (2, 2), (a, b, c, 40, 48, 64, 64, 48, 64), dict(B=32, BK=16, HOW=how))
    messages = [remark.message for remark in launched.made.remarks]
    assert at in messages[0] and len(launched.made.descriptors) == (3 if " is a block of " in messages[0] else 1), messages
    assert launched.fault() == ""
    launched.run_plain()
    plain = c.copy()
    assert (plain[:, 48:] == 7).all() and (plain[:, :48] != 7).all()
    c[...] = 7
    launched.run_lifted()
    assert plain.tobytes() == c.tobytes()
