"""Kernels of the library for chips of AMD: simulated by the rules of each, equal to numpy, and compiled to a binary that spills
nothing, fits the chip's shared memory and has matrix instructions where there are products.

Nothing here has run on a chip of AMD.
"""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import mimw
from mimw.errors import OutOfSharedMemory, TargetError
from mimw.kernels import (
    attention,
    cross_entropy,
    gemm,
    grouped_gemm,
    moe_align,
    norm,
    plain_attention,
    plain_attention_backward,
    plain_attention_decode,
    plain_matmul,
    plain_simplicial_attention,
    plain_sparse_mla,
    plain_topk,
    rope,
    softmax,
    swiglu,
    topk_selector,
)
from mimw.kernels.norm.configs import plain_configuration
from mimw.kernels.plain_attention_backward import tiles_on_amd
from mimw.target import target
from tests.kernels import test_simplicial_attention as simplicial
from tests.kernels import test_sparse_mla as mla
from tests.kernels.test_moe_align import buffers, check, zipf

CHIPS = "gfx942", "gfx950", "gfx1250"
BF16 = ml_dtypes.bfloat16
PRODUCT = {"gfx942": "v_mfma_f32", "gfx950": "v_mfma_f32", "gfx1250": "v_wmma_f32"}
LOADS = {chip: r"(?:global|buffer)_load_dwordx4" for chip in CHIPS} | {"gfx1250": r"(?:global|buffer)_load_b128"}
STORES = {chip: found.replace("load", "store") for chip, found in LOADS.items()}
NARROW = r"(?:global|buffer)_load_(?:u?short|u?byte|dword|[iu]8|d?u?16|b16|d16_b16|b32)\b"


