"""Gradients of LayerNorm and RMSNorm against numpy in fp64: both forms, types, rows that no chunk fits, a gradient more, sums."""

import ml_dtypes
import numpy as np
import pytest

from mimw.kernels import norm_backward
from mimw.kernels.norm import Configuration
from mimw.runtime.simulate import prepare
from tests.compiling import to_assembly
from tests.lowering.assembly import assembled

TYPES = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16, "fp32": np.float32}
ROUNDED = {"fp16": 3e-3, "bf16": 1.6e-2, "fp32": 1e-5}
RING = Configuration("ring", 1, 128, 2, 4, 3, 2)
PAIR = Configuration("ring", 2, 64, 2, 4, 3, 2)
BLOCKS = Configuration("ring", 2, 64, 2, 4, 3, 2, rows=4, held=True)
AHEAD = Configuration("ring", 2, 64, 2, 8, 3, 1, ahead=True)
TURNS = Configuration("ring", 2, 64, 2, 4, 5, 2, rows=2, held=True, ahead=True, apart=True)
DIRECT = Configuration("direct", 1, 256, 1, 4, rows=2)
SHARED = Configuration("direct", 4, 64, 1, 4)
LOOPED = Configuration("direct", 2, 64, 2, 4)
CHOICES = {"ring": RING, "ring of pairs": PAIR, "blocks": BLOCKS, "ahead": AHEAD, "turns": TURNS, "direct": DIRECT,
           "cluster": SHARED, "loops": LOOPED}


def numbers(*shapes, dtype=np.float16, mean=0.0):
    random = np.random.default_rng(0)
    return [(mean + random.standard_normal(shape, np.float32)).astype(dtype) for shape in shapes]


def gradients(x, dy, w, more, centred, eps=1e-5):
    """(mean, rstd) in fp32, (dx, dw, db) in fp64."""
    wide, wide_dy = x.astype(np.float64), dy.astype(np.float64)
    mean = wide.mean(1, keepdims=True) if centred else np.zeros((len(x), 1))
    rstd = 1 / np.sqrt(((wide - mean)**2).mean(1, keepdims=True) + eps)
    h, g = (wide - mean) * rstd, wide_dy if w is None else wide_dy * w.astype(np.float64)
    dx = rstd * (g - h * (g * h).mean(1, keepdims=True) - (g.mean(1, keepdims=True) if centred else 0))
    dx = dx if more is None else dx + more.astype(np.float64)
    return mean[:, 0].astype(np.float32), rstd[:, 0].astype(np.float32), dx, (wide_dy * h).sum(0), wide_dy.sum(0)


def launches_of(x, dy, w, chosen, centred=True, more=None, bias=True, sums_dtype=None):
    """(launches, what they fill, what should be there)."""
    rows, n = x.shape
    mean, rstd, *expected = gradients(x, dy, w, more, centred)
    dtype = sums_dtype or x.dtype
    found = [np.full(x.shape, np.nan, x.dtype), np.full(n, np.nan, dtype), np.full(n, np.nan, dtype) if bias else None]
    parts = np.full((2, norm_backward.parts_of(rows, n, chosen, 2), n), np.nan, np.float32)
    made = norm_backward.arguments(x, dy, w, mean if centred else None, rstd, *found, parts, more, chosen, room=2)
    return made, found, expected


def check_gradients(machine, close, *args, **options):
    launches, found, expected = launches_of(*args, **options)
    for kernel, grid, given, meta in launches:
        machine.launch(kernel, grid, *given, **meta)
    for one, other in zip(found, expected):
        if one is not None:
            np.testing.assert_allclose(one.astype(np.float64), other, rtol=close, atol=close)


@pytest.mark.long(everywhere=[
    "ring of pairs-fp32-132", "ahead-bf16-200", "ring-fp16-256", "loops-fp16-200", "cluster-fp32-132", "direct-bf16-200"])
