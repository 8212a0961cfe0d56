"""The GEMM reduce-scatter and all-reduce whose sums are carried: values, launches that follow each other, waits left out; a task
stands in for the copy engines."""

import numpy as np
import pytest

import mimw
from mimw.runtime.simulate import prepare
from mimw.tools.check import Search

from .carried_sums import carrying
from .products_of_ranks import error_of


def findings(**problem):
    """Of three runs of one launch."""
    kernel, grid, args, meta = carrying(m=128, **problem)[0]
    return Search(prepare(kernel, grid, args, dict(meta), "sm_90a")).all([0, 1, 2], "random", 1, shrink=False).findings


@pytest.mark.long(but=["problem0"], everywhere=True)
@pytest.mark.parametrize("problem", [
    {"ranks": 2, "m": 200, "n": 72, "k": 80, "programs": 2, "parcel": 3, "consumers": 2, "ping_pong": True},
    {"ranks": 3, "m": 260, "programs": 2, "everywhere": True, "dtype": np.float16, "bm": 128, "consumers": 2, "staging": 2}])
def test_sums_of_launches_that_follow_each_other(problem):
    (kernel, grid, args, meta), c, expected = carrying(**problem)
    for seed in range(2):
        mimw.simulate(kernel, grid, *args, seed=seed, **meta)
        assert error_of(c, expected) < 0.01


@pytest.mark.long(but=["False"], everywhere=True)
@pytest.mark.parametrize("everywhere", [False, True])
def test_two_launches_in_a_row_are_right(everywhere):
    assert not findings(launches=2, everywhere=everywhere)


@pytest.mark.parametrize("leave_out, memory, launches", [("started", "slots", 2), ("done", "results", 1)])
def test_a_wait_that_is_left_out(leave_out, memory, launches):
    """The owner still reads the slots of its last launch; or the tiles of the parcel are still being written."""
    found = findings(leave_out=leave_out, launches=launches)
    assert found and f"argument '{memory}' of rank" in found[0].message
