"""One token of linear attention against numpy in fp64: states in place and by indices, gates, the delta rule, orders, refusals."""

import numpy as np
import pytest

import mimw
from mimw.kernels import linear_attention_step as library
from mimw.kernels.linear_attention_step import Raw
from tests.compiling import stopping


def numbers(seed, *shapes, dtype=np.float32):
    random = np.random.default_rng(seed)
    return [random.standard_normal(shape, np.float32).astype(dtype) for shape in shapes]


def stepped(q, k, v, g, beta, state, scale, l2norm):
    """(o, the states behind the token) in fp64."""
    q, k, v, S = (one.astype(np.float64) for one in (q, k, v, state))
    if l2norm:
        q, k = (one / np.sqrt((one**2).sum(-1, keepdims=True) + 1e-6) for one in (q, k))
    q, k = (np.repeat(one, v.shape[1] // one.shape[1], 1) for one in (q, k))
    if g is not None:
        S = S * np.exp(g.reshape(*g.shape[:2], -1).astype(np.float64))[..., None]
    u = v if beta is None else beta[..., None] * (v - np.einsum("nhkv,nhk->nhv", S, k))
    S = S + k[..., None] * u[:, :, None]
    return scale * np.einsum("nhkv,nhk->nhv", S, q), S


def made_of(raw, g, beta):
    """The logarithms of gates and the betas, in fp64 where they are made of raw ones."""
    if raw.use_gate:
        x = g.astype(np.float64) + (0.0 if raw.dt_bias is None else raw.dt_bias)
        rate = np.exp(np.zeros(1) if raw.A_log is None else raw.A_log.astype(np.float64)).reshape(-1, *[1] * (g.ndim - 2))
        g = -rate * np.logaddexp(x, 0.0) if raw.lower_bound is None else raw.lower_bound / (1.0 + np.exp(-rate * x))
    if raw.use_beta_sigmoid:
        beta = (2.0 if raw.allow_neg_eigval else 1.0) / (1.0 + np.exp(-beta.astype(np.float64)))
    return g, beta


GIVEN = Raw()
CASES = {       # gates, the delta rule, a pool, turned, how gates and betas are made, whether with rates and biases
    "linear attention": (None, False, False, False, GIVEN, False), "gdn, a pool": ("head", True, True, False, GIVEN, False),
    "kda, [V, K]": ("key", True, False, True, GIVEN, False), "gla, [V, K], a pool": ("key", False, True, True, GIVEN, False),
    "gdn, raw, a pool": ("head", True, True, False, Raw(use_gate=True, use_beta_sigmoid=True), True),
    "kda, raw, [V, K]": ("key", True, False, True, Raw(None, None, True, -5.0, True, True), True),
    "raw gates": ("key", True, False, False, Raw(use_gate=True), False),
    "raw betas": ("head", True, False, False, Raw(use_beta_sigmoid=True), False)}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("K, V", [(20, 40)])
def test_a_step(machine, case, K, V):
    """3 sequences, 2 heads of q, 4 of v; a pool of 5 states, one sequence without a state."""
    gates, delta, pooled, turned, raw, rates = CASES[case]
    dtype = np.float16 if delta else np.float32
    q, k = numbers(0, (3, 2, K), (3, 2, K), dtype=dtype)
    v, = numbers(1, (3, 4, V), dtype=dtype)
    g = None if gates is None else numbers(2, (3, 4) if gates == "head" else (3, 4, K))[0]
    g = -np.abs(g) if gates is not None and not raw.use_gate else g
    beta = np.random.default_rng(3).random((3, 4), np.float32) if delta else None
    beta = 8 * beta - 4 if raw.use_beta_sigmoid else beta
    if rates:
        A_log, dt_bias = numbers(5, (4, ), g.shape[1:])
        raw = raw._replace(A_log=A_log, dt_bias=dt_bias)
    of_gates, of_betas = made_of(raw, g, beta)
    state, = numbers(4, (5 if pooled else 3, 4, V, K) if turned else (5 if pooled else 3, 4, K, V))
    state = state.swapaxes(2, 3) if turned else state
    indices = np.array([4, -1, 2], np.int64) if pooled else None
    before, there = state.copy(), [0, 2] if pooled else [0, 1, 2]
    own = indices[there] if pooled else there
    o = np.full((3, 4, V), np.nan, dtype)
    kernel, grid, args, meta = library.arguments(q, k, v, g, beta, state, indices, o, 0.3, delta, raw)
    machine.launch(kernel, grid, *args, **meta)
    expected, after = stepped(q[there], k[there], v[there], None if g is None else of_gates[there],
                              None if beta is None else of_betas[there], before[own], 0.3, delta)
    np.testing.assert_allclose(o[there], expected, rtol=2e-3, atol=2e-3 if delta else 1e-4)
    np.testing.assert_allclose(state[own], after, rtol=1e-4, atol=1e-4)
    if pooled:
        assert (o[1] == 0).all() and (state[[0, 1, 3]] == before[[0, 1, 3]]).all()


def test_a_row_whose_squares_overflow_counts_as_zero(machine):
    """As x rsqrt(inf) has it: also where the product of both rows is no number."""
    K, V, found = 20, 40, []
    q, k = numbers(0, (3, 1, K), (3, 1, K))
    v, state = numbers(1, (3, 2, V), (3, 2, K, V))
    for factor in (1e20, 0.0):
        q[[0, 2]] *= factor
        k[[1, 2]] *= factor
        after, o = state.copy(), np.full((3, 2, V), np.nan, np.float32)
        kernel, grid, args, meta = library.arguments(q, k, v, None, np.ones((3, 2), np.float32), after, None, o, 0.3, True)
        machine.launch(kernel, grid, *args, **meta)
        found.append((o, after))
    for one, other in zip(*found):
        np.testing.assert_array_equal(one, other)
    assert (found[0][0][[0, 2]] == 0).all() and (found[0][1][1:] == state[1:]).all()


@pytest.mark.parametrize("target, stage, wide, count, turned", [
    ("sm_90a", "ptx", "ld.global.v4.b32", 8, False), ("sm_100a", "ptx", "ld.global.v4.b32", 8, True),
    ("gfx950", "amdgcn", "global_load_dwordx4", 4, False)])
def test_compiled(target, stage, wide, count, turned):
    """A program's 16 KB of a state are read by 128 or 256 threads, 16 bytes each, whichever columns lie side by side."""
    q, k = numbers(0, (4, 2, 128), (4, 2, 128), dtype=np.float16)
    v, o = numbers(1, (4, 4, 128), (4, 4, 128), dtype=np.float16)
    beta, g, state = np.ones((4, 4), np.float32), np.ones((4, 4), np.float32), np.ones((4, 4, 128, 128), np.float32)
    state = state.swapaxes(2, 3) if turned else state
    kernel, grid, args, meta = library.arguments(q, k, v, g, beta, state, None, o, 0.1)
    with stopping():
        text = mimw.compile(kernel, grid, *args, target=target, **meta).stage(stage)
    assert text.count(wide) >= count


@pytest.mark.parametrize("change, text", [
    (dict(state=np.zeros((2, 4, 20, 40), np.float32)), "without indices there must be one state for each sequence"),
    (dict(state=np.zeros((3, 4, 40, 20), np.float32)), "state is 3 x 4 x 40 x 20"),
    (dict(indices=np.zeros(3, np.float32)), "indices is float32"),
    (dict(v=np.zeros((3, 3, 40), np.float32), o=np.zeros((3, 3, 40), np.float32), state=np.zeros((3, 3, 20, 40), np.float32)),
     "heads of q and k must divide those of v"),
    (dict(raw=Raw(use_gate=True)), "there must be a g to make gates of"),
    (dict(raw=Raw(use_beta_sigmoid=True)), "there must be a beta"),
    (dict(g=np.zeros((3, 4), np.float32), raw=Raw(None, None, True, 0.0)), "lower_bound must be below 0"),
    (dict(g=np.zeros((3, 4), np.float32), raw=Raw(None, np.zeros((4, 20), np.float32), use_gate=True)),
     "gates of shape .N, HV. take biases .HV., and by key"),
    (dict(g=np.zeros((3, 4), np.float32), raw=Raw(np.zeros(8, np.float32)[::2], use_gate=True)), "A_log")])
def test_refusals(change, text):
    given = dict(q=np.zeros((3, 2, 20), np.float32), k=np.zeros((3, 2, 20), np.float32), v=np.zeros((3, 4, 40), np.float32), g=None,
                 beta=None, state=np.zeros((3, 4, 20, 40), np.float32), indices=None, o=np.zeros((3, 4, 40), np.float32)) | change
    with pytest.raises(ValueError, match=text):
        library.arguments(**given, scale=1.0)