@pytest.mark.parametrize("choice, dtype, n", [("ring", "fp16", 256), ("ring of pairs", "bf16", 200), ("ring of pairs", "fp32", 132),
                                              ("blocks", "bf16", 200), ("ahead", "bf16", 200), ("turns", "fp32", 132),
                                              ("direct", "bf16", 200), ("cluster", "fp32", 132), ("loops", "fp16", 200)])
def test_rows(machine, dtype, n, choice):
    rows = 8 if choice in ("blocks", "turns") else 5
    x, dy, w = numbers((rows, n), (rows, n), n, dtype=TYPES[dtype])
    check_gradients(machine, ROUNDED[dtype] * 2, x, dy, w, CHOICES[choice], sums_dtype=np.float32)


@pytest.mark.long(everywhere=["ahead", "loops", "direct"])
@pytest.mark.parametrize("choice", ["ring of pairs", "ahead", "turns", "direct", "loops"])
def test_rms_with_a_gradient_more(machine, choice):
    x, dy, more, w = numbers((5, 168), (5, 168), (5, 168), 168)
    check_gradients(machine, 4e-3, x, dy, w, CHOICES[choice], centred=False, more=more, bias=False)


@pytest.mark.parametrize("choice", ["ring of pairs", "cluster"])
def test_a_mean_far_from_zero(machine, choice):
    """x mean and 1 / deviation are each large against what is left of them."""
    x, = numbers((3, 200), dtype=np.float32, mean=300)
    dy, = numbers((3, 200), dtype=np.float32)
    check_gradients(machine, 1e-3, x, dy, None, CHOICES[choice])


def test_rows_that_are_apart(machine):
    x, dy, w = numbers((5, 240), (5, 240), 160)
    check_gradients(machine, 4e-3, x[:, 8:168], dy[:, 16:176], w, PAIR)
    check_gradients(machine, 4e-3, x[:, 3:163], dy[:, :160], w, LOOPED)


@pytest.mark.long(but=["ahead-bf16-shape2-3", "cluster-fp32-shape4-3", "turns-fp32-shape3-2"], everywhere=True)
@pytest.mark.parametrize("choice, dtype, shape, seeds", [("ring", "fp16", (9, 256), 4), ("ring of pairs", "fp32", (9, 132), 4),
                                                         ("ahead", "bf16", (5, 168), 3), ("turns", "fp32", (8, 132), 2),
                                                         ("cluster", "fp32", (9, 132), 3)])
def test_clean(check_kernel, choice, dtype, shape, seeds):
    """The programs of `test_rows`."""
    launches, *_ = launches_of(*numbers(shape, shape, shape[1], dtype=TYPES[dtype]), CHOICES[choice], sums_dtype=np.float32)
    for kernel, grid, args, meta in launches:
        check_kernel(kernel, grid, *args, seeds=seeds, shrink=False, rounds=False, **meta)


@pytest.mark.parametrize("choice", ["ring of pairs", "turns"])
def test_sums_are_the_same_in_every_interleaving(choice):
    """Each column is added up in one order, whoever comes first."""
    import mimw
    seen = set()
    for seed in range(4):
        launches, (dx, dw, db), _ = launches_of(*numbers((8, 72), (8, 72), 72, dtype=np.float32), CHOICES[choice])
        for kernel, grid, args, meta in launches:
            mimw.simulate(kernel, grid, *args, seed=seed, **meta)
        seen.add((dx.tobytes(), dw.tobytes(), db.tobytes()))
    assert len(seen) == 1


