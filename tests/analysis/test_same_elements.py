"""Where two accesses meet, as `same_elements` says it, against all addresses of a few rounds."""

import random

import numpy as np
import pytest
import triton.language as tl

import mimw
from mimw.compiler.analysis.same_elements import Accesses, Meeting, is_access
from mimw.compiler.analysis.uses import uses_of
from tests.orchestrate.again import recorded

ROWS, COLUMNS, STRIDE, TRIPS = 4, 8, 1000, 5


@mimw.jit
def accesses(u, n, s, A: tl.constexpr, B: tl.constexpr):
    """One store and one load in a loop: numbers of A and B are the first row, rows a trip, the first column, columns a trip."""
    rows, columns = tl.arange(0, 4), tl.arange(0, 8)
    for i in range(n):
        tl.store(u + (rows + A[0] + i * A[1])[:, None] * s + (columns + A[2] + i * A[3])[None, :], 1.0)
        x = tl.load(u + (rows + B[0] + i * B[1])[:, None] * s + (columns + B[2] + i * B[3])[None, :])
        tl.device_assert(tl.sum(x) == 0.0)


def _places(numbers, trip):
    row, rows, column, columns = numbers
    at = (np.arange(ROWS) + row + trip * rows)[:, None] * STRIDE + (np.arange(COLUMNS) + column + trip * columns)[None, :]
    return {int(place): index for index, place in enumerate(at.ravel())}


def _met(one, other):
    return {(one[place], other[place]) for place in one.keys() & other.keys()}


@pytest.mark.parametrize("seed", range(4))
def test_against_all_addresses(seed):
    turn, said = random.Random(seed), set()
    for _ in range(20):
        first, second = ((turn.choice((0, 0, 4, 8, 2)), turn.choice((0, 0, 4, 8, 8, 1)), turn.choice((0, 0, 8, 16, 3)),
                          turn.choice((0, 0, 8, 16, 1))) for _ in range(2))
        if turn.random() < 0.8:
            second = (turn.choice((first[0], second[0])), first[1], turn.choice((first[2], second[2])), first[3])
        program = recorded(accesses, (np.zeros(4), 2, 3), {"A": first, "B": second}).program
        store, load = (op for op in program.walk() if is_access(op))
        (loop, ) = uses_of(program).loops(store)
        compared = Accesses(uses_of(program))
        now = [_met(_places(first, trip), _places(second, trip)) for trip in range(TRIPS)]
        later = [_met(_places(first, trip), _places(second, trip + more)) for trip in range(TRIPS) for more in range(1, TRIPS)]
        for meeting, met in ((compared.meeting(store, load), now), (compared.meeting(store, load, frozenset({loop})), later)):
            pairs = set().union(*met)
            said.add(meeting)
            assert meeting is not Meeting.APART or not pairs, (first, second)
            assert meeting is not Meeting.SAME or all(one == other for one, other in pairs), (first, second)
    assert {Meeting.APART, Meeting.SAME} <= said

