"""Attention backward: types, head dims, masks, grouped queries, lengths that no tile divides, and what ptxas says of the loop.

To record a program takes five times as long as to simulate it, so cases have two heads on one head of keys where they say nothing
of them: one program for all (an argument of 1 makes another one).
"""

import re

import ml_dtypes
import numpy as np
import pytest

import mimw
from mimw.kernels import attention_backward as backward
from mimw.kernels.attention_backward import Configuration
from mimw.runtime.simulate import prepare
from tests.compiling import to_assembly
from tests.kernels.attention_reference import reference as attention_reference
from tests.lowering.assembly import assembled

BF16 = ml_dtypes.bfloat16
ALLOWED = {np.float16: 2e-3, BF16: 1.2e-2}  # of ||x - reference|| / ||reference||


def reference(q, k, v, do, causal=False, scale=None, window=(None, None), softcap=None, sinks=None, slopes=None):
    """(o, log-sum-exp, dq, dk, dv, gradient of the sinks) in fp64."""
    group, scale = q.shape[1] // k.shape[1], q.shape[-1]**-0.5 if scale is None else scale
    q, do, k, v = (x.astype(np.float64) for x in (q, do, np.repeat(k, group, 1), np.repeat(v, group, 1)))
    o, lse = attention_reference(q, k, v, causal, scale, window, softcap, sinks, slopes)
    scores, derivative = scale * q @ k.swapaxes(-1, -2), 1.0
    if softcap is not None:
        scores = softcap * np.tanh(scores / softcap)
        derivative = 1 - (scores / softcap)**2
    position, keys = np.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2], np.arange(k.shape[2])
    if slopes is not None:
        scores = scores - np.atleast_2d(slopes)[:, :, None, None].astype(np.float64) * np.abs(position - keys)
    left, right = window[0], 0 if causal else window[1]
    unseen = (left is not None) & (keys < position - (left or 0)) | (right is not None) & (keys > position + (right or 0))
    with np.errstate(invalid="ignore"):
        p = np.where(unseen | (lse == -np.inf)[..., None], 0, np.exp(np.minimum(scores - lse[..., None], 0)))
    delta = (o * do).sum(-1)
    ds = scale * derivative * p * (do @ v.swapaxes(-1, -2) - delta[..., None])
    dk, dv = (x.reshape(len(x), -1, group, *x.shape[2:]).sum(2) for x in (ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ do))
    dsinks = None if sinks is None else -(np.exp(sinks.astype(np.float64)[:, None] - lse) * delta).sum((0, 2))
    return o, lse, ds @ k, dk, dv, dsinks


def problem(batch, heads, kv_heads, seq_q, seq_k, dim, dtype=np.float16, causal=False, chosen=None, **options):
    """(the arrays of `launches`, the three gradients in fp64)."""
    random = np.random.default_rng(0)
    of_queries, of_keys = (batch, heads, seq_q, dim), (batch, kv_heads, seq_k, dim)
    q, k, v, do = (random.standard_normal(shape).astype(dtype) for shape in (of_queries, of_keys, of_keys, of_queries))
    o, lse, *wanted = reference(q, k, v, do, causal, **options)
    gradients = [np.full_like(x, np.nan) for x in (q, k, v)]
    work = [np.full(shape, np.nan, np.float32) for shape in backward.workspace(q, chosen, causal)]
    return [q, k, v, o.astype(dtype), lse.astype(np.float32), do, *gradients, *work], wanted


def check(machine, *shape, dtype=np.float16, one_order=False, **options):
    arrays, wanted = problem(*shape, dtype, **options)
    sinks = options.pop("sinks", None)
    if one_order:
        arrays[-1], options["one_order"] = None, True
    for kernel, grid, args, meta in backward.launches(*arrays, **options):
        machine.launch(kernel, grid, *args, **meta)
    for name, got, one in zip(("dq", "dk", "dv"), arrays[6:9], wanted):
        error = np.linalg.norm(got.astype(np.float64) - one) / np.linalg.norm(one)
        assert error < ALLOWED[dtype], f"{name}: {error}"
    if sinks is not None:
        lse, delta = arrays[9].reshape(2, *arrays[0].shape[:2], -1)
        found = -(np.exp2(sinks[:, None] / np.log(2) - lse) * delta).sum((0, 2))
        np.testing.assert_allclose(found, wanted[3], rtol=1e-2, atol=1e-2)


