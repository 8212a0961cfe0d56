"""What a kernel names is another thing than at its last run in this process: the next simulation is of the new one. Launches,
frozen ones and autotuned ones are asked the same in tests/freeze/test_changed.py."""

import numpy as np
import pytest

import mimw
from tests.kernels.changing import CASES, as_defined


def simulated(kernel, more):
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    mimw.simulate(kernel, (1, ), x, y, *more)
    return y[0]


@pytest.mark.parametrize("name", CASES)
def test_a_simulation_is_of_what_is_there_now(name, monkeypatch):
    kernel, more, change = CASES[name]
    assert simulated(kernel, more) == 3
    with monkeypatch.context() as patch:
        change(patch)
        assert simulated(kernel, more) == 5
        assert simulated(kernel, more) == 5
    as_defined()
    assert simulated(kernel, more) == 3
