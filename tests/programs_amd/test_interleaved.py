"""Products that plan registers and instructions themselves: simulated against numpy, and compiled to a binary."""

import ml_dtypes
import numpy as np
import pytest

from mimw.testing import compare
from tests.programs_amd import interleaved
from tests.programs_amd.launches import AMD, is_product, launch, layouts, matrix_layout, random, rows_apart

SHARED = layouts((64, 64))
FLOATS_OF_8 = {"gfx942": (ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz),
               "gfx950": (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2), "gfx1250": (ml_dtypes.float8_e4m3fn, )}


@pytest.mark.long(but=["gfx942-own", "gfx950-swizzled"], everywhere=True)
@pytest.mark.parametrize("chip, layout", [("gfx942", "own"), *(("gfx950", layout) for layout in SHARED)])
def test_quarters(chip, layout):
    a, b, c = random(128, 256), random(128, 256, seed=1), np.zeros((128, 128), np.float16)
    options = dict(num_warps=4, num_stages=1, waves_per_eu=1, llvm_fn_attrs="amdgpu-sched-strategy=iterative-ilp")
    code = launch(interleaved.quarters, (1, 1), (a, b, c, 128, 128, 256, 256, 256, 128), chip, options, BLOCK_M=128, BLOCK_N=128,
                  BLOCK_K=64 if chip == "gfx950" else 32, MFMA=matrix_layout(chip, [2, 2]), K_WIDTH=8, LAYOUT=SHARED[layout])
    is_product(c, a, b)
    assert code["buffer_load_dwordx4" if chip == "gfx950" else "buffer_load_dword"] and not code["scratch_load_dword"]


@pytest.mark.long(but=["False-gfx950-*"], everywhere=True)
@pytest.mark.parametrize("chip, tile, depth", [("gfx942", 128, 32), ("gfx950", 256, 64)])
@pytest.mark.parametrize("padded", [False, True])
def test_four_stages(chip, tile, depth, padded):
    """The result is written from where it was summed up: buffers and a second tile of 256 x 256 would not fit."""
    a, b, c = random(tile, 128), random(tile, 128, seed=1), np.zeros((tile, tile), np.float16)
    layout = rows_apart(tile, depth) if padded else None
    code = launch(interleaved.staged_large, (1, 1), (a, b, c, tile, tile, 128, 128, 128, tile), chip,
                  dict(num_warps=8, num_stages=1, waves_per_eu=2), BLOCK_M=tile, BLOCK_N=tile, BLOCK_K=depth,
                  MFMA=matrix_layout(chip, [2, 4]), K_WIDTH=8 if chip == "gfx950" else 4, LAYOUT_A=layout, LAYOUT_B=layout)
    is_product(c, a, b)
    assert code["s_setprio"] >= 4 and not code["ds_write_b128"] + code["ds_write_b64"]


@pytest.mark.long(but=["gfx942-int8", "gfx950-*", "gfx1250-*"], everywhere=True)
@pytest.mark.parametrize("chip, dtype", [(chip, dtype) for chip in AMD for dtype in (*FLOATS_OF_8[chip], np.int8)])
def test_8_bits(chip, dtype):
    draw = np.random.default_rng(0)
    a, b = (draw.integers(-8, 9, (64, 256)).astype(np.float32).astype(dtype) for _ in range(2))
    scales = [draw.random(64).astype(np.float32) for _ in range(2)]
    c = np.zeros((64, 64), np.float32)
    code = launch(interleaved.fp8_rows, (1, 1), (a, b, c, *scales, 64, 64, 256, 256, 256, 64), chip,
                  dict(num_warps=4, num_stages=2, kpack=2 if chip == "gfx942" else 1), BLOCK_M=64, BLOCK_N=64, BLOCK_K=128,
                  NUM_BUFFERS=2)
    compare(c, a.astype(np.float32) @ b.astype(np.float32).T * scales[0][:, None] * scales[1][None, :], rtol=1e-4, atol=1e-4)
    assert any(name.startswith(("v_mfma", "v_wmma")) and ("8" in name) for name in code)


@pytest.mark.long(but=["gfx1250-128", "gfx950-136", "gfx942-128"], everywhere=True)
@pytest.mark.parametrize("k", [128, 136])
@pytest.mark.parametrize("chip", AMD)
def test_tuned(chip, k, monkeypatch):
    """Configurations with launch options of AMD's, by the tools and by a launch that is simulated."""
    a, b, c = random(64, k), random(64, k, seed=1), np.zeros((64, 64), np.float16)
    args, grid = (a, np.ascontiguousarray(b.T), c, 64, 64, k, k, 64, 64), lambda meta: (64 // meta["BLOCK_M"], )
    launch(interleaved.tuned, grid, args, chip, {})
    is_product(c, a, b)
    monkeypatch.setenv("MIMW_SIMULATE", "1")
    monkeypatch.setenv("MIMW_TARGET", chip)
    c[...] = 0
    interleaved.tuned[grid](*args)
    is_product(c, a, b)
