"""Microscaling products, attention, tasks, the data mover, as authors publish them for AMD: simulated, and compiled."""

import numpy as np
import pytest

from mimw import TensorDescriptor, check, explain
from mimw.testing import compare
from tests.kernels.microscaling import small_operand
from tests.programs_amd import attention, mover, scaled, straight, with_tasks
from tests.programs_amd.launches import AMD, CDNA, PADDED, is_product, launch, matrix_layout, random

TILE = dict(BLOCK_M=64, BLOCK_N=64)


# ---- microscaling formats ----------------------------------------------------------------------------------------------

@pytest.mark.long(everywhere=True, but=[
    "gfx942-e2m1-from_pointers-*", "gfx950-e2m1-in_flight-meta1", "gfx1250-e4m3-in_flight-meta2", "gfx950-e5m2-in_flight-meta2"])
@pytest.mark.parametrize("kernel, meta", [(scaled.from_pointers, {}), (scaled.in_flight, {"TILES": None}),
                                          (scaled.in_flight, {"TILES": [2, 2]})])
@pytest.mark.parametrize("chip, format_", [("gfx942", "e2m1"), ("gfx950", "e2m1"), ("gfx950", "e4m3"), ("gfx950", "e5m2"),
                                           ("gfx1250", "e4m3")])
def test_scaled(chip, format_, kernel, meta):
    draw = np.random.default_rng(0)
    (a, sa, x), (b, sb, y) = (small_operand(draw, format_, 64, 256) for _ in range(2))
    c = np.zeros((64, 64), np.float32)
    code = launch(kernel, (1, ), (a, b, c, sa, sb, 64, 64, 256, a.shape[1], b.shape[1], 64, 8, 8), chip,
                  dict(num_warps=4, num_stages=2, matrix_instr_nonkdim=16, waves_per_eu=0), FORMAT=format_, BLOCK_K=128, **TILE,
                  **meta)
    is_product(c, x, y)
    assert chip != "gfx950" or code["v_mfma_scale_f32_16x16x128_f8f6f4"]


