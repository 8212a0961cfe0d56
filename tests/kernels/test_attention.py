"""Attention forward: types, head dims, masks, grouped queries, and lengths that no tile divides.

To record a program takes five times as long as to simulate it, so cases have two batches and two heads where they say nothing of
them: one program for all (an argument of 1 makes another one).
"""

import ml_dtypes
import numpy as np
import pytest

import mimw
from mimw.kernels import attention
from mimw.kernels.attention import Configuration

BF16 = ml_dtypes.bfloat16
ALLOWED = {np.float16: 2e-3, BF16: 1.5e-2}  # of O; log-sum-exp is fp32 throughout


def inputs(batch, heads, kv_heads, seq_q, seq_k, dim, dtype):
    random = np.random.default_rng(0)
    shapes = (batch, heads, seq_q, dim), (batch, kv_heads, seq_k, dim), (batch, kv_heads, seq_k, dim)
    q, k, v = (random.standard_normal(shape).astype(dtype) for shape in shapes)
    return q, k, v, np.full_like(q, np.nan), np.full(q.shape[:3], np.nan, np.float32)


def reference(q, k, v, causal, scale):
    """(o, log-sum-exp) in fp32."""
    group = q.shape[1] // k.shape[1]
    q, k, v = q.astype(np.float32), *(np.repeat(x.astype(np.float32), group, axis=1) for x in (k, v))
    scores = scale * q @ k.swapaxes(-1, -2)
    if causal:
        last = np.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2]
        scores = np.where(np.arange(k.shape[2]) <= last, scores, -np.inf)
    lse = np.log(np.exp(scores).sum(-1))
    return np.exp(scores - lse[..., None]) @ v, lse


def launch(machine, arrays, programs=3, **options):
    q, k, v, o, lse = arrays
    counter = np.zeros(1, np.int32)
    grid, args, meta = attention.arguments(q, k, v, o, lse, counter, programs, **options)
    machine.launch(attention.kernel, grid, *args, **meta)
    assert counter[0] == 0, "a launch must leave the counter at 0"


def check(machine, *shape, dtype=np.float16, **options):
    arrays = q, k, v, o, lse = inputs(*shape, dtype)
    launch(machine, arrays, **options)
    scale = options.get("scale") or shape[-1]**-0.5
    expected, expected_lse = reference(q, k, v, options.get("causal", False), scale)
    np.testing.assert_allclose(o.astype(np.float32), expected, rtol=0, atol=ALLOWED[dtype])
    np.testing.assert_allclose(lse, expected_lse, rtol=0, atol=1e-4)


@pytest.mark.long(but=["float16-False-64", "bfloat16-True-128", "float16-*-256"], everywhere=True)
@pytest.mark.parametrize("dim", [64, 128, 256])
@pytest.mark.parametrize("dtype, causal", [(np.float16, False), (BF16, True), *(
    pytest.param(*more, marks=pytest.mark.gpu) for more in ((np.float16, True), (BF16, False)))])
def test_types_and_head_dims(machine, dtype, dim, causal):
    check(machine, 2, 2, 2, 256, 256, dim, dtype=dtype, causal=causal)


@pytest.mark.long(but=["192-*", "96-*"], everywhere=True)
@pytest.mark.parametrize("dim, value_dim, causal, chosen", [(96, 96, True, None),
                                                           (192, 128, True, Configuration(bn=64, k_stages=3, v_stages=3))])
def test_heads_of_two_tiles(machine, dim, value_dim, causal, chosen):
    """96 = 64 + 32 columns, 192 = 128 + 64 with values of 128: several tiles by one program, so that every slot is used again."""
    q, k, v, o, lse = inputs(1, 2, 1, 200, 300, dim, np.float16)
    v, o = v[..., :value_dim].copy(), o[..., :value_dim].copy()
    launch(machine, (q, k, v, o, lse), programs=1, causal=causal, chosen=chosen)
    expected, expected_lse = reference(q, k, v, causal, dim**-0.5)
    np.testing.assert_allclose(o.astype(np.float32), expected, rtol=0, atol=ALLOWED[np.float16])
    np.testing.assert_allclose(lse, expected_lse, rtol=0, atol=1e-4)


@pytest.mark.long(but=["1-1-True", "128-129-False", "257-383-True"], everywhere=True)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("seq_q, seq_k", [(1, 1), (1, 300), (128, 129), (200, 200), (65, 640), (257, 383)])
def test_lengths(machine, seq_q, seq_k, causal):
    check(machine, 2, 2, 2, seq_q, seq_k, 64, causal=causal)


@pytest.mark.long(but=["6-2-True"], everywhere=True)
@pytest.mark.parametrize("heads, kv_heads, causal", [(4, 1, False), (6, 2, True)])
def test_grouped_queries(machine, heads, kv_heads, causal):
    check(machine, 2, heads, kv_heads, 150, 150, 64, causal=causal)


CONFIGURATIONS = {
    "plain": Configuration(),
    "ping_pong": Configuration(ping_pong=True),
    "narrow": Configuration(bn=64, k_stages=3),
    "one_slot": Configuration(ahead=False),
    "deep": Configuration(k_stages=4, v_stages=3),
    "three_consumers": Configuration(bm=192, consumers=3, ping_pong=True),
}
LEFT_TO_A_GPU = ("narrow", False), ("deep", False), ("three_consumers", False)


