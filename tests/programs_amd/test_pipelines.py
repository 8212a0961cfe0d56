"""Waves, stages and registers planned together: simulated against numpy, and compiled to a binary."""

import ml_dtypes
import numpy as np
import pytest

import mimw.tlx as tlx
from mimw.testing import compare
from tests.programs_amd import pipelines
from tests.programs_amd.launches import is_product, launch, layouts, matrix_layout, random


def test_causal_attention_in_turns(chip="gfx950"):
    heads, rows, dim = 1, 256, 64
    q, k, v = (random(heads, rows, dim, seed=seed) for seed in range(3))
    o, lse, scale = np.zeros_like(q), np.zeros((heads, rows), np.float32), 0.125 * float(np.log2(np.e))
    code = launch(pipelines.causal_ping_pong, (rows // 128, heads), (q, k, v, o, lse, scale, rows, rows * dim), chip,
                  dict(num_warps=8, num_stages=1, waves_per_eu=2), D=dim, BLOCK_M=128, BLOCK_N=64,
                  MFMA=matrix_layout(chip, [8, 1], 16), K_WIDTH=8, PAD=[[512, 16]])
    s = np.where(np.tri(rows, dtype=bool), q.astype(np.float32) @ k.astype(np.float32).swapaxes(1, 2) * scale, -np.inf)
    compare(lse, np.log2(np.exp2(s).sum(-1)), rtol=1e-3, atol=1e-3)
    compare(o, (np.exp2(s - lse[..., None]) @ v.astype(np.float32)).astype(np.float16), rtol=1e-2, atol=1e-2)
    assert code["s_setprio"] >= 3


@pytest.mark.long(but=["gfx950-*"], everywhere=True)
@pytest.mark.parametrize("chip, dtype, product", [("gfx942", ml_dtypes.float8_e4m3fnuz, "v_mfma_f32_16x16x32_fp8_fp8"),
                                                  ("gfx950", ml_dtypes.float8_e4m3fn, "v_mfma_f32_16x16x128_f8f6f4")])
def test_fp8_in_four_waves(chip, dtype, product):
    layout = tlx.amd_mfma_layout(*((3, [16, 16, 32]) if chip == "gfx942" else (4, [16, 16, 128])), True, [2, 2])
    draw = np.random.default_rng(0)
    a, b = (draw.integers(-8, 9, (128, 256)).astype(np.float32).astype(dtype) for _ in range(2))
    scales = [draw.random(128).astype(np.float32) for _ in range(2)]
    c = np.zeros((128, 128), ml_dtypes.bfloat16)
    code = launch(pipelines.fp8_four_waves, (1, ), (a, b, c, *scales, 128, 128, 256, 256, 256, 128), chip,
                  dict(num_warps=4, num_stages=1, waves_per_eu=1), BLOCK_M=128, BLOCK_N=128, BLOCK_K=128,
                  MFMA=layout, K_WIDTH=8 if chip == "gfx942" else 16)
    want = a.astype(np.float32) @ b.astype(np.float32).T * scales[0][:, None] * scales[1][None, :]
    compare(c, want.astype(ml_dtypes.bfloat16), rtol=1e-2, atol=1e-2)
    assert code[product] and not any(name.startswith("scratch") for name in code)


def test_a_persistent_loop_of_stages(chip="gfx950", layout="padded", activation="gelu"):
    a, b, bias, c = random(200, 192), random(128, 192, seed=1), random(128, seed=2), np.zeros((200, 128), np.float16)
    padded = np.zeros((256, 192), np.float16)
    padded[:200] = a
    code = launch(pipelines.persistent_stages, (4, ), (padded, b, bias, c, 200, 128, 192, 192, 192, 128), chip,
                  dict(num_warps=8, num_stages=1, matrix_instr_nonkdim=16), BLOCK_M=64, BLOCK_N=64, BLOCK_K=64, NUM_CUS=4,
                  NUM_XCDS=2, LAYOUT=layouts((64, 64))[layout], ACTIVATION=activation)
    s = a.astype(np.float32) @ b.astype(np.float32).T + bias.astype(np.float32)
    compare(c, (s / (1 + np.exp(-1.702 * s))).astype(np.float16), rtol=1e-2, atol=1e-2)
    assert code["s_setprio"] >= 2


def test_registers_ahead(chip="gfx942"):
    a, b, c = random(128, 200), random(64, 200, seed=1), np.zeros((128, 64), np.float32)
    launch(pipelines.registers_ahead, (1, 1), (a, b, c, 128, 64, 200, 200, 200, 64), chip, dict(num_warps=4, num_stages=1),
           BLOCK_M=128, BLOCK_N=64, BLOCK_K=64, SLICE=32, MFMA=matrix_layout(chip, [2, 2]), K_WIDTH=4)
    is_product(c, a, b)
