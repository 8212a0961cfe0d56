"""Tutorial 05 on the simulator and the GPU: rows that leave CTAs unfilled or empty, large means; "what if" edits."""

import numpy as np
import pytest

import mimw
from tests.seeds import shows


def normalised(x, w, b):
    wide = x.astype(np.float64)
    return (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5) * w + b


def inputs(rows: int, n: int, mean: float = 0):
    """x, w, b and a y of NaNs."""
    random = np.random.default_rng(0)
    x, w, b = (random.standard_normal(shape, np.float32) for shape in ((rows, n), n, n))
    halves = ((x + mean).astype(np.float16), w.astype(np.float16), b.astype(np.float16))
    return *halves, np.full((rows, n), np.nan, np.float16)


@pytest.mark.parametrize("rows, n, clusters, CLUSTER", [(1, 512, 1, 4), (9, 1024, 2, 2), (6, 500, 2, 4),
                                                        (5, 1000, 4, 8), (3, 40, 3, 4), (11, 8, 1, 2)])
def test_rows(machine, tutorial, rows, n, clusters, CLUSTER):
    x, w, b, y = inputs(rows, n)
    grid, args, meta = tutorial.arguments(x, w, b, y, clusters, CLUSTER, num_warps=4)
    machine.launch(tutorial.layer_norm, grid, *args, **meta)
    np.testing.assert_allclose(y, normalised(x, w, b), rtol=2e-3, atol=2e-3)


def test_a_mean_far_from_zero(machine, tutorial):
    """Where E[x^2] - E[x]^2 in fp32 would be noise."""
    x, w, b, y = inputs(2, 500, mean=2000)
    grid, args, meta = tutorial.arguments(x, w, b, y, 1, num_warps=4)
    machine.launch(tutorial.layer_norm, grid, *args, **meta)
    np.testing.assert_allclose(y, normalised(x, w, b), rtol=5e-3, atol=5e-3)


def checked(tutorial, seeds=3):
    grid, args, meta = tutorial.arguments(*inputs(13, 200), 2, num_warps=4)
    return mimw.check(tutorial.layer_norm, grid, *args, seeds=seeds, shrink=False, **meta)


def test_right_under_every_interleaving(tutorial):
    report = checked(tutorial)
    assert report.ok, report


@pytest.mark.parametrize("old, new, kind", [
    ("me * 2 + step % 2", "me * 2", "CopyReadEarly"),
    ("wait_group(STAGES - 1)", "wait_group(STAGES)", "CopyReadEarly"),
    ("8 * CLUSTER)", "8 * (CLUSTER - 1))", "CopyReadEarly"),
    ("            tlx.async_load_wait_group(0)\n", "", "UnfinishedAtExit"),
], ids=["one turn", "early", "own bytes", "no last wait"])
def test_what_if(edited, old, new, kind):
    wrong = edited(old, new)
    assert shows(kind, lambda seeds: checked(wrong, seeds=seeds), 3)
