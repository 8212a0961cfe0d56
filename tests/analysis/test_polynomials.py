"""Polynomials of a kernel's integers: arithmetic, division by a monomial, substitution, values and text."""

import random

import pytest

from mimw.compiler.analysis.polynomials import Poly, Position, Trip
from mimw.ir import I32, Op, Site, Value

M, N, K = (Value(I32, name) for name in "MNK")
TRIP = Trip(Op("for", site=Site("kernel.py", 12)))
SYMBOLS = (M, N, K, TRIP, Position(0, 8))
m, n, k, trip = map(Poly.of, (M, N, K, TRIP))


def any_poly(r: random.Random, terms: int = 4) -> Poly:
    total = Poly()
    for _ in range(r.randrange(terms + 1)):
        term = Poly.number(r.randrange(-9, 10))
        for _ in range(r.randrange(3)):
            term = term * Poly.of(r.choice(SYMBOLS))
        total = total + term
    return total


def test_arithmetic_is_that_of_numbers():
    r = random.Random(1)
    for _ in range(200):
        a, b, numbers = any_poly(r), any_poly(r), {symbol: r.randrange(-50, 50) for symbol in SYMBOLS}
        for made, number in ((a + b, a.at(numbers) + b.at(numbers)), (a - b, a.at(numbers) - b.at(numbers)),
                             (a * b, a.at(numbers) * b.at(numbers)), (-a, -a.at(numbers)), (a + 3, a.at(numbers) + 3),
                             (a.substituted({M: b, TRIP: 2}), a.at(numbers | {M: b.at(numbers), TRIP: 2}))):
            assert made.at(numbers) == number
        assert a + b == b + a and hash(a * b) == hash(b * a) and not a - a and (a - a).constant == 0


def test_division_by_a_monomial_leaves_a_rest():
    r = random.Random(2)
    for _ in range(200):
        a, by = any_poly(r), Poly.of(r.choice(SYMBOLS)) * r.choice((1, 2, -3))
        quotient, rest = a.divided(by)
        assert quotient * by + rest == a
    assert (m * k * 128 + k * 3 + 5).divided(k) == (m * 128 + 3, Poly.number(5))
    assert (m * 128 + 5).divided(Poly.number(64)) == (m * 2, Poly.number(5))
    with pytest.raises(ValueError, match="unpack"):
        m.divided(m + 1)


def test_questions():
    poly = m * k * 2 - trip * 64 + 7
    assert set(poly.symbols) == {M, K, TRIP} and poly.constant is None and Poly.number(7).constant == 7 and Poly().constant == 0
    assert poly.part(lambda monomial: TRIP in monomial) == trip * -64
    with pytest.raises(KeyError):
        poly.at({M: 1, K: 2})


def test_text_has_one_order_and_is_python():
    assert [str(poly) for poly in (k - trip * 64, -m + 3, m * n * 2, Poly(), Poly.number(-4), Poly.of(Position(1, 8)) + 1)] == [
        "K - 64*trip@12", "-M + 3", "2*M*N", "0", "-4", "j + 1"]
    r = random.Random(3)
    for _ in range(100):
        poly, numbers = any_poly(r), {symbol: r.randrange(-50, 50) for symbol in SYMBOLS}
        names = {symbol: f"v{number}" for number, symbol in enumerate(SYMBOLS)}
        assert eval(poly.text(names.__getitem__), {names[symbol]: numbers[symbol] for symbol in SYMBOLS}) == poly.at(numbers)