@pytest.mark.long(but=["plain-False", "ping_pong-True", "narrow-True", "one_slot-False", "deep-True", "three_consumers-*"],
                  everywhere=["plain-False", "ping_pong-True", "one_slot-False", "three_consumers-True"])
@pytest.mark.parametrize("name, causal", [     # those that are checked below with and without a mask, of the others one
    pytest.param(name, causal, marks=[pytest.mark.gpu] * ((name, causal) in LEFT_TO_A_GPU))
    for name in CONFIGURATIONS for causal in (False, True)])
def test_configurations(machine, name, causal):
    check(machine, 2, 2, 1, 300, 300, 64, causal=causal, chosen=CONFIGURATIONS[name])


@pytest.mark.long(but=["1-True", "2-False", "132-True"], everywhere=True)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("programs", [1, 2, 132])
def test_any_number_of_programs(machine, programs, causal):
    """One program computes tiles of one block between longer ones: rings must go round without waiting for themselves."""
    check(machine, 2, 2, 2, 256, 256, 64, programs=programs, causal=causal)


def test_a_scale_of_ones_own(machine):
    check(machine, 2, 2, 2, 128, 256, 64, scale=0.5)


@pytest.mark.gpu
@pytest.mark.long(but=["True"])
@pytest.mark.parametrize("causal", [False, True])
def test_torch_tensors_with_heads_last_but_one(causal):
    import torch

    from mimw import ops
    q, k, v = (torch.randn(2, 200, heads, 128, device="cuda", dtype=torch.bfloat16).transpose(1, 2) for heads in (8, 2, 2))
    o, lse = ops.attention(q, k, v, causal=causal, return_lse=True)
    expected, expected_lse = reference(*(x.float().cpu().numpy() for x in (q, k, v)), causal, 128**-0.5)
    np.testing.assert_allclose(o.float().cpu().numpy(), expected, rtol=0, atol=ALLOWED[BF16])
    np.testing.assert_allclose(lse.cpu().numpy(), expected_lse, rtol=0, atol=1e-4)


@pytest.mark.long(but=["plain-False", "ping_pong-True", "one_slot-True"], everywhere=True)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", ["plain", "ping_pong", "one_slot"])
def test_every_interleaving_is_right(name, causal):
    q, k, v, o, lse = inputs(2, 2, 1, 200, 200, 64, np.float16)
    grid, args, meta = attention.arguments(q, k, v, o, lse, np.zeros(1, np.int32), 2, causal, chosen=CONFIGURATIONS[name])
    report = mimw.check(attention.kernel, grid, *args, seeds=2, **meta)
    assert report.ok, str(report)


SHAPE = (1, 2, 128, 64)


@pytest.mark.parametrize("change, text", [
    (dict(k=(1, 2, 128, 128)), "k is 1 x 2 x 128 x 128; for q 1 x 2 x 128 x 64 it must be 1 x 2 x"),
    (dict(k=(1, 3, 128, 64), v=(1, 3, 128, 64)), "kv_heads is 3 and heads is 2; the heads of k and v must divide"),
    (dict(o=(1, 2, 128, 128)), "o is 1 x 2 x 128 x 128"),
    (dict(lse=(1, 2, 127)), "lse is 1 x 2 x 127; for q 1 x 2 x 128 x 64 it must be 1 x 2 x"),
    (dict.fromkeys("qkvo", (1, 2, 128, 32)), "dim is 32; the head dim may be 64, 96, 128, 192, 256"),
    (dict(causal=True, k=(1, 2, 64, 64), v=(1, 2, 64, 64)), "seq_k is 64, reach is 0 and seq_q is 128; the first queries would"),
    (dict(scale=-1.0), "scale is -1.0"),
])
def test_refused_shapes(change, text):
    options = {name: change.pop(name) for name in ("causal", "scale") if name in change}
    shapes = {**dict.fromkeys("qkvo", SHAPE), "lse": SHAPE[:3], **change}
    arrays = [np.zeros(shape, np.float32 if name == "lse" else np.float16) for name, shape in shapes.items()]
    with pytest.raises(ValueError, match=text):
        attention.arguments(*arrays, np.zeros(1, np.int32), 1, **options)


@pytest.mark.parametrize("change, text", [
    (dict(v=np.zeros(SHAPE, BF16)), "q is float16 and v bfloat16; both must be of one type"),
    (dict.fromkeys("qkvo", np.zeros(SHAPE, np.float32)), "q is float32; it may be bfloat16, float16"),
    (dict(k=np.zeros((1, 2, 128, 128), np.float16)[..., ::2]), "k must be contiguous along its last dimension and have strides of"),
    (dict(q=np.zeros((1, 2, 128, 68), np.float16)[..., :64]), "q must be contiguous along its last dimension and have strides of"),
])
def test_refused_arrays(change, text):
    arrays = {**dict.fromkeys("qkvo", np.zeros(SHAPE, np.float16)), **change}
    with pytest.raises(ValueError, match=text):
        attention.arguments(*arrays.values(), np.zeros(SHAPE[:3], np.float32), np.zeros(1, np.int32), 1)


@pytest.mark.parametrize("seq_q, bm", [(128, 128), (200, 128), (384, 192), (512, 128), (1024, 128), (1536, 192), (2048, 192)])
def test_tiles_of_192_queries_where_few_of_their_rows_are_idle(seq_q, bm):
    assert [attention.configuration(dim, False, seq_q=seq_q).bm for dim in (64, 96)] == [bm, bm]
    assert attention.configuration(64, False).bm == 192 and attention.configuration(64, False, True, seq_q).bm == 128