@pytest.mark.long(but=["4-65536-True", "4096-4096-True"], everywhere=True)
@pytest.mark.parametrize("rows, n, centred", [(1152, 65536, False), (4, 65536, True), (4096, 4096, True)])
def test_compiled(rows, n, centred, tmp_path):
    """Wide accesses, and no spills. Of the ring only the producer loads, one number of each of two rows: ptxas has consumers wait
    for a load at once, even of a number that they need a block later."""
    x, w, statistic = np.empty((rows, n), ml_dtypes.bfloat16), np.empty(n, ml_dtypes.bfloat16), np.empty(rows, np.float32)
    parts = np.empty((2, norm_backward.parts_of(rows, n, norm_backward.chosen_for(x, x, w, x)), n), np.float32)
    mean, db = (statistic, w) if centred else (None, None)
    (kernel, grid, args, meta), *_ = norm_backward.arguments(x, x, w, mean, statistic, x, w, db, parts)
    found = prepare(kernel, grid, args, meta, "sm_90a").specialisation
    constants = {found.fn.arg_names[first]: value for (first, *_), value in found.constants.items()}
    ptx = to_assembly(found.fn, found.signature, constants, target="sm_90a", options=found.options, attrs=found.attrs).stage("ptx")
    assert ("cp.async.bulk.shared" in ptx) == (rows == 1152) and "st.global.v4" in ptx and "st.global.b16" not in ptx
    assert rows != 1152 or ptx.count("ld.global") == 2
    assert "0 bytes spill stores" in assembled(ptx, tmp_path)


@pytest.mark.parametrize("n, programs", [(16384, 128), (131072, 512)])
def test_sums_over_rows_are_made_by_few_programs(n, programs):
    """Programs of eight warps: eight times as many of four took 2 % of LN7's gradients longer."""
    x, w, statistic = np.empty((1152, n), ml_dtypes.bfloat16), np.empty(n, ml_dtypes.bfloat16), np.empty(1152, np.float32)
    parts = np.empty((2, norm_backward.parts_of(1152, n, norm_backward.chosen_for(x, x, w, x)), n), np.float32)
    _, (kernel, grid, _, meta) = norm_backward.arguments(x, x, w, statistic, statistic, x, w, w, parts)
    assert kernel is norm_backward.add_parts and grid == (programs, 2) and meta["num_warps"] == 8


def test_configurations():
    for rows in (1, 4, 201, 5000):
        for n in (1, 100, 5120, 16384, 40000, 131072, 1 << 20):
            for staged in (2, 3):
                chosen = norm_backward.configuration(rows, n, 2, staged)
                assert n <= chosen.ctas * chosen.chunk * chosen.chunks and chosen.ctas <= 16
                assert 1 <= norm_backward.parts_of(rows, n, chosen) <= max(rows, 2)
                if chosen.form == "ring":
                    assert chosen.chunk * chosen.chunks * (4 + 2 * staged * chosen.stages * chosen.rows) <= 232448 - 2048
    several = [norm_backward.configuration(rows, 65536, 2, staged) for rows, staged in ((1152, 2), (1151, 2), (1152, 3))]
    assert [(one.rows, one.stages) for one in several] == [(2, 3), (1, 6), (1, 4)]


@pytest.mark.parametrize("change, text", [
    (dict(x=np.zeros(64, np.float16)), "x has 1 dimensions"),
    (dict(dy=np.zeros((4, 64), np.int32)), "dy is int32; it may be bfloat16, float16, float32"),
    (dict(dx=np.zeros((4, 63), np.float16)), "dx is 4 x 63; for x 4 x 64 it must be 4 x 64, .rows, N."),
    (dict(rstd=np.zeros(4, np.float16)), "rstd is float16; it may be float32"),
    (dict(parts=None), "parts is None; it is needed, as fp32 .2, count, N."),
    (dict(chosen=Configuration("direct", 1, 32, 1, 1)), "rows of 64 elements do not fit: 1 x 32 x 1 do"),
    (dict(dy=np.zeros((4, 65), np.float16)[:, :64], chosen=RING), "rows of 64 elements, .64, 65, 64. apart, are not"),
])
def test_refusals(change, text):
    x, statistic = np.zeros((4, 64), np.float16), np.zeros(4, np.float32)
    given = dict(x=x, dy=x, weight=None, mean=statistic, rstd=statistic, dx=x, dw=x[0], db=None,
                 parts=np.zeros((2, 1, 64), np.float32)) | change
    with pytest.raises(ValueError, match=text):
        norm_backward.arguments(**given)
