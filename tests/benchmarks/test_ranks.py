"""Ranks of measured candidates by their predictions (benchmarks/ranks.py)."""

import pytest

from benchmarks.ranks import groups, predicted, tau


def test_tau_counts_pairs():
    assert tau([(1, 10), (2, 20), (3, 30)]) == 1 and tau([(3, 10), (2, 20), (1, 30)]) == -1
    assert tau([(1, 10), (1, 20), (3, 30)]) == pytest.approx(2 / 3)      # a tie is neither


@pytest.mark.long(but=["gemm-*"], everywhere=True)
@pytest.mark.parametrize("group", ["plain-gemm-4096x4096x4096", "gemm-4096x2112x7168"])
def test_candidates_of_a_gemm_are_ranked(group, request):
    """By stages, tiles, rings and warps, as they were measured: every fourth one, at 2 CPU seconds each, every other one by
    `--long`. All of them and those of other kernels stand in docs/TIMING.md."""
    chosen = groups()[group][::2 if request.config.getoption("long") else 4]
    found = [(predicted(one).microseconds, one.microseconds) for one in chosen]
    assert len(found) >= 4 and tau(found) >= 0.7