def shuffled(scales):
    """Scales as the instruction takes them: 32 rows and 8 groups of K are 256 bytes, one lane's together."""
    rows, groups = scales.shape
    parts = scales.reshape(rows // 32, 2, 16, groups // 8, 2, 4)
    return np.ascontiguousarray(parts.transpose(0, 3, 5, 2, 4, 1)).reshape(rows // 32, groups * 32)


@pytest.mark.long(but=["gfx1250-True", "gfx950-False"], everywhere=True)
@pytest.mark.parametrize("chip, through_lds", [("gfx950", False), ("gfx950", True), ("gfx1250", True)])
def test_scales_in_the_order_of_the_instruction(chip, through_lds):
    draw = np.random.default_rng(0)
    (a, sa, x), (b, sb, y) = (small_operand(draw, "e2m1", 64, 512) for _ in range(2))
    c = np.zeros((64, 64), np.float16)
    code = launch(scaled.preshuffled, (1, 1), (a, b, c, shuffled(sa), shuffled(sb), 512, 256, 256, 64, 512, 512), chip,
                  dict(num_warps=4, num_stages=2, waves_per_eu=1, matrix_instr_nonkdim=16), BLOCK_K=256,
                  SHARED_SCALES=through_lds, **TILE)
    is_product(c, x, y)
    assert any("scale_f32_16x16x128_f8f6f4" in name for name in code)


# ---- attention ---------------------------------------------------------------------------------------------------------

def attend(kernel, chip, heads, options, block, **meta):
    rows = keys = 128
    q, k, v = (random(heads, rows, 64, seed=seed) for seed in range(3))
    o, scale = np.zeros_like(q), 0.125
    args = q, k, v, o, scale / float(np.log(2)), rows, keys, rows * 64
    code = launch(kernel, (rows // block[0], heads), args, chip, options, D=64, BLOCK_M=block[0], BLOCK_N=block[1], **meta)
    s = np.exp(scale * q.astype(np.float32) @ k.astype(np.float32).swapaxes(1, 2))
    compare(o, (s / s.sum(-1, keepdims=True) @ v.astype(np.float32)).astype(np.float16), rtol=1e-2, atol=1e-2)
    return code


@pytest.mark.long(but=["gfx950"], everywhere=True)
@pytest.mark.parametrize("chip", CDNA)
def test_attention_in_stages(chip):
    code = attend(attention.staged, chip, 2, dict(num_warps=8, num_stages=1, waves_per_eu=2, matrix_instr_nonkdim=16), (128, 32))
    assert code["s_setprio"] >= 3


@pytest.mark.long(but=["gfx950"], everywhere=True)
@pytest.mark.parametrize("chip", CDNA)
def test_attention_in_slices(chip):
    attend(attention.sliced, chip, 1, dict(num_warps=4, num_stages=1, llvm_fn_attrs="amdgpu-sched-strategy=iterative-ilp"),
           (128, 64), MFMA=matrix_layout(chip, [4, 1], 32), K_WIDTH=4 if chip == "gfx942" else 8, SLICE=32)


# ---- tasks -------------------------------------------------------------------------------------------------------------

@pytest.mark.long(but=["gfx942-True", "gfx1250-False"], everywhere=True)
@pytest.mark.parametrize("chip, buffer", [*((chip, buffer) for chip in CDNA for buffer in (False, True)), ("gfx1250", False)])
def test_tasks(chip, buffer):
    a, b, c = random(128, 128), random(64, 128, seed=1), np.zeros((128, 64), np.float16)
    args, meta = (a, b, c, 128, 64, 128, 128, 128, 64), dict(BLOCK_K=32, NUM_BUFFERS=3, BUFFER=buffer, **TILE)
    options = dict(num_warps=4, num_stages=1, waves_per_eu=2)
    launch(with_tasks.by_pointers, (2, ), args, chip, options, **meta)
    is_product(c, a, b)
    assert check(with_tasks.by_pointers, (2, ), *args, target=chip, **options, **meta).ok
    assert "smem_a" in str(explain(with_tasks.by_pointers, (2, ), *args, target=chip, **options, **meta))


@pytest.mark.long(but=["gfx1250"], everywhere=True)
@pytest.mark.parametrize("chip", AMD)
def test_groups_of_rows(chip):
    sizes = np.array([64, 40, 0, 100], np.int32)
    a, b, c = random(204, 64), random(4, 64, 64, seed=1), np.zeros((204, 64), np.float16)
    launch(with_tasks.grouped, (2, ), (a, b, c, sizes, 4, 64, 64), chip, dict(num_warps=4), BLOCK_K=32, NUM_SMS=2, **TILE)
    for end, size, weight in zip(sizes.cumsum(), sizes, b):
        is_product(c[end - size:end], a[end - size:end], weight)


# ---- the data mover ----------------------------------------------------------------------------------------------------

def over_the_edge(dtype=np.float16):
    return random(100, 136), random(64, 136, seed=1), np.zeros((100, 64), dtype)


def test_a_task_that_moves():
    a, b, c = over_the_edge()
    code = launch(with_tasks.by_mover, (2, ), (a, b, c, 100, 64, 136, 136, 136, 64), "gfx1250", dict(num_warps=4), BLOCK_K=32,
                  NUM_BUFFERS=3, **TILE)
    is_product(c, a, b)
    assert code["tensor_load_to_lds"] and code["v_wmma_f32_16x16x32_f16"]


@pytest.mark.parametrize("warps, padded", [(4, False), (8, False), (4, True)])
def test_a_ring(warps, padded):
    a, b, c = over_the_edge()
    layout = PADDED.with_identity_for([[64, 8]], [64, 64], [1, 0]) if padded else None
    args = *(TensorDescriptor.from_tensor(one, [64, 64]) for one in (a, b, c)), 100, 64, 136
    code = launch(mover.ring, (2, ), args, "gfx1250", dict(num_warps=warps, num_stages=2, waves_per_eu=1), BLOCK_K=64,
                  NUM_BUFFERS=3, LAYOUT_A=layout, LAYOUT_B=layout, PREFETCH=True, **TILE)
    is_product(c, a, b)
    assert code["tensor_load_to_lds"] and code["tensor_store_from_lds"] and code["global_prefetch_b8"]


@pytest.mark.parametrize("fused", [False, True])
def test_descriptors_that_move_on(fused):
    a, b, c = over_the_edge(np.float32)
    code = launch(mover.placed, (2, ), (a, b, c, 100, 64, 136), "gfx1250", dict(num_warps=4), BLOCK_K=64, FUSED=fused, **TILE)
    is_product(c, a, b)
    assert code["tensor_load_to_lds"] == (2 if fused else 4)


# ---- copies ------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("n, stride", [(48, 64), (47, 64), (48, 72), (48, 63)])
@pytest.mark.parametrize("chip", CDNA)
def test_pieces_that_are_cut(chip, n, stride):
    a, c = random(64, stride), np.ones((64, 64), np.float16)
    launch(straight.masked_buffers, (1, ), (a, c, n, stride), chip, dict(num_warps=4), ROWS=64, COLS=64)
    assert (c[:, :n] == a[:, :n]).all() and (c[:, n:] == 0).all()


@pytest.mark.parametrize("chip", CDNA)
def test_buffers_seen_as_one(chip):
    a, b, c = random(128, 64), random(64, 64, seed=1), np.zeros((128, 64), np.float32)
    launch(straight.reshaped, (1, ), (a, np.ascontiguousarray(b.T), c, 64), chip, dict(num_warps=4))
    is_product(c, a, b)
