"""Twice the size costs about twice the CPU time: the series of benchmarks/growth.py, each at two sizes."""

import pytest

from benchmarks.growth import MOST, SERIES, seconds, topk_of

pytestmark = pytest.mark.usefixtures("little_to_collect")
TOPK_GOAL, SLOWER_MACHINES = 0.2, 3


def grown(small, large) -> tuple[float, float]:
    """(CPU seconds of the small one, of the large one), measured longer if they look as if the large one cost too much."""
    return tuple(seconds(small, large, rounds=1, enough=lambda best: best[1] <= MOST * best[0]))


@pytest.mark.parametrize("series", SERIES)
def test_twice_the_size_costs_twice(series):
    make, size = SERIES[series]
    small, large = grown(make(size), make(2 * size))
    assert large <= MOST * small, f"{series}: {size} takes {small:.4f} s, {2 * size} takes {large:.4f} s, {large / small:.2f} x"


def test_what_grows_as_a_square_is_seen():
    """Measured until it is seen: one round, in which other work added to the small one's time, says nothing."""
    def pairs(n):
        return lambda: [None for _ in range(n) for _ in range(n)]

    small, large = seconds(pairs(400), pairs(800), enough=lambda best: best[1] > MOST * best[0])
    assert large > MOST * small


def test_topk_of_long_rows():
    """In CPU time, so that what else runs on the machine hardly matters."""
    most = TOPK_GOAL * SLOWER_MACHINES
    (taken, ) = seconds(topk_of(4, 65536), rounds=1, enough=lambda best: best[0] <= most)
    assert taken <= most
