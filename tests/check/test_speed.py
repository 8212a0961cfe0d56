"""The GEMM that people run is checked while they wait."""

from benchmarks.check_speed import GOAL, measure

CORES = 2


def test_a_gemm_of_1024_is_checked_in_ten_seconds_on_two_cores():
    """Bounded in CPU time, so that what else runs on the machine does not matter."""
    report, _, cpu = measure()
    assert report.ok and report.runs == 8 and report.ops > 300_000
    assert cpu <= GOAL * CORES
