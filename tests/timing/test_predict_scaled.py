"""Predicted products with block scales: what the tensor cores take by format and shape."""

import numpy as np
import pytest

import mimw
from tests.kernels.scaled_product import product
from tests.words.test_tensor_memory_scaled import CASES, launch_of

CLOCK = 1965        # MHz


def dots(found):
    """(CTA, label, cycles) of all products."""
    return {(event.cta, event.label, round((event.end - event.start) * CLOCK)) for event in found.trace.events
            if event.lane == "tensor core"}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_products_with_scales(case):
    """Two e2m1 at 16384 multiply-adds a cycle, all others at 8192; narrow ones wait for 128 bytes a cycle of shared memory."""
    n, k, *formats = case[:4]
    bits = 4 if formats == ["e2m1", "e2m1"] else 8
    arithmetic, operands = 128 * n * k * bits / (8 * 8192), (128 + n) * k * bits / 8 / 128
    args, meta, *_ = launch_of(case)
    found = mimw.predict(product, (1, ), *args, target="sm_100a", megahertz=CLOCK, **meta)
    assert dots(found) == {(0, f"128 x {n} x {k}", max(arithmetic, operands))}
    assert np.isnan(args[-1]).all(), "nothing is computed"
