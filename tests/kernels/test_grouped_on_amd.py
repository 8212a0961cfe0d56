"""Products of groups of rows by AMD's own configurations: simulated by the rules of each chip, and compiled without spills.

Nothing here has run on a chip of AMD.
"""

import ml_dtypes
import numpy as np
import pytest

import mimw
from mimw.kernels import gemm, grouped_gemm
from mimw.target import target

CHIPS, FP8 = ("gfx950", "gfx1250"), ml_dtypes.float8_e4m3fn
PRODUCT = {"gfx950": "v_mfma_f32", "gfx1250": "v_wmma_f32"}


def groups(sizes, n, k, dtype):
    """(a, b, ends, the products in fp64) of groups of so many rows; each b is contiguous along K."""
    draw = np.random.default_rng(0)
    a, b = (draw.standard_normal(shape).astype(dtype) for shape in ((sum(sizes), k), (len(sizes), n, k)))
    ends = np.cumsum(sizes).astype(np.int32)
    parts = [a[end - size:end].astype(np.float64) @ of.T.astype(np.float64) for end, size, of in zip(ends, sizes, b)]
    return a, b.swapaxes(1, 2), ends, np.concatenate(parts)


@pytest.mark.long(but=["gfx1250-float16-sizes1", "gfx950-float32-sizes1", "gfx950-float8_e4m3fn-sizes0"], everywhere=True)
@pytest.mark.parametrize("sizes", [(300, 0, 84), (20, 70, 9)])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, FP8])
@pytest.mark.parametrize("chip", CHIPS)
def test_groups_that_tiles_do_not_divide(chip, dtype, sizes):
    """Programs that have more than a tile, a step along K that is not whole."""
    a, b, ends, expected = groups(sizes, 192, 200 if dtype != FP8 else 208, dtype)
    c = np.zeros(expected.shape, np.float32)
    chosen = grouped_gemm.on_amd(chip, len(a), len(ends), a.dtype.itemsize)
    grid, args, meta = grouped_gemm.arguments(a, b, c, ends, 2, chosen)
    mimw.simulate(grouped_gemm.kernel, grid, *args, target=chip, races=True, **meta)
    np.testing.assert_allclose(c, expected, rtol=0, atol=2e-3 * np.abs(expected).max())


@pytest.mark.long(shown_by="test_mfma_gemm_code.py::test_gfx1250")
@pytest.mark.parametrize("chip, dtype, rows", [
    ("gfx950", np.float16, 300), ("gfx950", FP8, 300), ("gfx1250", np.float16, 300), ("gfx1250", np.float16, 60)])
def test_code(chip, dtype, rows):
    """The tile is one of its own, larger or deeper than the GEMM's, and fits registers and shared memory."""
    a, b, ends, expected = groups((rows, rows), 256, 256, dtype)
    chosen = grouped_gemm.on_amd(chip, len(a), 2, a.dtype.itemsize)
    assert chosen != gemm.ON_AMD[chip]
    grid, args, meta = grouped_gemm.arguments(a, b, np.zeros(expected.shape, np.float16), ends, 4, chosen)
    found = mimw.compile(grouped_gemm.kernel, grid, *args, target=chip, **meta)
    assert found.hsaco[:4] == b"\x7fELF" and found.spilled_registers == 0 and found.stack_bytes == 0
    assert found.shared_bytes <= target(chip).shared_bytes and PRODUCT[chip] in found.amdgcn


def test_the_choice():
    """Large tiles, smaller ones of 8 bits and of few rows; gfx942 has one that fits."""
    assert grouped_gemm.on_amd("gfx950", 4096, 8, 2) == grouped_gemm.ON_AMD["gfx950"]
    assert {grouped_gemm.on_amd("gfx950", 4096, 8, 1).bm, grouped_gemm.on_amd("gfx950", 256, 8, 2).bm} == {128, 64}
    assert grouped_gemm.on_amd("gfx942", 256, 8, 1) == gemm.ON_AMD["gfx942"]
