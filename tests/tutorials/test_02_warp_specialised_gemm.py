"""Tutorial 02 on the simulator and the GPU, at shapes that no tile divides; and each of its "what if" edits."""

from pathlib import Path

import numpy as np
import pytest

import mimw
from docs.support import found_bug

from .gemm import checked, finds, matrices, run_and_compare

SMALL = dict(BN=128, STAGES=3)


@pytest.mark.parametrize("shape, programs", [((128, 128, 64), 1), ((256, 384, 256), 4), ((136, 200, 328), 3),
                                             ((8, 8, 8), 2)])
def test_product(machine, tutorial, shape, programs):
    run_and_compare(machine, tutorial, shape, programs, **SMALL)


def test_right_under_every_interleaving(tutorial):
    report = checked(tutorial, (384, 136, 200), 2, BN=128, STAGES=2)
    assert report.ok, report


@pytest.mark.parametrize("old, new, kind", [
    ("phase ^ 1)", "phase)", "PhaseOffByOne"),
    (", arrive_count=2)", ")", "OperandOverwritten"),
], ids=["parity", "one arrival"])
def test_what_if(edited, old, new, kind):
    assert finds(kind, edited(old, new), (128, 128, 384), 1, BN=128, STAGES=2)


def test_a_fence_that_is_left_out_is_put_in(edited):
    """By the compiler, which `mimw explain` says."""
    assert checked(edited('tlx.fence("async_shared")\n', "pass\n"), (128, 128, 384), 1, BN=128, STAGES=2).ok


def test_an_early_arrival(edited, kept):
    """The numbers are right, the finding is there: the picture of the README."""
    wrong = edited(*found_bug.EDIT)
    (finding, ) = checked(wrong, (128, 128, 384), 1, BN=128, STAGES=2).findings
    assert finding.kind == "OperandOverwritten"
    a, b, c = matrices(128, 128, 384)
    grid, args, meta = wrong.arguments(a, b, c, 1, BN=128, STAGES=2)
    run = mimw.simulate(wrong.gemm, grid, *args, trace=True, **meta)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b, rtol=2e-3, atol=2e-2)
    kept(found_bug.FILE, found_bug.drawing(finding, run.trace, Path(wrong.__file__)))
