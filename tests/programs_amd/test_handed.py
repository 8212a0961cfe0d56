"""Waves with different tasks, and memory that is used twice: simulated against numpy, and compiled to a binary."""

import numpy as np
import pytest

from mimw.testing import compare
from tests.programs_amd import handed
from tests.programs_amd.launches import is_product, launch, layouts, random


def test_attention_of_two_consumers(chip="gfx950", layout="padded"):
    heads, rows, keys, dim = 1, 128, 128, 64
    q, k, v = (random(heads, rows, dim, seed=seed) for seed in range(3))
    o, scale = np.zeros((heads, rows, dim), np.float32), float(np.log2(np.e)) / 8
    launch(handed.attention, (1, heads), (q, k, v, o, scale, keys, rows * dim), chip, dict(num_warps=4), D=dim, BLOCK_M=64,
           BLOCK_N=32, NUM_BUFFERS=2, LAYOUT=layouts((32, 64))[layout])
    p = np.exp2(q.astype(np.float32) @ k.astype(np.float32).swapaxes(1, 2) * scale)
    compare(o, p / p.sum(-1, keepdims=True) @ v.astype(np.float32), rtol=1e-2, atol=1e-2)


@pytest.mark.long(but=["gfx942"], everywhere=True)
@pytest.mark.parametrize("chip", ["gfx942", "gfx1250"])
def test_a_result_that_leaves_through_shared_memory(chip):
    a, b, c = random(100, 120), random(128, 120, seed=1), np.zeros((100, 128), np.float16)
    launch(handed.through_shared_memory, (2, ), (a, b, c, 100, 128, 120, 120, 120, 128), chip,
           dict(num_warps=4, matrix_instr_nonkdim=16), BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, NUM_BUFFERS=3, NUM_CUS=2)
    is_product(c, a, b)


@pytest.mark.long(but=["gfx942"], everywhere=True)
@pytest.mark.parametrize("chip", ["gfx942", "gfx1250"])
def test_two_regions_in_a_loop(chip):
    x, y = np.abs(random(70, 50)) + 1, np.zeros((50, 70), np.float32)
    launch(handed.summed_in_two_tasks, (2, ), (x, y, 70, 50), chip, dict(num_warps=4), BLOCK_M=16, BLOCK_N=64)
    exact = x.astype(np.float32)
    compare(y, (exact / exact.sum(1, keepdims=True)).T, rtol=1e-2, atol=1e-2)