@pytest.mark.long(but=["bfloat16-128-True", "float16-64-True", "float16-96-False", "float16-24-True"], everywhere=[
    "bfloat16-128-True", "float16-96-False", "float16-24-True"])
@pytest.mark.parametrize("dtype, dim, causal", [(np.float16, 128, False), (BF16, 128, True), (BF16, 64, False),
                                                (np.float16, 64, True), (np.float16, 96, False), (np.float16, 24, True)])
def test_types_and_head_dims(machine, dtype, dim, causal):
    check(machine, 1, 2, 1, 256, 256, dim, dtype=dtype, causal=causal)


@pytest.mark.long(but=["1-300-True", "65-257-True", "200-60-False"], everywhere=["65-257-True", "200-60-False"])
@pytest.mark.parametrize("seq_q, seq_k, causal", [(3, 3, True), (1, 300, True), (128, 129, False), (65, 257, True),
                                                  (200, 60, False)])
def test_lengths(machine, seq_q, seq_k, causal):
    """The last rows of a block of keys or queries lie outside, and a causal diagonal begins in the middle of a block."""
    check(machine, 1, 2, 1, seq_q, seq_k, 64, causal=causal)


@pytest.mark.parametrize("causal", [False, True])
def test_grouped_queries(machine, causal):
    check(machine, 1, 4, 2, 150, 150, 64, causal=causal)


@pytest.mark.long(everywhere=["two slots"])
@pytest.mark.parametrize("chosen", [Configuration(bm=64, q_stages=3), Configuration(bm=64)], ids=["deep", "two slots"])
def test_configurations(machine, chosen):
    """Two heads on one head of keys: behind the last block of the first follows one in the middle of the second."""
    check(machine, 2, 4, 2, 300, 300, 64, causal=chosen.q_stages == 2, chosen=chosen)


def test_refused_configurations():
    for options, text in ((dict(do_stages=1), "2 slots of queries and 1 of dO"), (dict(dq="direct"), "dq is 'direct'")):
        with pytest.raises(ValueError, match=text):
            Configuration(**options)


SLOPES, SINKS = np.array([0.5, 0.03], np.float32), np.array([1.0, -2.0], np.float32)
CHANGES = {
    "causal window": ((1, 2, 1, 300, 300, 64), dict(causal=True, window=(100, None))),
    "window": ((1, 2, 2, 200, 420, 128), dict(window=(90, 30))),        # the first block of keys is seen by no query
    "to the right": ((1, 2, 1, 130, 300, 64), dict(window=(None, 70))),
    "to the left": ((2, 2, 1, 300, 300, 128), dict(window=(5, None))),
    "two keys": ((1, 2, 1, 200, 200, 64), dict(causal=True, window=(1, None))),
    "three keys": ((1, 2, 1, 200, 200, 64), dict(causal=True, window=(2, None))),
    "soft cap": ((1, 2, 1, 150, 150, 128), dict(softcap=2.0, scale=0.3)),
    "slopes": ((2, 2, 1, 100, 160, 64), dict(slopes=np.stack([SLOPES, SLOPES[::-1]]))),
    "sinks": ((2, 2, 1, 70, 90, 64), dict(causal=True, sinks=SINKS)),
    "all": ((1, 2, 1, 260, 260, 128), dict(causal=True, window=(150, None), softcap=2.0, slopes=SLOPES, sinks=SINKS)),
}
LIKE_OTHERS = "causal window", "to the left", "three keys"     # of the path of "window", and of "two keys" by other numbers


@pytest.mark.long(but=[*(f"{name}-" for name in CHANGES if name not in LIKE_OTHERS), "all-one order"], everywhere=[
    "soft cap-", "slopes-", "sinks-", "all-one order"])
@pytest.mark.parametrize("name, one_order", [     # in one order three of them reach nothing that "three keys" and "all" do not
    pytest.param(name, one_order, id=f"{name}-{'one order' if one_order else ''}",
                 marks=[pytest.mark.gpu] * (one_order and name in ("two keys", "causal window", "soft cap")))
    for name in CHANGES for one_order in (False, True)])
def test_changed_scores(machine, name, one_order):
    shape, options = CHANGES[name]
    check(machine, *shape, one_order=one_order, **options)


