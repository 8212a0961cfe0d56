"""Ranges of whole numbers that a kernel has in its integers: by their types, and by what is asked of them.

Input: types and polynomials. Output: (least, most), both included. For example, with K of 32 bits:

    of_type(I32)                            (-2^31, 2^31 - 1)
    of_poly(Poly.of(K) * 64, span)          64 times what `span(K)` gives
    narrowed((0, 100), 64, 0, (0, 640))     (0, 10): the numbers n of a range for which 64 n is from 0 to 640
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir import Scalar
from .polynomials import Poly, Symbol

Whole = tuple[int, int]


def of_type(type_: Scalar) -> Whole:
    """The numbers of a signed integer type; of a bool 0 and 1."""
    return (0, 1) if type_.bits == 1 else (-(1 << type_.bits - 1), (1 << type_.bits - 1) - 1)


def of_poly(poly: Poly, span: Callable[[Symbol], Whole]) -> Whole:
    """A range that has all values of a polynomial, if its symbols are in theirs."""
    least = most = 0
    for monomial, factor in poly.terms.items():
        low, high = factor, factor
        for symbol in monomial:
            ends = [one * other for one in (low, high) for other in span(symbol)]
            low, high = min(ends), max(ends)
        least, most = least + low, most + high
    return least, most


def narrowed(span: Whole, factor: int, rest: int, within: Whole) -> Whole:
    """The part of a range whose numbers n have factor * n + rest within another one; (1, 0) if there is none."""
    low, high = within[0] - rest, within[1] - rest
    if factor == 0:
        return span if low <= 0 <= high else (1, 0)
    if factor < 0:
        low, high, factor = -high, -low, -factor
    return max(span[0], -(-low // factor)), min(span[1], high // factor)
