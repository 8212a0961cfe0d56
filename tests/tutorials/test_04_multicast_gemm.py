"""Tutorial 04 on the simulator and the GPU, also where one CTA of a pair has no rows; and its "what if" edits."""

import pytest

from .gemm import checked, finds, run_and_compare

SMALL = dict(BN=128, STAGES=3)
TELL_THE_OTHER = "    tlx.barrier_arrive(empty, remote_cta_rank=other, pred=pred)\n"


@pytest.mark.parametrize("shape, programs", [((256, 128, 64), 2), ((512, 256, 256), 4), ((136, 200, 328), 3),
                                             ((648, 136, 200), 2), ((8, 8, 8), 2)])
def test_product(machine, tutorial, shape, programs):
    run_and_compare(machine, tutorial, shape, programs, **SMALL)


def test_right_under_every_interleaving(tutorial):
    report = checked(tutorial, (384, 136, 200), 2, BN=128, STAGES=2)
    assert report.ok, report


@pytest.mark.parametrize("edits, kind", [
    (("arrive_count=4", "arrive_count=2", TELL_THE_OTHER, ""), "CopyReadEarly"),
    (("(BM + BN) * BK", "(BM + BN // 2) * BK"), "BytesNotExpected"),
    (("multicast_targets=[0, 1]", "multicast_targets=[rank]"), "BytesNeverSent"),
], ids=["own consumers only", "own bytes only", "no multicast"])
def test_what_if(edited, edits, kind):
    assert finds(kind, edited(*edits), (256, 128, 256), 2, BN=128, STAGES=2)
