"""Products that plan registers and instructions themselves: simulated against numpy, and compiled to a binary."""

import ml_dtypes
import numpy as np
import pytest

import mimw
import mimw.tlx as tlx
from mimw.testing import compare
from tests.programs_amd import interleaved
from tests.programs_amd.test_gemm import rows_apart
from tests.programs_amd.test_programs import launch, random

CDNA, AMD = ("gfx942", "gfx950"), ("gfx942", "gfx950", "gfx1250")
PADDED, SWIZZLED = tlx.padded_shared_layout_encoding, tlx.swizzled_shared_layout_encoding


def mfma(chip, warps, size=16):
    k = {("gfx942", 16): 16, ("gfx942", 32): 8, ("gfx950", 16): 32, ("gfx950", 32): 16}[chip, size]
    return tlx.amd_mfma_layout(3 if chip == "gfx942" else 4, [size, size, k], True, warps)


@pytest.mark.parametrize("chip", CDNA)
@pytest.mark.parametrize("layout", [None, PADDED.with_identity_for([[512, 16]], [64, 64], [1, 0]), rows_apart(64, 64), SWIZZLED(8, 1, 8, [1, 0], [1, 1], [1, 1], [1, 1], [1, 0])],
                         ids=["own", "padded", "rows", "swizzled"])
def test_quarters(chip, layout):
    a, b, c = random(128, 256), random(128, 256, seed=1), np.zeros((128, 128), np.float16)
    options = dict(num_warps=4, num_stages=1, waves_per_eu=1, llvm_fn_attrs="amdgpu-sched-strategy=iterative-ilp")
    if chip == "gfx942" and layout is not None:
        pytest.skip("64 KiB")
    launch(interleaved.quarters, (1, 1), (a, b, c, 128, 128, 256, 256, 256, 128), chip, options, BLOCK_M=128, BLOCK_N=128,
           BLOCK_K=64 if chip == "gfx950" else 32, MFMA=mfma(chip, [2, 2]), K_WIDTH=8, LAYOUT=layout)
    compare(c, (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("chip", CDNA)
@pytest.mark.parametrize("padded", [False, True])
def test_staged_large(chip, padded):
    tile = 256 if chip == "gfx950" else 128
    a, b, c = random(tile, 128), random(tile, 128, seed=1), np.zeros((tile, tile), np.float16)
    bk = 64 if chip == "gfx950" else 32
    layout = rows_apart(tile, bk) if padded else None
    launch(interleaved.staged_large, (1, 1), (a, b, c, tile, tile, 128, 128, 128, tile), chip, dict(num_warps=8, num_stages=1, waves_per_eu=2), BLOCK_M=tile, BLOCK_N=tile, BLOCK_K=bk,
           MFMA=mfma(chip, [2, 4]), K_WIDTH=8 if chip == "gfx950" else 4, LAYOUT_A=layout, LAYOUT_B=layout)
    compare(c, (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("chip, dtype", [("gfx942", ml_dtypes.float8_e4m3fnuz), ("gfx942", ml_dtypes.float8_e5m2fnuz), ("gfx950", ml_dtypes.float8_e4m3fn), ("gfx950", ml_dtypes.float8_e5m2),
    ("gfx1250", ml_dtypes.float8_e4m3fn), *((chip, np.int8) for chip in AMD)])
def test_8_bits(chip, dtype):
    draw = np.random.default_rng(0)
    a, b = (draw.integers(-8, 9, shape).astype(np.float32).astype(dtype) for shape in ((64, 256), (64, 256)))
    sa, sb = (draw.random(64).astype(np.float32) for _ in range(2))
    c = np.zeros((64, 64), np.float32)
    launch(interleaved.fp8_rows, (1, 1), (a, b, c, sa, sb, 64, 64, 256, 256, 256, 64), chip, dict(num_warps=4, num_stages=2, kpack=2 if chip == "gfx942" else 1), BLOCK_M=64, BLOCK_N=64, BLOCK_K=128, NUM_BUFFERS=2)
    compare(c, a.astype(np.float32) @ b.astype(np.float32).T * sa[:, None] * sb[None, :], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("chip", AMD)
@pytest.mark.parametrize("k", [128, 136])
def test_tuned(chip, k):
    a, b, c = random(64, k), random(k, 64, seed=1), np.zeros((64, 64), np.float16)
    launch(interleaved.tuned, lambda meta: (64 // meta["BLOCK_M"], ), (a, b, c, 64, 64, k, k, 64, 64), chip, {})
    compare(c, (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("chip", AMD)
def test_tuned_launch(chip, monkeypatch):
    monkeypatch.setenv("MIMW_SIMULATE", "1")
    monkeypatch.setenv("MIMW_TARGET", chip)
    k = 136
    a, b, c = random(64, k), random(k, 64, seed=1), np.zeros((64, 64), np.float16)
    interleaved.tuned[lambda meta: (64 // meta["BLOCK_M"], )](a, b, c, 64, 64, k, k, 64, 64)
    compare(c, (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16), rtol=1e-2, atol=1e-2)