@pytest.mark.long(everywhere=["shape1-False", "shape2-True"])
@pytest.mark.parametrize("shape, causal", [((1, 2, 1, 200, 330, 64), True), ((1, 2, 1, 70, 70, 80), False),
                                           ((1, 2, 1, 130, 130, 64), True),
                                           ((2, 2, 1, 70, 300, 128), False)])
def test_one_order(machine, shape, causal):
    check(machine, *shape, causal=causal, one_order=True)


def test_a_scale_of_ones_own_and_scores_far_below_zero(machine):
    """Keys beyond the end score 0; behind a log-sum-exp of -100 and less their probabilities would be infinite."""
    arrays, _ = problem(1, 2, 1, 64, 100, 64, scale=0.5)
    q, k, v, _, _, do = arrays[:6]
    q[..., 0], k[..., 0] = 32, -32
    o, lse, *wanted = reference(q, k, v, do, scale=0.5)
    assert lse.max() < -400
    arrays[3][:], arrays[4][:] = o.astype(np.float16), lse
    for kernel, grid, args, meta in backward.launches(*arrays, scale=0.5):
        machine.launch(kernel, grid, *args, **meta)
    for got, one in zip(arrays[6:9], wanted):
        # Element 0 of each row of dq and dk is a sum of large numbers that cancel.
        np.testing.assert_allclose(got[..., 1:].astype(np.float64), one[..., 1:], rtol=0, atol=5e-3 * np.abs(one[..., 1:]).max())


def test_the_reference_is_the_gradient():
    """Against differences of the loss sum(O dO) in fp64, in five directions."""
    random = np.random.default_rng(1)
    q, k, v, do = (random.standard_normal(shape) for shape in ((1, 2, 5, 8), (1, 1, 7, 8), (1, 1, 7, 8), (1, 2, 5, 8)))
    _, _, *gradients, _ = reference(q, k, v, do, True, 0.3)
    for number, gradient in enumerate(gradients):
        for _ in range(5):
            step = 1e-5 * random.standard_normal(gradient.shape)
            ends = [[x + sign * step if place == number else x for place, x in enumerate((q, k, v))] for sign in (1, -1)]
            first, second = ((reference(*end, do, True, 0.3)[0] * do).sum() for end in ends)
            np.testing.assert_allclose((gradient * step).sum(), (first - second) / 2, rtol=1e-6)


@pytest.mark.long(but=["True-64"], everywhere=True)
@pytest.mark.parametrize("causal, dim", [(True, 64), (False, 128)])
def test_every_interleaving_is_right(causal, dim):
    arrays, _ = problem(1, 2, 1, 130, 130, dim, causal=causal)
    kernel, grid, args, meta = backward.launches(*arrays, causal=causal)[1]
    arrays[9][:], arrays[10][:] = 0, 0
    report = mimw.check(kernel, grid, *args, seeds=2, **meta)
    assert report.ok, str(report)
    kernel, grid, args, meta = backward.launches(*arrays, causal=causal, one_order=True)[2]
    arrays[9][:] = 0
    report = mimw.check(kernel, grid, *args, seeds=2, **meta)
    assert report.ok, str(report)


def assembly_of(launch, tmp_path):
    """What ptxas says of a launch, compiled for any numbers."""
    kernel, grid, args, meta = launch
    found = prepare(kernel, grid, args, meta, "sm_90a").specialisation
    ptx = to_assembly(found.fn, found.signature, found.constants, target="sm_90a", options={"num_warps": 4}).stage("ptx")
    return assembled(ptx, tmp_path)


def assert_overlap(said):
    assert "serialized" not in said
    assert re.search(r"\b0 bytes spill stores, 0 bytes spill loads", said), said


@pytest.mark.long(shown_by="tests/lowering/test_gemm.py::test_products_overlap_and_nothing_spills")
@pytest.mark.parametrize("options, number", [(dict(chosen=Configuration()), 1), (dict(one_order=True), 2)],
                         ids=["any order", "one order"])
def test_products_overlap_and_nothing_spills(options, number, tmp_path):
    """At D = 128 a consumer has 240 registers and needs all of them."""
    arrays, _ = problem(2, 2, 2, 256, 256, 128, BF16, chosen=options.get("chosen"))
    assert_overlap(assembly_of(backward.launches(*arrays, **options)[number], tmp_path))


