"""Tutorial 25 on the simulator and the GPU: rows that no number of threads divides, ties, and what its list of edits says."""

import numpy as np
import pytest

import mimw
from mimw.errors import SimulationError
from mimw.testing import compare


@pytest.mark.parametrize("columns, warps", [(300, 4), (5, 2)])
def test_softmax(machine, tutorial, columns, warps):
    x = np.random.default_rng(columns).standard_normal((3, columns)).astype(np.float32)
    y, powers = np.zeros_like(x), np.exp(x - x.max(1, keepdims=True))
    machine.launch(tutorial.softmax_rows, (3, ), x, y, columns, num_warps=warps)
    compare(y, powers / powers.sum(1, keepdims=True), rtol=1e-5, atol=1e-7)


def test_topk(machine, tutorial):
    x = np.random.default_rng(1).integers(0, 40, (2, 128)).astype(np.float32)
    values, places = np.zeros((2, 8), np.float32), np.zeros((2, 8), np.int32)
    machine.launch(tutorial.topk_rows, (2, ), x, values, places, 128, 8)
    order = np.argsort(-x, axis=1, kind="stable")[:, :8]
    assert (places == order).all() and (values == np.take_along_axis(x, order, 1)).all()


def test_hello(tutorial, capsys):
    mimw.simulate(tutorial.greet, (2, ), 2)
    assert sorted(capsys.readouterr().out.splitlines()) == [f"hello from bidx {block}, tidx {thread}" for block in (0, 1)
                                                            for thread in (0, 1)]
    with pytest.raises(SimulationError, match="there are fewer than"):
        mimw.simulate(tutorial.greet, (1, ), 129)


def test_clean(tutorial, check_kernel):
    x = np.ones((2, 40), np.float32)
    check_kernel(tutorial.softmax_rows, (2, ), x, np.zeros_like(x), 40, num_warps=2)


@pytest.mark.gpu
def test_measuring_takes_its_cases(tutorial, monkeypatch, capsys):
    """What the program prints on a GPU, of a small row."""
    import sys
    from pathlib import Path
    monkeypatch.syspath_prepend(str(Path(tutorial.__file__).parent))
    monkeypatch.setattr(sys, "argv", ["25_raw_bodies.py", "256"])
    import harness
    harness.run(tutorial.simulate_one, tutorial.measure_one)
    assert "softmax in a raw body" in capsys.readouterr().out
