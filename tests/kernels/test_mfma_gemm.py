"""The GEMM for AMD's matrix cores, simulated by the rules of each chip with a look for races, against numpy.

Nothing here has run on a chip of AMD.
"""

from __future__ import annotations

from dataclasses import replace
from math import erf

import ml_dtypes
import numpy as np
import pytest

import mimw
from mimw.kernels import mfma_gemm
from mimw.kernels.mfma_gemm import CONFIGURATIONS, INTERLEAVED, Configuration, configuration
from mimw.kernels.mfma_gemm.order import tile_of_xcd

BF16, E4, E5 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
Z4, Z5 = ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz
CHIPS = "gfx942", "gfx950", "gfx1250"
FORMS = "ping-pong", "interleave"


def small(form, size, **more):
    """Tiles of 64 x 64, 128 bytes of K."""
    return Configuration(form, bm=64, bn=64, bk=128 // size, **more)


def drawn(rows, columns, dtype, seed, wider=0):
    """Multiples of 1/4, of which sums are exact; rows lie further apart by `wider` elements."""
    whole = np.random.default_rng(seed).integers(-8, 9, (rows, columns + wider)).astype(np.float32) / 4
    return whole.astype(dtype)[:, :columns]


def multiplied(chip, shape, dtype=np.float16, chosen=None, nk=True, wider=0, out=np.float32, other=None, **epilogue):
    """(a, b, c) of a product that is simulated without races."""
    m, n, k = shape
    other = other or dtype
    a, b = drawn(m, k, dtype, 0, wider), drawn(n, k, other, 1, wider).T if nk else drawn(k, n, other, 1, wider)
    c = np.zeros((m, n), out)
    grid, args, meta = mfma_gemm.arguments(a, b, c, chip, chosen, **epilogue)
    mimw.simulate(mfma_gemm.kernel, grid, *args, target=chip, races=True, **meta)
    return a.astype(np.float32), b.astype(np.float32), c


# ---- products -----------------------------------------------------------------------------------------------------------


@pytest.mark.long(everywhere=True, but=[
    "gfx1250-float16-ping-pong", "gfx942-bfloat16-ping-pong", "gfx942-float8_e4m3fnuz-interleave",
    "gfx942-float8_e5m2fnuz-ping-pong", "gfx950-float8_e4m3fn-ping-pong", "gfx950-float8_e5m2-interleave"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("chip, dtype", [("gfx942", BF16), ("gfx942", Z4), ("gfx942", Z5), ("gfx950", BF16), ("gfx950", E4),
                                         ("gfx950", E5), ("gfx1250", np.float16), ("gfx1250", E4)])
def test_types(chip, dtype, form):
    """Three chunks of K, of which interleaving multiplies a fourth one of zeros."""
    size = np.dtype(dtype).itemsize
    a, b, c = multiplied(chip, (64, 64, 3 * 128 // size), dtype, small(form, size))
    np.testing.assert_array_equal(c, a @ b)


@pytest.mark.long(but=["False-gfx950-ping-pong", "True-gfx1250-interleave", "True-gfx942-ping-pong"], everywhere=True)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("nk", [True, False])
def test_parts_of_tiles(chip, form, nk):
    """Tiles that end within a tile along M, N and K, which copies of 16 bytes still read."""
    a, b, c = multiplied(chip, (72, 40, 136), chosen=small(form, 2), nk=nk)
    np.testing.assert_array_equal(c, a @ b)


@pytest.mark.long(but=["shape0-*-ping-pong", "shape1-*-interleave", "shape2-*-interleave", "shape3-*-ping-pong"], everywhere=True)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape, wider, nk", [((67, 5, 75), 0, True), ((67, 69, 75), 0, False), ((3, 70, 70), 2, True),
                                              ((1, 64, 1), 0, False)])
def test_extents_that_no_piece_divides(form, shape, wider, nk):
    """Through registers; also rows that are 16 bytes apart and end within them."""
    a, b, c = multiplied("gfx950", shape, chosen=small(form, 2), nk=nk, wider=wider)
    np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize("chip, dtype, other", [("gfx950", E4, E5), ("gfx942", Z5, Z4)])
def test_two_kinds_of_fp8(chip, dtype, other):
    a, b, c = multiplied(chip, (64, 64, 256), dtype, small("ping-pong", 1), other=other, nk=chip == "gfx942")
    np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize("stages", [3, 4])
def test_more_stages(stages):
    a, b, c = multiplied("gfx950", (64, 64, 640), chosen=small("ping-pong", 2, stages=stages))
    np.testing.assert_array_equal(c, a @ b)
    if stages == 4:
        a, b, c = multiplied("gfx950", (64, 64, 640), chosen=small("interleave", 2, stages=stages))
        np.testing.assert_array_equal(c, a @ b)


@pytest.mark.long(everywhere=True, but=[
    "gfx942-2-chosen3", "gfx950-1-chosen4", "gfx1250-1-chosen8", "gfx942-1-chosen0", "gfx950-2-chosen6", "gfx1250-2-chosen9"])
@pytest.mark.parametrize("chip, size, chosen", [
    (chip, size, one) for chip in CHIPS for size in (1, 2)
    for one in (CONFIGURATIONS[chip][size][0], *((INTERLEAVED[chip][size], ) if chip in INTERLEAVED else ()))])
def test_the_tables(chip, size, chosen):
    """Each configuration is right as it stands."""
    dtype = np.float16 if size == 2 else Z4 if chip == "gfx942" else E4
    a, b, c = multiplied(chip, (chosen.bm - 8, chosen.bn, 4 * chosen.bk), dtype, chosen)
    np.testing.assert_array_equal(c, a @ b)


# ---- the way out --------------------------------------------------------------------------------------------------------


@pytest.mark.long(but=["float16-ping-pong", "bfloat16-interleave", "float32-ping-pong"], everywhere=True)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("out", [np.float16, BF16, np.float32])
def test_epilogue(form, out):
    rows, columns, bias = (np.random.default_rng(extent).random(extent).astype(np.float32) for extent in (70, 72, 72))
    a, b, c = multiplied("gfx950", (70, 72, 128), E4, small(form, 1), out=out, bias=bias, row_scale=rows, column_scale=columns,
                         alpha=0.25, activation="gelu")
    x = 0.25 * rows[:, None] * columns[None, :] * (a @ b) + bias
    gelu = 0.5 * x * (1 + np.vectorize(erf)(x / 2**0.5))
    np.testing.assert_allclose(c.astype(np.float32), gelu, rtol=8e-3 if out is BF16 else 1e-3, atol=1e-3)


def test_a_scale_of_each_tensor():
    scales = [np.array([0.5], np.float32), np.array([4.0], np.float32)]
    a, b, c = multiplied("gfx942", (64, 64, 128), Z4, small("ping-pong", 1), row_scale=scales[0], column_scale=scales[1])
    np.testing.assert_array_equal(c, 2 * (a @ b))


def test_rows_of_the_result_that_lie_apart():
    """What lies between them stays."""
    a, b, whole = drawn(64, 64, np.float16, 0), drawn(64, 64, np.float16, 1), np.full((64, 72), -1, np.float16)
    grid, args, meta = mfma_gemm.arguments(a, b.T, whole[:, :64], "gfx950", small("ping-pong", 2))
    mimw.simulate(mfma_gemm.kernel, grid, *args, target="gfx950", races=True, **meta)
    np.testing.assert_array_equal(whole[:, :64], (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16))
    assert (whole[:, 64:] == -1).all()


# ---- orders -------------------------------------------------------------------------------------------------------------


@pytest.mark.long(but=["gfx942-ping-pong"], everywhere=True)
@pytest.mark.parametrize("chip, form", [("gfx942", "ping-pong"), ("gfx950", "ping-pong"), ("gfx950", "interleave")])
def test_every_order_of_the_waves(chip, form):
    """`mimw.check` runs it in other orders of what may happen in any."""
    a, b, c = drawn(72, 264, np.float16, 0), drawn(40, 264, np.float16, 1), np.zeros((72, 40), np.float16)
    grid, args, meta = mfma_gemm.arguments(a, b.T, c, chip, small(form, 2))
    report = mimw.check(mfma_gemm.kernel, grid, *args, seeds=2, target=chip, **meta)
    assert report.ok, report


def test_tiles_of_an_xcd_are_neighbours():
    """Each tile once; XCD x has the programs x, x + 8, .. and tiles that follow each other."""
    for tiles in (1, 7, 8, 20, 64):
        found = [tile_of_xcd.fn(program, tiles, 8) for program in range(tiles)]
        assert sorted(found) == list(range(tiles))
        for xcd in range(8):
            mine = found[xcd::8]
            assert mine == list(range(mine[0], mine[0] + len(mine))) if mine else tiles < 8


def test_the_tile_of_a_problem():
    """Smaller tiles for units that would be idle; 64 x 64 are bound by what is loaded on gfx950, and no quicker than 128 x 128."""
    assert configuration("gfx950", 4096, 4096, 2).bm == 256
    assert configuration("gfx950", 2048, 1024, 2).bm == 128
    assert configuration("gfx942", 64, 512, 1).bm == 64
    assert configuration("gfx950", 4096, 4096, 2, wide=False).bm == 64


# ---- what is refused ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change, text", [
    (dict(chip="gfx90a"), "chip is 'gfx90a'; it may be gfx942 or gfx950 or gfx1250"),
    (dict(chip="gfx942", dtype=E4), "a is float8_e4m3fn; gfx942 multiplies float8_e4m3fnuz and float8_e5m2fnuz"),
    (dict(dtype=Z4), "a is float8_e4m3fnuz; gfx950 multiplies float8_e4m3fn and float8_e5m2"),
    (dict(dtype=np.float32), "a is float32; it may be"),
    (dict(step=2), "b must have contiguous rows or columns"),
    (dict(out=np.int32), "c is int32"),
    (dict(activation="tanh"), "it may be None, relu")])
def test_refusals(change, text):
    change = dict(chip="gfx950", dtype=np.float16, step=1, out=np.float32, activation=None) | change
    a, b = np.zeros((16, 16), change["dtype"]), np.zeros((16, 32), change["dtype"])[:, ::change["step"]]
    c = np.zeros((16, b.shape[1]), change["out"])
    with pytest.raises(ValueError, match=text):
        mfma_gemm.arguments(a, b, c, change["chip"], activation=change["activation"])


def test_a_tile_that_no_offset_spans():
    a = np.lib.stride_tricks.as_strided(np.zeros(16, np.float16), (300, 8), (1 << 24, 2))
    with pytest.raises(ValueError, match="rows of a are 16777216 bytes apart"):
        mfma_gemm.arguments(a, a.T, np.zeros((300, 300), np.float16), "gfx950", Configuration())


def test_configurations_that_are_none():
    for form, stages in (("ring", 2), ("ping-pong", 1), ("interleave", 3)):
        with pytest.raises(ValueError, match=form):
            replace(Configuration(), form=form, stages=stages)