def normal(shape, dtype=np.float16, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def wide(x):
    return x.astype(np.float64)


def compiled(chip, kernel, grid, args, meta):
    """The binary of a launch, which spills nothing and fits."""
    found = mimw.compile(kernel, grid, *args, target=chip, **meta)
    assert found.hsaco[:4] == b"\x7fELF" and found.spilled_registers == 0 and found.stack_bytes == 0
    assert found.shared_bytes <= target(chip).shared_bytes
    return found


def simulated(chip, kernel, grid, args, meta, *wanted):
    """Without races it finds what is wanted, (array, expected, allowed) each."""
    mimw.simulate(kernel, grid, *args, target=chip, races=True, **meta)
    for found, expected, allowed in wanted:
        np.testing.assert_allclose(wide(found), expected, rtol=0, atol=allowed * max(1, np.abs(expected).max()))


def runs(chip, kernel, grid, args, meta, *wanted, has=()):
    """Its assembly, with these instructions; simulated it finds what is wanted."""
    simulated(chip, kernel, grid, args, meta, *wanted)
    text = compiled(chip, kernel, grid, args, meta).amdgcn
    for instruction in has:
        assert re.search(instruction[chip], text), instruction[chip]
    return text


# ---- products -----------------------------------------------------------------------------------------------------------


@pytest.mark.long(but=["float16-False-0.001-gfx942", "float16-False-0.001-gfx1250"], everywhere=True)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("dtype, exact, allowed", [(np.float16, False, 1e-3), (np.float32, False, 2e-3), (np.float32, True, 1e-6)])
def test_plain_matmul(chip, dtype, exact, allowed):
    """fp32 as tf32 only on gfx942, which has it (xf32); the others multiply fp32 as it is."""
    a, b, c = normal((1, 24, 32), dtype), normal((1, 32, 32), dtype, 1), np.zeros((1, 24, 32), dtype)
    grid, args, meta = plain_matmul.arguments(a, b, c, exact)
    text = runs(chip, plain_matmul.kernel, grid, args, meta, (c, wide(a) @ wide(b), allowed), has=(PRODUCT, ))
    assert ("xf32" in text) == (chip == "gfx942" and dtype is np.float32 and not exact)


def gemm_of_tasks(chip):
    """(launch, what is wanted)."""
    a, b, c = normal((72, 136)), normal((136, 72), seed=1), np.zeros((72, 72), np.float16)
    return (gemm.kernel, *gemm.arguments(a, b, c, 2, gemm.ON_AMD[chip])), [(c, wide(a) @ wide(b), 1e-3)]


def attention_of_tasks():
    q, k, v = (normal((1, 1, length, 64), seed=length) for length in (80, 192, 192))
    o, lse = np.zeros_like(q), np.zeros((1, 1, 80), np.float32)
    launch = attention.kernel, *attention.arguments(q, k, v, o, lse, np.zeros(1, np.int32), 2, chosen=attention.ON_AMD[64])
    _, expected, sums = attended(q, k, v, 0.125, causal=False)
    return launch, [(o, expected, 2e-3), (lse, sums, 1e-3)]


@pytest.mark.long(but=["gfx950"], everywhere=True)
@pytest.mark.parametrize("chip", CHIPS)
def test_kernels_of_tasks(chip):
    for launch, wanted in gemm_of_tasks(chip), attention_of_tasks():
        simulated(chip, *launch, *wanted)


@pytest.mark.long(but=["gemm-gfx942"], everywhere=True)      # grouped products run on all
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", ["gemm", "attention"])
def test_code_of_tasks(name, chip):
    launch, _ = gemm_of_tasks(chip) if name == "gemm" else attention_of_tasks()
    assert re.search(PRODUCT[chip], compiled(chip, *launch).amdgcn)


@pytest.mark.long(but=["gfx942"], everywhere=True)
@pytest.mark.parametrize("chip", CHIPS)
def test_grouped_products(chip):
    """By the configuration of the smallest chip, which fits all."""
    a, b, c = normal((90, 72)), normal((3, 72, 64), seed=1), np.zeros((90, 64), np.float16)
    ends = np.array([40, 40, 90], np.int32)
    grid, args, meta = grouped_gemm.arguments(a, b, c, ends, 2, grouped_gemm.ON_AMD["gfx942"])
    expected = np.concatenate([wide(a[:40]) @ wide(b[0]), wide(a[40:]) @ wide(b[2])])
    runs(chip, grouped_gemm.kernel, grid, args, meta, (c, expected, 1e-3), has=(PRODUCT, ))


# ---- attention ----------------------------------------------------------------------------------------------------------


def attended(q, k, v, scale, causal=True):
    """(probabilities, o, lse) in fp64; of causal attention as many queries as keys."""
    scores = wide(q) @ wide(k).swapaxes(2, 3) * scale
    scores = np.where(np.tri(q.shape[2], dtype=bool), scores, -np.inf) if causal else scores
    lse = np.log(np.exp(scores).sum(-1))
    p = np.exp(scores - lse[..., None])
    return p, p @ wide(v), lse


@pytest.mark.long(but=["gfx950"], everywhere=True)
@pytest.mark.parametrize("chip", CHIPS)
def test_plain_attention_and_its_gradients(chip):
    q, k, v, do = (normal((1, 2, 32, 32), seed=seed) for seed in range(4))
    o, lse, dq, dk, dv = np.zeros_like(q), np.zeros((1, 2, 32), np.float32), *(np.zeros_like(q) for _ in range(3))
    scale = 32**-0.5
    p, expected, sums = attended(q, k, v, scale)
    grid, args, meta = plain_attention.arguments(q, k, v, o, lse, True)
    runs(chip, plain_attention.kernel, grid, args, meta, (o, expected, 2e-3), (lse, sums, 1e-3), has=(PRODUCT, ))
    delta = (expected * wide(do)).sum(-1)
    ds = p * (wide(do) @ wide(v).swapaxes(2, 3) - delta[..., None]) * scale
    launches = plain_attention_backward.launches(q, k, v, do, lse, delta.astype(np.float32), dq, dk, dv, True,
                                                 chosen=tiles_on_amd(32, 32, 32, 32, 2))
    wanted = [[(dq, ds @ wide(k), 2e-3)], [(dk, ds.swapaxes(2, 3) @ wide(q), 2e-3), (dv, p.swapaxes(2, 3) @ wide(do), 2e-3)]]
    for launch, found in zip(launches, wanted):
        runs(chip, *launch, *found, has=(PRODUCT, ))


@pytest.mark.long(but=["gfx942-256-float16"], everywhere=True)
@pytest.mark.parametrize("chip, dim, dtype", [("gfx942", 256, np.float16), ("gfx950", 128, np.float16)])
def test_gradients_of_wide_heads_spill_nothing(chip, dim, dtype):
    """The configuration for NVIDIA's chips, of eight warps, spills here."""
    q, lse = np.zeros((1, 1, 256, dim), dtype), np.zeros((1, 1, 256), np.float32)
    chosen = tiles_on_amd(256, 256, dim, dim, q.dtype.itemsize)
    _, of_keys = plain_attention_backward.launches(q, q, q, q, lse, lse, *(q.copy() for _ in range(3)), True, chosen=chosen)
    compiled(chip, *of_keys)


@pytest.mark.long(but=["gfx950"], everywhere=True)
@pytest.mark.parametrize("chip", CHIPS)
def test_attention_decode(chip):
    """A sequence of whole tiles and one of few keys; on one chip in two parts, whose sums a second launch puts together."""
    splits = 1 + (chip == "gfx950")
    q, k, v = (normal((2, 1 if seed == 0 else 96, 4 if seed == 0 else 2, 32), seed=seed) for seed in range(3))
    lengths, o, lse = np.array([96, 21], np.int32), np.zeros_like(q), np.zeros((2, 4, 1), np.float32)
    room = np.zeros(plain_attention_decode.room_for(q, 32, splits), np.float32) if splits > 1 else None
    launches = plain_attention_decode.arguments(q, k, v, lengths, o, lse, room, splits=splits)
    heads = [np.repeat(wide(x), 2, 2) for x in (k, v)]
    scores = np.einsum("bqhd,bkhd->bhqk", wide(q), heads[0]) * 32**-0.5
    p = np.exp(np.where(np.arange(96) < lengths[:, None, None, None], scores, -np.inf))
    for (kernel, *launch), has in zip(launches, ((PRODUCT, ), ())):
        runs(chip, kernel, *launch, has=has)
    np.testing.assert_allclose(wide(o), np.einsum("bhqk,bkhd->bqhd", p / p.sum(-1, keepdims=True), heads[1]), atol=2e-3)
    np.testing.assert_allclose(lse, np.log(p.sum(-1)), atol=1e-3)


@pytest.mark.long(but=["gfx1250"], everywhere=True)
@pytest.mark.parametrize("chip", CHIPS)
def test_sparse_mla(chip):
    arrays = q, kv, indices, lengths, out, lse = mla.problem(h=16, skv=48, topk=32, lengths=[32, 5])
    launch = plain_sparse_mla.arguments(*arrays)
    runs(chip, plain_sparse_mla.kernel, *launch, has=(PRODUCT, ))
    mla.close((wide(out), lse), mla.reference(*arrays))


@pytest.mark.long(shown_by="test_plain_attention_and_its_gradients")
@pytest.mark.parametrize("chip", CHIPS)
def test_simplicial_attention_and_its_gradients(chip):
    arrays = q, k, v, *_ = simplicial.inputs(1, 2, 1, 9, 14, 16, np.float16)
    do, windows = normal(q.shape, seed=9), (6, 3)
    o, lse = simplicial.results(q)
    launch = plain_simplicial_attention.arguments(*arrays, o, lse, windows, 0.3)
    runs(chip, plain_simplicial_attention.kernel, *launch, has=(PRODUCT, ))
    simplicial.check(o, lse, arrays, windows, 0.3)
    if chip != "gfx942":        # compiled for the others as well, which takes long
        return
    delta = (wide(o) * wide(do)).sum(-1).astype(np.float32)
    found = *(np.full(x.shape, np.nan, np.float32) for x in (q, k, v)), *(np.zeros(k.shape, np.float32) for _ in range(2))
    for launch in plain_simplicial_attention.gradient_arguments(*arrays, do, lse, delta, *found, windows, 0.3):
        runs(chip, *launch, has=(PRODUCT, ))
    simplicial.check_gradients(found, arrays, do, lse, delta, windows, 0.3)


# ---- rows ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chip", CHIPS)
def test_softmax(chip):
    x = normal((4, 1024), np.float32)
    y, powers = np.zeros_like(x), np.exp(wide(x))
    launch = softmax.arguments(x, y, chosen=plain_configuration(*x.shape))
    runs(chip, *launch, (y, powers / powers.sum(1, keepdims=True), 1e-6), has=(LOADS, STORES))


@pytest.mark.long(but=["True-gfx950", "False-gfx1250"], everywhere=True)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("centred", [True, False])
def test_norms(chip, centred):
    """All rows and vectors by accesses of 16 bytes."""
    x, w, b = normal((4, 1024), BF16), normal(1024, BF16, 1), normal(1024, BF16, 2)
    y, mean, rstd = np.zeros_like(x), np.zeros(4, np.float32), np.zeros(4, np.float32)
    of_x = wide(x) - (wide(x).mean(1, keepdims=True) if centred else 0)
    deviation = np.sqrt((of_x**2).mean(1, keepdims=True) + 1e-5)
    launch = norm.arguments(x, w, b if centred else None, y, None, None, mean if centred else None, rstd, centred=centred,
                            chosen=plain_configuration(*x.shape))
    expected = of_x / deviation * wide(w) + (wide(b) if centred else 0)
    text = runs(chip, *launch, (y, expected, 8e-3), (rstd, 1 / deviation[:, 0], 1e-5), has=(LOADS, STORES))
    assert not re.search(NARROW, text)


@pytest.mark.long(but=["gfx942"], everywhere=True)
@pytest.mark.parametrize("chip", CHIPS)
def test_cross_entropy(chip):
    """The gradient in the place of the logits."""
    x, targets = normal((4, 512), np.float32), np.array([3, 0, 511, 70])
    losses, lses = np.zeros(4, np.float32), np.zeros(4, np.float32)
    sums = np.log(np.exp(wide(x)).sum(1))
    gradient, loss = np.exp(wide(x) - sums[:, None]), sums - wide(x)[np.arange(4), targets]
    gradient[np.arange(4), targets] -= 1
    launch = cross_entropy.arguments(x, targets, losses, lses, x, chosen=plain_configuration(*x.shape))
    runs(chip, *launch, (losses, loss, 1e-5), (lses, sums, 1e-5), (x, gradient, 1e-5), has=(LOADS, STORES))


@pytest.mark.parametrize("chip", CHIPS)
def test_swiglu(chip):
    gate, up = normal((3, 2048)), normal((3, 2048), seed=1)
    y = np.zeros_like(gate)
    runs(chip, *swiglu.arguments(gate, up, y), (y, wide(gate) / (1 + np.exp(-wide(gate))) * wide(up), 1e-3))


@pytest.mark.long(but=["gfx950"], everywhere=True)
@pytest.mark.parametrize("chip", CHIPS)
def test_rope(chip):
    x, cos, sin = normal((1, 2, 16, 64)), normal((1, 16, 32), np.float32, 1), normal((1, 16, 32), np.float32, 2)
    y, first, second = np.zeros_like(x), wide(x)[..., :32], wide(x)[..., 32:]
    expected = np.concatenate([first * cos - second * sin, first * sin + second * cos], -1)
    runs(chip, *rope.arguments((x, ), (y, ), cos, sin), (y, expected, 2e-3))


@pytest.mark.long(but=["gfx1250"], everywhere=True)
@pytest.mark.parametrize("chip", CHIPS)
def test_topk(chip):
    x = normal((2, 14), np.float32)
    values, indices = np.zeros((2, 5), np.float32), np.zeros((2, 5), np.int64)
    order = np.argsort(-x, 1, kind="stable")[:, :5]
    grid, args, meta = plain_topk.arguments(x, None, values, indices)
    runs(chip, plain_topk.kernel, grid, args, meta, (values, np.take_along_axis(x, order, 1), 0), (indices, order, 0))


@pytest.mark.long(shown_by="test_topk")
@pytest.mark.parametrize("chip", CHIPS)
def test_topk_selector(chip):
    """By one program a row, in no layout of 32 lanes: a window over two tiles, and one with fewer numbers than wanted."""
    x, places = normal((2, 9216), np.float32), np.zeros((2, 20), np.int32)
    starts, ends = np.array([7, 10], np.int32), np.array([8500, 15], np.int32)
    chosen = topk_selector.Configuration(candidates=64, pinned=False)
    runs(chip, topk_selector.kernel, *topk_selector.arguments(x, starts, ends, places, None, chosen), has=(LOADS, ))
    assert set(places[0]) == set(7 + np.argsort(-x[0, 7:8500])[:20])
    assert sorted(places[1]) == [-1] * 15 + list(range(10, 15))


@pytest.mark.long(but=["gfx950"], everywhere=True)
@pytest.mark.parametrize("chip", CHIPS)
def test_moe_align(chip):
    """By one program, four tokens a thread."""
    ids, outs = zipf(4096, 8), buffers(4096, 8, 16)
    chosen = moe_align.Configuration("alone", 2048)
    runs(chip, *moe_align.arguments(ids, *outs, 8, 16, 1, chosen), has=(LOADS, ))
    check(ids, 8, 16, *outs[:3])


# ---- what these chips have not ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form, text", [
    ("grid", "it has no barrier among all CTAs of a grid"), ("cluster", "gfx950 has no clusters")])
def test_what_a_chip_has_not_is_refused(form, text):
    launch = moe_align.arguments(zipf(64, 8), *buffers(64, 8, 16), 8, 16, 1, moe_align.Configuration(form, 64))
    with pytest.raises(TargetError, match=text):
        mimw.compile(launch[0], launch[1], *launch[2], target="gfx950", **launch[3])


def test_a_configuration_for_hopper_does_not_fit():
    a, c = normal((128, 128)), np.zeros((128, 128), np.float16)
    grid, args, meta = gemm.arguments(a, a, c, 1, gemm.Configuration())
    with pytest.raises(OutOfSharedMemory, match="a CTA on gfx942 has 65536"):
        mimw.compile(gemm.kernel, grid, *args, target="gfx942", **meta)
