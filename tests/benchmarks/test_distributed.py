"""What benchmarks on several GPUs share, without a GPU: how many rounds ranks agree on, the kernel in which they meet."""

import math

import pytest

import mimw
from benchmarks.distributed import MOST_ROUNDS, agreed_rounds, meet, worst


@pytest.mark.parametrize("per_round, at_least, rounds", [
    ([1.0, 2.0], 100.0, 100), ([50.0], 100.0, 5), ([1e-3, 7.0], 1000.0, MOST_ROUNDS), ([0.0], 1.0, MOST_ROUNDS)])
def test_rounds_are_those_of_the_quickest_candidate_within_bounds(per_round, at_least, rounds):
    assert agreed_rounds(per_round, at_least) == rounds


def test_ranks_meet_any_number_of_times():
    world = mimw.World(3)
    for _ in range(2):
        mimw.simulate(meet, (1, ), world, num_warps=1)
    assert mimw.check(meet, (1, ), world, num_warps=1).ok


def test_the_worst_error_may_be_no_number(monkeypatch):
    monkeypatch.setattr("benchmarks.distributed.of_all", lambda world, error: [0.5, error, 0.25])
    assert worst(None, 0.75) == 0.75 and math.isnan(worst(None, math.nan))
