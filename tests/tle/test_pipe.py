"""Pipes: every transport, placement and argument, on both machines; what is recorded; what is refused."""

import numpy as np
import pytest

import mimw

from . import pipes


@pytest.mark.parametrize("capacity", [1, 2, 3])
def test_ring(machine, capacity):
    x = np.random.default_rng(0).standard_normal((7 * 32, 64)).astype(np.float32)
    y = np.zeros_like(x)
    machine.launch(pipes.ring, (1, ), mimw.TensorDescriptor.from_tensor(x, [32, 64]), y, 7, 32, 64, capacity)
    assert (y == x * 2).all()
