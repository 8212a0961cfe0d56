"""Polynomials of a kernel's integers: what an address, a bound or a stride is, as a sum of products.

Input: numbers and symbols. Output: frozen `Poly`s, with the usual operators. For example, with K a parameter and k a loop's trip:

    left = Poly.of(K) - Poly.of(k) * 64         str(left) is "K - 64*trip@12"
    left.at({K: 200, k: 3})                     8
    (Poly.of(m) * Poly.of(K) + 5).divided(Poly.of(K))       (m, 5)

Symbols are scalars (`Value`), trips of loops (`Trip`) and positions in a tile (`Position`). The numbers are whole and of any size:
where the arithmetic of 32 bits would wrap, its result differs (`pointer_forms` notes where that counts).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from ...ir import Op, Value


@dataclass(frozen=True)
class Trip:
    """The number of a loop's round, from 0 on."""

    loop: Op

    @property
    def name(self) -> str:
        return f"trip@{self.loop.site.line}"


@dataclass(frozen=True)
class Position:
    """The index of an element along an axis of a tile that has `extent` elements there."""

    axis: int
    extent: int

    @property
    def name(self) -> str:
        return "ijkl"[self.axis] if self.axis < 4 else f"i{self.axis}"


Symbol = Value | Trip | Position
Monomial = tuple[Symbol, ...]


class Poly:
    """A polynomial {monomial: factor}; a monomial is a sorted tuple of symbols, () that of the number."""

    __slots__ = ("terms", "_hash")

    def __init__(self, terms: Mapping[Monomial, int] | Iterable[tuple[Monomial, int]] = ()):
        self.terms = {monomial: factor for monomial, factor in dict(terms).items() if factor}
        self._hash: int | None = None

    @classmethod
    def of(cls, symbol: Symbol) -> Poly:
        """The polynomial that is one symbol."""
        return cls({(symbol, ): 1})

    @classmethod
    def number(cls, number: int) -> Poly:
        """The polynomial that is a number."""
        return cls({(): number})

    # ---- arithmetic -------------------------------------------------------------------------------------------------

    def __add__(self, other: Poly | int) -> Poly:
        return self._plus(other, 1)

    def __sub__(self, other: Poly | int) -> Poly:
        return self._plus(other, -1)

    def __neg__(self) -> Poly:
        return self * -1

    def __mul__(self, other: Poly | int) -> Poly:
        terms: dict[Monomial, int] = {}
        for mine, factor in self.terms.items():
            for theirs, number in _poly(other).terms.items():
                monomial = _sorted((*mine, *theirs)) if mine and theirs else mine or theirs
                terms[monomial] = terms.get(monomial, 0) + factor * number
        return Poly(terms)

    def divided(self, by: Poly) -> tuple[Poly, Poly]:
        """(quotient, rest) by a single monomial: self == quotient * by + rest, with all in the quotient that `by` divides."""
        ((divisor, number), ) = by.terms.items()
        quotient, rest = {}, {}
        for monomial, factor in self.terms.items():
            left = _without(monomial, divisor)
            if left is None or factor % number:
                rest[monomial] = factor
            else:
                quotient[left] = factor // number
        return Poly(quotient), Poly(rest)

    def substituted(self, instead: Mapping[Symbol, Poly | int]) -> Poly:
        """The polynomial with other polynomials in place of symbols."""
        if not any(symbol in instead for monomial in self.terms for symbol in monomial):
            return self
        total = Poly()
        for monomial, factor in self.terms.items():
            term = Poly.number(factor)
            for symbol in monomial:
                term = term * (instead[symbol] if symbol in instead else Poly.of(symbol))
            total = total + term
        return total

    def at(self, numbers: Mapping[Symbol, Any]) -> Any:
        """The value where the symbols are these numbers, or anything that adds and multiplies as numbers do. A symbol that is
        missing raises `KeyError`."""
        return sum(factor * prod(numbers[symbol] for symbol in monomial) for monomial, factor in self.terms.items())

    # ---- questions --------------------------------------------------------------------------------------------------

    @property
    def constant(self) -> int | None:
        """The number that it is; None if it has symbols."""
        return self.terms.get((), 0) if self.terms.keys() <= {()} else None

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """Each of its symbols once, in the order of their first terms."""
        return tuple(dict.fromkeys(symbol for monomial in self.terms for symbol in monomial))

    def part(self, asks: Callable[[Monomial], bool]) -> Poly:
        """The sum of the terms of whose monomials `asks` is true."""
        return Poly({monomial: factor for monomial, factor in self.terms.items() if asks(monomial)})

    def _plus(self, other: Poly | int, sign: int) -> Poly:
        terms = dict(self.terms)
        for monomial, factor in _poly(other).terms.items():
            terms[monomial] = terms.get(monomial, 0) + sign * factor
        return Poly(terms)

    def __bool__(self) -> bool:
        return bool(self.terms)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Poly) and self.terms == other.terms

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self.terms.items()))
        return self._hash

    # ---- text -------------------------------------------------------------------------------------------------------

    def text(self, name: Callable[[Symbol], str]) -> str:
        """An expression of Python, with these names of the symbols; products first, the number last."""
        terms = [("*".join(sorted(map(name, monomial))), factor) for monomial, factor in self.terms.items()]
        terms.sort(key=lambda term: (not term[0], term[1] < 0, term[0]))
        found = ""
        for product, factor in terms:
            size = "*".join(([str(abs(factor))] if abs(factor) != 1 or not product else []) + ([product] if product else []))
            sign = "-" if factor < 0 else "+"
            found += f" {sign} {size}" if found else f"{'-' * (factor < 0)}{size}"
        return found or "0"

    def __str__(self) -> str:
        return self.text(lambda symbol: symbol.name or repr(symbol))

    __repr__ = __str__


def _poly(one: Poly | int) -> Poly:
    return one if isinstance(one, Poly) else Poly.number(one)


def _key(symbol: Symbol) -> tuple[int, int]:
    """The order of symbols in a monomial: any will do, if it is the same in all."""
    if isinstance(symbol, Position):
        return 2, symbol.axis
    return (1, id(symbol.loop)) if isinstance(symbol, Trip) else (0, id(symbol))


def _sorted(monomial: Monomial) -> Monomial:
    return tuple(sorted(monomial, key=_key))


def _without(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    """The monomial divided by another one; None if that does not go."""
    left = list(monomial)
    for symbol in divisor:
        if symbol not in left:
            return None
        left.remove(symbol)
    return tuple(left)
