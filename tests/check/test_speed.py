"""The GEMM that people run is checked while they wait."""

import pytest

from benchmarks.check_speed import GOAL, measure

CORES, SLOWER = 2, 2  # twice as slow as the machine that the goal is for


@pytest.mark.long(shown_by="test_a_sample_of_a_large_gemm_costs_what_its_ctas_do")
def test_a_gemm_of_1024_is_checked_while_one_waits():
    """Bounded in CPU time, so that what else runs on the machine matters little."""
    report, _, cpu = measure()
    assert report.ok and report.runs == 8 and report.ops > 300_000
    assert cpu <= GOAL * CORES * SLOWER


def test_a_sample_of_a_large_gemm_costs_what_its_ctas_do():
    """4096 x 4096 x 4096 on 132 CTAs: as many operations as three of them have, and the stores of all by their addresses."""
    report, _, cpu = measure(4096, ctas="sample", seeds=1, rounds=False, jobs=1)
    assert report.ok and report.ops < 55_000 and report.unseen[1].endswith("for all 132 clusters; no two store to one place")
    assert cpu <= GOAL * SLOWER
