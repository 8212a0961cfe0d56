"""Programs of several CTAs that access elements of each other's shared memory."""

import numpy as np
import pytest

import mimw
from tests.kernels import several_ctas_elements as kernels
from tests.ttgir.checked import QUICK, right, told

RNG = np.random.default_rng(0)
X = RNG.random((64, 64), np.float32)


def wrong(kernel, *args, **how):
    report = mimw.check_compiled(kernel, (1, ), *args, num_ctas=2, target="sm_90a", **QUICK, **how)
    return told(report, kernels)


@pytest.mark.parametrize("cga, axis", [([[1, 0]], 0), ([[1, 0]], 1), ([[0, 1]], 0), ([[0, 1]], 1)])
def test_elements_that_are_picked_in_shared_memory(cga, axis):
    """ttg.local_gather, ttg.local_scatter: of other CTAs along a divided axis, and where tile and buffer are divided otherwise."""
    out = np.zeros((2, 64, 64), np.float32)
    both = np.stack([np.flip(X, axis), X])
    right(kernels.picked, (1, ), X, out, CGA=cga, AXIS=axis, RIGHT=True, num_ctas=2, expected={"out": both})
    found = {kind for kind, _ in wrong(kernels.picked, X, out, CGA=cga, AXIS=axis, RIGHT=False)}
    assert bool(found) is ((cga, axis) != ([[1, 0]], 1)) and found <= {"DataRace", "OutOfBounds"}


def test_arrivals_of_one_cta_in_all():
    """`fromCTA`: the bits of a rank that an arrival keeps."""
    out = np.zeros_like(X)
    right(kernels.first_rows, (1, ), X, out, FROM=0, num_ctas=2, expected={"out": X[np.arange(64) % 32]})
    assert ("DataRace", "tile.store(gl.load(x + rows * 64 + columns))") in wrong(kernels.first_rows, X, out, FROM=1)


@pytest.mark.parametrize("tile, bins", [([[1]], [[1]]), ([[0]], [[1]]), ([[0]], [[0]])])
def test_elements_that_are_counted_in_shared_memory(tile, bins):
    """ttg.local_atomic_scatter_rmw: what both have the first CTA counts."""
    x = RNG.integers(0, 256, 256).astype(np.int32)
    counts = np.bincount(x, minlength=256)
    before = (counts * (counts - 1) // 2).sum()
    args = x, np.zeros(257, np.int32)
    right(kernels.counted, (1, ), *args, TILE=tile, BINS=bins, RIGHT=True, num_ctas=2, expected={"out": np.append(counts, before)})
    assert bool(wrong(kernels.counted, *args, TILE=tile, BINS=bins, RIGHT=False)) is (bins == [[1]])


def test_parts_of_a_tile_in_a_buffer_that_all_ctas_have():
    """Triton 3.9 stores a CTA's part into its own buffer, and nowhere else (docs/BUGS.md)."""
    out = np.zeros_like(X)
    right(kernels.put_into_all, (1, ), X, out, ALL=False, num_ctas=2, expected={"out": X})
    found = wrong(kernels.put_into_all, X, out, ALL=True)
    assert found == [("UnwrittenRead", "gl.store(out + rows * 64 + columns, tile.load(read))")]


def test_the_same_bytes_as_another_type():
    out = np.zeros((32, 128), np.float32)
    right(kernels.seen_otherwise, (1, ), X, out, num_ctas=2, expected={"out": X.reshape(32, 128)})
