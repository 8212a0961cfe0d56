"""Ranks of measured candidates by their predictions (benchmarks/ranks.py)."""

import pytest

from benchmarks.ranks import groups, predicted, tau


def test_tau_counts_pairs():
    assert tau([(1, 10), (2, 20), (3, 30)]) == 1 and tau([(3, 10), (2, 20), (1, 30)]) == -1
    assert tau([(1, 10), (1, 20), (3, 30)]) == pytest.approx(2 / 3)      # a tie is neither


def test_candidates_of_a_plain_gemm_are_ranked():
    """By stages, tiles and warps, as they were measured; those of the GEMM with words take longer and stand in docs/TIMING.md."""
    found = [(predicted(one).microseconds, one.microseconds) for one in groups()["plain-gemm-4096x4096x4096"]]
    assert len(found) >= 10 and tau(found) >= 0.7


def test_rings_and_tiles_of_a_gemm_are_ranked():
    found = [(predicted(one).microseconds, one.microseconds) for one in groups()["gemm-4096x2112x7168"]]
    assert len(found) >= 10 and tau(found) >= 0.7
