"""Programs for gfx1250 around the data mover: simulated against numpy, and compiled to a binary."""

import ml_dtypes
import numpy as np
import pytest

from mimw import TensorDescriptor
from mimw.testing import compare
from tests.kernels.microscaling import operand
from tests.programs_amd import moved
from tests.programs_amd.launches import is_product, launch, random

CHIP, FOUR = "gfx1250", dict(num_warps=4, num_stages=1)


def test_attention():
    rows, keys, dim = 128, 150, 64
    q, k, v, o = random(rows, dim), random(keys, dim, seed=1), random(keys, dim, seed=2), np.zeros((rows, dim), np.float16)
    blocks = [TensorDescriptor.from_tensor(one, [64, dim]) for one in (q, k, v, o)]
    scale = float(np.log2(np.e)) / 8
    code = launch(moved.attention, (2, ), (*blocks, scale, keys), CHIP, FOUR, D=dim, BLOCK_M=64, BLOCK_N=64, PAD=8)
    p = np.exp2(q.astype(np.float32) @ k.astype(np.float32).T * scale)
    compare(o, (p / p.sum(1, keepdims=True) @ v.astype(np.float32)).astype(np.float16), rtol=1e-2, atol=1e-2)
    assert code["tensor_load_to_lds"] == 3


@pytest.mark.long(but=["e4m3"], everywhere=True)
@pytest.mark.parametrize("format_", ["e4m3", "e2m1"])
def test_microscaling(format_):
    draw = np.random.default_rng(0)
    (a, sa, x), (b, sb, y) = operand(draw, format_, 64, 512), operand(draw, format_, 64, 512)
    c, depth = np.zeros((64, 64), ml_dtypes.bfloat16), 128 // (1 + (format_ == "e2m1"))
    blocks = [TensorDescriptor.from_tensor(one, [64, wide]) for one, wide in ((a, depth), (b, depth), (sa, 4), (sb, 4))]
    code = launch(moved.scaled_product, (1, 1), (*blocks, c, 64, 64, 512), CHIP, FOUR, FORMAT=format_, BLOCK_M=64, BLOCK_N=64,
                  BLOCK_K=128, NUM_BUFFERS=3)
    compare(c, (x @ y.T).astype(ml_dtypes.bfloat16), rtol=1e-2, atol=1e-2)
    assert any("wmma_scale" in name for name in code)


def test_a_persistent_loop():
    a, b, c = random(100, 96), random(128, 96, seed=1), np.zeros((100, 128), np.float16)
    launch(moved.persistent, (2, ), (a, b, c, 100, 128, 96), CHIP, FOUR, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, NUM_CUS=2,
           WARP_BASES=((0, 1), (1, 0)), REG_BASES=())
    is_product(c, a, b)


def test_rows_that_a_task_moves():
    x, y = random(70, 200), np.zeros((70, 2), np.float32)
    launch(moved.row_sums, (2, ), (x, y, 70, 200), CHIP, FOUR, BLOCK_M=64, BLOCK_N=64, NUM_BUFFERS=2)
    exact = np.pad(x.astype(np.float32), ((0, 0), (0, 56)))
    compare(y, np.stack([exact.sum(1), exact.max(1)], 1), rtol=1e-3, atol=1e-3)
