"""Tutorial 03 on the simulator and the GPU, with even and odd numbers of tiles a program; and its "what if" edits."""

import pytest

from .gemm import checked, finds, run_and_compare

SMALL = dict(BM=64, BN=64, STAGES=3)


@pytest.mark.parametrize("shape, programs", [((64, 64, 64), 1), ((192, 192, 128), 3), ((200, 136, 328), 4),
                                             ((128, 192, 520), 1), ((8, 8, 8), 2)])
def test_product(machine, tutorial, shape, programs):
    run_and_compare(machine, tutorial, shape, programs, **SMALL)


def test_right_under_every_interleaving(tutorial):
    report = checked(tutorial, (192, 136, 200), 2, **{**SMALL, "STAGES": 2})
    assert report.ok, report


@pytest.mark.parametrize("old, new, kind", [
    ("tlx.barrier_wait(turn[me], turn_phase)\n", "pass\n", "OperandOverwritten"),
    ("turn_phase = 1 - me", "turn_phase = 0", "WaitCycle"),
], ids=["no turn", "no first turn"])
def test_what_if(edited, old, new, kind):
    assert finds(kind, edited(old, new), (192, 192, 256), 1, **{**SMALL, "STAGES": 2})
