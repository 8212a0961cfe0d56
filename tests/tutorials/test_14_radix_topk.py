"""Tutorial 14 on the simulator and the GPU: random rows, ties at the border, infinities, and step 6's wrong edits."""

import numpy as np
import pytest

import mimw
from mimw.errors import OutOfBounds, UnwrittenRead


def launched(run, tutorial, x, k, **choices):
    values, indices = np.zeros((x.shape[0], k), np.float16), np.full((x.shape[0], k), -1, np.int32)
    grid, args, meta = tutorial.arguments(x, values, indices, **choices)
    run(tutorial.radix_topk, grid, *args, **meta)
    return values, indices


def right(x, values, indices):
    k = values.shape[1]
    return ((np.sort(values) == np.sort(x)[:, x.shape[1] - k:]).all() and (np.take_along_axis(x, indices, 1) == values).all()
            and all(len(set(row)) == k for row in indices))


def ties(shape, seed=0):
    return np.random.default_rng(seed).integers(-20, 20, shape).astype(np.float16)


@pytest.mark.parametrize("n, k, warps", [(128, 8, None), (1024, 32, None), (1000, 1000, None), (100, 7, 1), (2500, 300, 4)])
def test_random_rows(machine, tutorial, n, k, warps):
    x = np.random.default_rng(n).standard_normal((2, n)).astype(np.float16)
    assert right(x, *launched(machine.launch, tutorial, x, k, num_warps=warps))


@pytest.mark.parametrize("copies", [1, 16])
@pytest.mark.parametrize("k", [1, 50, 200])
def test_ties_and_infinities(machine, tutorial, k, copies):
    x = ties((4, 200))
    x[1], x[2, ::2], x[3, ::3] = 2.5, -np.inf, np.inf
    assert right(x, *launched(machine.launch, tutorial, x, k, COPIES=copies))


def test_clean(tutorial, check_kernel):
    x = ties((2, 100))
    launched(check_kernel, tutorial, x, 10)


def test_counts_of_other_digits(edited):
    x = ties((3, 1000))
    assert not right(x, *launched(mimw.simulate, edited("1, mask=asked", "1, mask=inside"), x, 64))


@pytest.mark.parametrize("error, old, new", [
    (UnwrittenRead, "        tl.store(tle.gpu.local_ptr(table), tl.zeros((256, COPIES), tl.int32))\n", ""),
    (OutOfBounds, " & (place < wanted)", ""),
])
def test_refused_edits(edited, error, old, new):
    with pytest.raises(error):
        launched(mimw.simulate, edited(old, new), np.ones((1, 512), np.float16), 10)
