"""Predicted time of a product in microscaling formats on gfx950: a step along K takes as long as its matrix instructions."""

import numpy as np
import pytest

import mimw
from mimw.kernels import mfma_scaled_gemm


def cycles(form, k):
    """Of one tile of 256 x 256 with so many products each."""
    a, scales = np.zeros((256, k // 2), np.uint8), np.zeros((256, k // 32), np.uint8)
    chosen = mfma_scaled_gemm.Configuration(form)
    grid, args, meta = mfma_scaled_gemm.arguments(a, a, np.zeros((256, 256), np.float16), scales, scales, chosen)
    return mimw.predict(mfma_scaled_gemm.kernel, grid, *args, target="gfx950", **meta).cycles


@pytest.mark.long(but=["ping-pong-*"], everywhere=True)
@pytest.mark.parametrize("form, over", [("ping-pong", 1.1), ("interleave", 1.25)])
def test_a_step_takes_what_its_products_take(form, over):
    """512 instructions of 16 cycles on four matrix cores. Reads of operands and of scales go on beside them; copies by a base and
    offsets compute no pointers."""
    products = 512 * 16 / 4
    step = (cycles(form, 6144) - cycles(form, 2048)) / 16
    assert 0.99 * products <= step < over * products        # what comes before and behind the loop differs a little
