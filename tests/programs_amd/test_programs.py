"""Programs in the form in which authors publish them for AMD: simulated against numpy, and compiled to a binary."""

import ml_dtypes
import numpy as np
import pytest

import mimw
import mimw.tlx as tlx
from mimw import TensorDescriptor
from mimw.testing import compare
from tests.programs_amd import attention, mover, scaled, with_tasks

CDNA, AMD = ("gfx942", "gfx950"), ("gfx942", "gfx950", "gfx1250")
MFMA = {"gfx942": tlx.amd_mfma_layout(3, [32, 32, 8], True, [4, 1]), "gfx950": tlx.amd_mfma_layout(4, [32, 32, 16], True, [4, 1])}
PADDED = tlx.padded_shared_layout_encoding


def random(*shape, seed=0):
    return (np.random.default_rng(seed).standard_normal(shape) * 0.5).astype(np.float16)


def launch(kernel, grid, args, chip, options, **meta):
    """The AMDGCN of a launch that has been simulated."""
    mimw.simulate(kernel, grid, *args, target=chip, races=True, **options, **meta)
    compiled = mimw.compile(kernel, grid, *args, target=chip, **options, **meta)
    assert compiled.hsaco[:4] == b"\x7fELF" and compiled.stack_bytes == 0
    return compiled.amdgcn


@pytest.mark.parametrize("kernel, meta", [(scaled.from_pointers, {}), (scaled.in_flight, {"TILES": None}),
                                          (scaled.in_flight, {"TILES": [2, 2]})])
@pytest.mark.parametrize("format_", ["e2m1", "e4m3", "e5m2"])
@pytest.mark.parametrize("chip", AMD)
def test_scaled(chip, format_, kernel, meta):
    m, n, k = 64, 64, 256
    draw = np.random.default_rng(0)
    a, b = (draw.integers(-6, 7, shape).astype(np.float32) / 2 for shape in ((m, k), (n, k)))
    sa, sb = (draw.integers(125, 130, (rows, k // 32)).astype(np.uint8) for rows in (m, n))
    if format_ == "e2m1":
        codes = [x.astype(ml_dtypes.float4_e2m1fn) for x in (a, b)]
        a, b = (x.astype(np.float32) for x in codes)
        stored = [x.view(np.uint8)[:, ::2] & 15 | x.view(np.uint8)[:, 1::2] << 4 for x in codes]
    else:
        stored = [x.astype(ml_dtypes.float8_e4m3fn if format_ == "e4m3" else ml_dtypes.float8_e5m2) for x in (a, b)]
    c = np.zeros((m, n), np.float32)
    wide = [x * np.exp2(s.astype(np.float32) - 127).repeat(32, 1) for x, s in ((a, sa), (b, sb))]
    args = *stored, c, sa, sb, m, n, k, stored[0].shape[1], stored[1].shape[1], n, k // 32, k // 32
    code = launch(kernel, (1, ), args, chip, dict(num_warps=4, num_stages=2, matrix_instr_nonkdim=16, waves_per_eu=0), FORMAT=format_, BLOCK_M=64, BLOCK_N=64, BLOCK_K=128, **meta)
    compare(c, wide[0] @ wide[1].T, rtol=1e-3, atol=1e-3)
    if chip == "gfx950":
        assert "v_mfma_scale_f32_16x16x128_f8f6f4" in code


def attend(kernel, chip, heads, rows, keys, d, options, block, **meta):
    q, k, v = random(heads, rows, d), random(heads, keys, d, seed=1), random(heads, keys, d, seed=2)
    o = np.zeros((heads, rows, d), np.float16)
    scale = d**-0.5
    args = q, k, v, o, scale * 1.4426950408889634, rows, keys, rows * d
    launch(kernel, (-(-rows // block[0]), heads), args, chip, options, D=d, BLOCK_M=block[0], BLOCK_N=block[1], **meta)
    s = np.exp(scale * q.astype(np.float32) @ k.astype(np.float32).swapaxes(1, 2))
    compare(o, (s / s.sum(-1, keepdims=True) @ v.astype(np.float32)).astype(np.float16), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("chip", CDNA)
def test_staged_attention(chip):
    attend(attention.staged, chip, 2, 128, 128, 64, dict(num_warps=8, num_stages=1, waves_per_eu=2, matrix_instr_nonkdim=16), (128, 32))


@pytest.mark.parametrize("chip", CDNA)
def test_sliced_attention(chip):
    attend(attention.sliced, chip, 1, 128, 128, 64, dict(num_warps=4, num_stages=1, llvm_fn_attrs="amdgpu-sched-strategy=iterative-ilp"),
           (128, 64), MFMA=MFMA[chip], K_WIDTH=4 if chip == "gfx942" else 8, SLICE=32)


@pytest.mark.parametrize("buffer", [False, True])
@pytest.mark.parametrize("chip", AMD)
def test_tasks(chip, buffer):
    if buffer and chip == "gfx1250":
        pytest.skip("no")
    a, b, c = random(128, 128), random(64, 128, seed=1), np.zeros((128, 64), np.float16)
    launch(with_tasks.by_pointers, (2, ), (a, b, c, 128, 64, 128, 128, 128, 64), chip, dict(num_warps=4, num_stages=1, waves_per_eu=2), BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, NUM_BUFFERS=3,
           BUFFER=buffer)
    compare(c, (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16), rtol=1e-2, atol=1e-2)


def test_tasks_by_mover():
    a, b, c = random(100, 136), random(64, 136, seed=1), np.zeros((100, 64), np.float16)
    launch(with_tasks.by_mover, (2, ), (a, b, c, 100, 64, 136, 136, 136, 64), "gfx1250", dict(num_warps=4), BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, NUM_BUFFERS=3)
    compare(c, (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("warps", [4, 8])
@pytest.mark.parametrize("padded", [False, True])
def test_ring(padded, warps):
    a, b, c = random(100, 136), random(64, 136, seed=1), np.zeros((100, 64), np.float16)
    block = TensorDescriptor.from_tensor
    layout = PADDED.with_identity_for([[64, 8]], [64, 64], [1, 0]) if padded else None
    launch(mover.ring, (2, ), (block(a, [64, 64]), block(b, [64, 64]), block(c, [64, 64]), 100, 64, 136), "gfx1250", dict(num_warps=warps, num_stages=2, waves_per_eu=1),
           BLOCK_M=64, BLOCK_N=64, BLOCK_K=64, NUM_BUFFERS=3, LAYOUT_A=layout, LAYOUT_B=layout, PREFETCH=True)
    compare(c, (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("fused", [False, True])
def test_placed(fused):
    a, b, c = random(100, 136), random(64, 136, seed=1), np.zeros((100, 64), np.float32)
    launch(mover.placed, (2, ), (a, b, c, 100, 64, 136), "gfx1250", dict(num_warps=4), BLOCK_M=64, BLOCK_N=64, BLOCK_K=64, FUSED=fused)
    compare(c, a.astype(np.float32) @ b.astype(np.float32).T, rtol=1e-3, atol=1e-3)
