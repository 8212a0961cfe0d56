"""Tutorial 01 on the simulator and the GPU, also where K ends inside a tile or is shorter than the pipeline."""

import numpy as np
import pytest

from mimw.testing import compare


@pytest.mark.parametrize("m, n, k", [(128, 128, 256), (64, 192, 64), (72, 136, 200)])
def test_product(machine, tutorial, m, n, k):
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape, np.float32).astype(np.float16) for shape in ((m, k), (k, n)))
    c = np.zeros((m, n), np.float16)
    grid, args, meta = tutorial.arguments(a, b, c, BM=64, BN=64, STAGES=3, num_warps=4)
    machine.launch(tutorial.gemm, grid, *args, **meta)
    compare(c, a.astype(np.float32) @ b.astype(np.float32), rtol=2e-3, atol=2e-2)
