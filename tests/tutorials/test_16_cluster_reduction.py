"""Tutorial 16 on the simulator and the GPU: rows that leave CTAs unfilled or empty, -inf, large numbers; "what if" edits."""

import numpy as np
import pytest

import mimw


def inputs(rows: int, n: int, mean: float = 0):
    """x and a y of NaNs."""
    x = np.random.default_rng(0).standard_normal((rows, n), np.float32) + mean
    return x.astype(np.float16), np.full((rows, n), np.nan, np.float16)


def expected(x):
    wide = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return wide / wide.sum(1, keepdims=True)


@pytest.mark.parametrize("rows, n, mean", [(1, 512, 0), (5, 500, 0), (2, 5, 0), (3, 4096, 100)])
def test_rows(machine, tutorial, rows, n, mean):
    x, y = inputs(rows, n, mean)
    grid, args, meta = tutorial.arguments(x, y, num_warps=4)
    machine.launch(tutorial.softmax, grid, *args, **meta)
    np.testing.assert_allclose(y, expected(x), rtol=2e-3, atol=1e-5)


def test_parts_of_minus_infinity(machine, tutorial):
    x, y = inputs(2, 512)
    x[:, 64:400] = -np.inf
    grid, args, meta = tutorial.arguments(x, y, num_warps=4)
    machine.launch(tutorial.softmax, grid, *args, **meta)
    np.testing.assert_allclose(y, expected(x), rtol=2e-3, atol=1e-5)


def checked(tutorial):
    grid, args, meta = tutorial.arguments(*inputs(2, 200), num_warps=4)
    return mimw.check(tutorial.softmax, grid, *args, seeds=3, shrink=False, **meta)


def test_right_under_every_interleaving(tutorial):
    report = checked(tutorial)
    assert report.ok, report


@pytest.mark.parametrize("old, new", [
    ("    tle.distributed_barrier(mesh)\n", ""),
    ("tle.distributed_barrier(mesh)", "tle.distributed_barrier(mesh[0:4])"),
], ids=["none", "half"])
def test_what_if(edited, old, new):
    kinds = {kind for finding in checked(edited(old, new)).findings for kind in finding.kinds}
    assert kinds & {"UnwrittenRead", "DataRace"}
