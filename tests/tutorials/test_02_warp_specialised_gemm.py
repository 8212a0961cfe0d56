"""Tutorial 02 on the simulator and the GPU, at shapes that no tile divides; and each of its "what if" edits."""

import pytest

from .gemm import checked, kinds, run_and_compare

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
    ("acc = tlx.async_dot_wait(1, acc)\n                    tlx.barrier_arrive(empty[last], pred=k > 0)",
     "tlx.barrier_arrive(empty[slot])\n                    acc = tlx.async_dot_wait(1, acc)", "OperandOverwritten"),
    (", arrive_count=2)", ")", "OperandOverwritten"),
    ('tlx.fence("async_shared")\n', "pass\n", "MissingFence"),
], ids=["parity", "early arrival", "one arrival", "no fence"])
def test_what_if(edited, old, new, kind):
    assert kind in kinds(checked(edited(old, new), (128, 128, 384), 1, BN=128, STAGES=2))
