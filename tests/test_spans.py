"""Spans hold every number that a kernel may compute from numbers between their ends; where arrays lie."""

import itertools

import numpy as np
import pytest

import mimw
from mimw.runtime import spans
from mimw.runtime.spans import Span, address, apart, bits, least, most, within

ENDS = (-7, -1, 0, 1, 2, 5)
SPANS = [Span(low, high) for low in ENDS for high in ENDS if low <= high]


def towards_zero(a, b):
    return int(a / b)


FUNCTIONS = {
    "+": (lambda a, b: a + b, lambda a, b: a + b), "-": (lambda a, b: a - b, lambda a, b: a - b),
    "*": (lambda a, b: a * b, lambda a, b: a * b), "quotient": (spans.quotient, towards_zero),
    "remainder": (spans.remainder, lambda a, b: a - b * towards_zero(a, b)), "smaller": (spans.smaller, min),
    "larger": (spans.larger, max), "either": (spans.either, lambda a, b: a),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_span_holds_every_result(name):
    function, of_numbers = FUNCTIONS[name]
    for one, other in itertools.product(SPANS, SPANS):
        found = function(one, other)
        for a, b in itertools.product(range(one.least, one.most + 1), range(other.least, other.most + 1)):
            if b or "q" not in name and "remainder" != name:
                assert least(found) <= of_numbers(a, b) <= most(found), (one, other, a, b)
    for a, b in itertools.product(ENDS, ENDS):
        if (b or "q" not in name and "remainder" != name) and name != "either":
            assert function(a, b) == of_numbers(a, b)
            mixed = function(Span(a, a), b)
            assert least(mixed) <= of_numbers(a, b) <= most(mixed)
    assert (3 - Span(0, 2), 3 + Span(0, 2), 3 * Span(0, 2)) == (Span(1, 3), Span(3, 5), Span(0, 6))


def test_what_zero_divides_is_anything():
    for by in (0, Span(-1, 1), Span(0, 4)):
        assert not within(spans.quotient(8, by), -(1 << 63), 1 << 63) and not within(spans.remainder(8, by), -(1 << 63), 1 << 63)


def test_integers_wrap_and_spans_that_may_wrap_are_all_of_them():
    assert bits(1 << 31, 32) == -(1 << 31) and bits(-5, 32) == -5 and bits((1 << 32) + 7, 32) == 7
    assert bits(Span(0, 9), 32) == Span(0, 9) and bits(Span(0, 1 << 31), 32) == Span(-(1 << 31), (1 << 31) - 1)


@pytest.mark.parametrize("start, end, step", [(0, 10, 3), (4, 4, 1), (7, 2, 1), (-3, 9, 4)])
def test_trips_and_counters_of_a_loop(start, end, step):
    rounds = range(start, end, step)
    for bounds in ((start, end), (Span(start - 1, start), Span(end, end + 1))):
        trips, counter = spans.trips(*bounds, step), spans.counter(*bounds, step)
        assert within(len(rounds) - 1 if rounds else 0, trips.least, trips.most)
        assert all(within(at, counter.least, counter.most) for at in rounds)
    assert spans.trips(start, end, step) == Span(0, max(0, len(rounds) - 1))
    assert not within(spans.trips(0, 8, Span(0, 2)), 0, 1 << 62) and not within(spans.counter(0, 8, 0), 0, 1 << 62)


def test_programs_of_a_grid():
    assert spans.program((4, 2), 1) == Span(0, 1) and spans.program((4, ), 2) == Span(0, 0) and spans.programs((4, ), 0) == 4


def test_where_arrays_lie():
    whole = np.zeros((64, 32), np.float16)
    described = mimw.TensorDescriptor.from_tensor(whole, [8, 32])
    assert address(whole[2:]) == address(whole) + 2 * 64 and address(described) == address(whole)
    assert apart(whole[:32], whole[32:]) and not apart(whole[:33], whole[32:]) and not apart(whole, whole)
    assert not apart(whole[:, :16], whole[:, 16:]), "their rows lie between each other"
    assert apart(whole[:0], whole) and not apart(whole[::-1], whole[63:])
    assert not apart(described, whole[63:])
    torch = pytest.importorskip("torch")
    one = torch.zeros(64)
    assert apart(one[:32], one[32:]) and not apart(one[:33], one.numpy()[32:])