SHAPE = (1, 2, 128, 64)


@pytest.mark.parametrize("change, text", [
    (dict(v=(1, 2, 128, 128)), "v is 1 x 2 x 128 x 128; for q 1 x 2 x 128 x 64 and k 1 x 2 x 128"),
    (dict(do=(1, 2, 64, 64)), "do is 1 x 2 x 64 x 64; for q 1 x 2 x 128 x 64 it must be 1 x 2 x"),
    (dict.fromkeys(("k", "v", "dk", "dv"), (1, 3, 128, 64)), "kv_heads is 3 and heads is 2; the heads of k and v must divide"),
    (dict(lse=(1, 2, 127)), "lse is 1 x 2 x 127; for q 1 x 2 x 128 x 64 it must be 1 x 2 x"),
    (dict(rows=(2, 2, 64)), "rows is 2 x 2 x 64; it must be 2 x 2 x 128, .2, batch . heads,"),
    (dict.fromkeys(("q", "k", "v", "o", "do", "dq", "dk", "dv"), (1, 2, 128, 36)),
     "dim is 36; the head dim may be a multiple of 8 up to 128"),
    (dict(causal=True, **dict.fromkeys(("k", "v", "dk", "dv"), (1, 2, 64, 64))),
     "seq_k is 64, reach is 0 and seq_q is 128; the first queries would"),
])
def test_refused_shapes(change, text):
    options = {"causal": change.pop("causal")} if "causal" in change else {}
    names = ("q", "k", "v", "o", "lse", "do", "dq", "dk", "dv", "rows", "sums")
    shapes = {**dict.fromkeys(names, SHAPE), "lse": SHAPE[:3], "rows": (2, 2, 128), "sums": (512, 32), **change}
    arrays = [np.zeros(shapes[name], np.float32 if name in ("lse", "rows", "sums") else np.float16) for name in names]
    with pytest.raises(ValueError, match=text):
        backward.launches(*arrays, chosen=Configuration(), **options)


@pytest.mark.parametrize("change, text", [
    (dict.fromkeys(("q", "o", "do", "dq"), np.zeros(SHAPE, BF16)), "q is bfloat16 and k float16; both must be of one type"),
    (dict(k=np.zeros((1, 2, 128, 128), np.float16)[..., ::2]), "k must be contiguous along its last dimension and have strides of"),
])
def test_refused_arrays(change, text):
    names = ("q", "k", "v", "o", "lse", "do", "dq", "dk", "dv", "rows", "sums")
    arrays = {**dict.fromkeys(names, np.zeros(SHAPE, np.float16)), "lse": np.zeros(SHAPE[:3], np.float32),
              "rows": np.zeros((2, 2, 128), np.float32), "sums": np.zeros((512, 32), np.float32), **change}
    with pytest.raises(ValueError, match=text):
        backward.launches(*arrays.values(), chosen=Configuration())


@pytest.mark.gpu
@pytest.mark.parametrize("causal, dim, seq_q, seq_k", [(False, 128, 1024, 1024), (True, 128, 1000, 1100), (True, 64, 777, 777)])
def test_torch_tensors_with_heads_last_but_one(causal, dim, seq_q, seq_k):
    """Against autograd in fp32; the forward kernel gives O and its log-sum-exps."""
    import torch

    from mimw import ops
    q, do = (torch.randn(2, seq_q, 8, dim, device="cuda", dtype=torch.bfloat16).transpose(1, 2) for _ in range(2))
    k, v = (torch.randn(2, seq_k, 2, dim, device="cuda", dtype=torch.bfloat16).transpose(1, 2) for _ in range(2))
    o, lse = ops.attention(q, k, v, causal=causal, return_lse=True)
    got = torch.ops.mimw.attention_backward(do, q, k, v, o, lse, None, causal)
    exact = [x.double().requires_grad_() for x in (q, k, v)]
    scores = exact[0] @ exact[1].repeat_interleave(4, 1).mT / dim**0.5
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1 + seq_k - seq_q), float("-inf"))
    wanted = torch.autograd.grad(scores.softmax(-1) @ exact[2].repeat_interleave(4, 1), exact, do.double())
    for name, x, one in zip(("dq", "dk", "dv"), got, wanted):
        error = ((x.double() - one).norm() / one.norm()).item()
        assert error < ALLOWED[BF16], f"{name}: {error}"
