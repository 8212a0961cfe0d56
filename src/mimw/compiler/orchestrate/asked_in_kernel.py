"""What boxes take for granted, asked by the kernel itself: conditions on numbers that it loads, as ops in front of a loop.

Input: `Within`s and `Multiple`s of boxes (`analysis.made_boxes`), and the loop whose rounds they are about. Output: a bool of the
program. For example, of a load of `for k in range(0, K, 64)`:

    Multiple(K, 8); Within(m + 64*trip, 0, 2^31)        (K & 7 == 0) & (m >= 0) & (m + 64 * (trips - 1) <= 2^31)

Numbers are computed in 64 bits, where nothing may wrap unseen: a product that could be too large is asked of besides (`_LARGE`), and
what would need three factors is refused (`NoForm`). So an answer of true is right of the whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...ir import I64, Builder, Op, Scalar, Site, Value
from ...ir.flow import induction
from ..analysis.address_forms import NoForm, Within
from ..analysis.polynomials import Monomial, Poly, Position, Symbol, Trip
from ..analysis.scalar_ranges import Ranges
from ..analysis.tensor_boxes import Multiple

_LARGE = 1 << 54        # what a term may be, so that sums of some of them stay within 64 bits
_TERMS = 24
_ANY = 1 << 62          # a bound that no sum of terms reaches


class Asked:
    """Writes conditions in front of `loop`, or, where that is None, of numbers that no round changes."""

    def __init__(self, b: Builder, ranges: Ranges, loop: Op | None, site: Site):
        self.b, self.ranges, self.loop, self.site = b, ranges, loop, site
        self.known: dict[Monomial, Value] = {}
        self.asked: dict[tuple, Value] = {}

    def all(self, conditions: Iterable[Within | Multiple]) -> Value:
        """True where all of them hold."""
        for one in merged(conditions):
            if isinstance(one, Multiple):
                rest = self.b.by_constant("and", self._sum(one.poly, checked=False), one.of - 1, self.site)
                self._ask(("multiple", one.poly, one.of), "icmpEQ", rest, 0)
            else:
                self._within(one)
        found = list(self.asked.values())
        total = found[0] if found else self.b.constant(1, Scalar("i1"), self.site)
        for other in found[1:]:
            total = self.b.emit("and", (total, other), self.site)
        return total

    def _ask(self, key: tuple, relation: str, value: Value, number: int) -> None:
        if key not in self.asked:
            self.asked[key] = self.b.by_constant(relation, value, number, self.site)

    # ---- bounds --------------------------------------------------------------------------------------------------------

    def _within(self, one: Within) -> None:
        moving: dict[Symbol, Poly] = {}
        fixed = Poly()
        for monomial, factor in one.poly.terms.items():
            changes = [symbol for symbol in monomial if self._moves(symbol)]
            if len(changes) > 1:
                raise NoForm("what its numbers have to keep to is no sum of rounds times numbers", one.site)
            rest = Poly({tuple(symbol for symbol in monomial if not self._moves(symbol)): factor})
            if changes:
                moving[changes[0]] = moving.get(changes[0], Poly()) + rest
            else:
                fixed = fixed + rest
        ends = [self._span(symbol, factor) for symbol, factor in moving.items()]
        if not (-_ANY < one.least or one.most < _ANY):      # of numbers of 64 bits: that terms are small says it
            self._sum(fixed)
        for place, relation, bound in ((0, "icmpSGE", one.least), (1, "icmpSLE", one.most)):
            if -_ANY < bound < _ANY:
                self._ask((place, one.poly, bound), relation, self._end(fixed, [each[place] for each in ends]), bound)

    def _end(self, fixed: Poly, ends: list[Value | int]) -> Value:
        total = self._sum(fixed + sum(one for one in ends if isinstance(one, int)))
        for one in ends:
            total = self.b.emit("add", (total, one), self.site) if isinstance(one, Value) else total
        return total

    def _moves(self, symbol: Symbol) -> bool:
        return isinstance(symbol, Position) or isinstance(symbol, Trip) and symbol.loop is self.loop

    def _span(self, symbol: Symbol, factor: Poly) -> tuple[Value | int, Value | int]:
        """The least and the most of a number times a position, or times a round of the loop; 0 is among them."""
        last = symbol.extent - 1 if isinstance(symbol, Position) else None
        number = factor.constant
        if number is not None and last is not None:
            return min(0, number * last), max(0, number * last)
        if last is not None:
            end = self._sum(factor * last)
        else:
            end = self._product(self._sum(factor), self._last_round(), ("rounds", factor))
        zero = self.b.constant(0, I64, self.site)
        if number is not None:
            return (0, end) if number >= 0 else (end, 0)
        return tuple(self.b.emit(name, (end, zero), self.site) for name in ("minsi", "maxsi"))

    def _last_round(self) -> Value:
        """The number of the loop's last round; 0 or less where it has none."""
        start, end, step = self._counted(self.loop, self.loop.end)
        behind = self.b.by_constant("sub", self.b.emit("sub", (end, start), self.site), 1, self.site)
        zero = self.b.constant(0, I64, self.site)
        return self.b.emit("sdiv", (self.b.emit("maxsi", (behind, zero), self.site), step), self.site, label="last")

    # ---- sums and products -------------------------------------------------------------------------------------------

    def sum(self, poly: Poly) -> Value:
        """A polynomial in 64 bits, whatever its size."""
        return self._sum(poly, checked=False)

    def _sum(self, poly: Poly, checked: bool = True) -> Value:
        if len(poly.terms) > _TERMS:
            raise NoForm(f"its numbers are sums of more than {_TERMS} products", self.site)
        total, number = None, poly.terms.get((), 0)
        for monomial, factor in poly.terms.items():
            if monomial:
                term = self._term(monomial, factor, checked)
                total = term if total is None else self.b.emit("add", (total, term), self.site)
        if abs(number) > _LARGE and checked:
            raise NoForm(f"its numbers are sums with {number}", self.site)
        if total is None:
            return self.b.constant(number, I64, self.site)
        return self.b.by_constant("add", total, number, self.site) if number else total

    def _term(self, monomial: Monomial, factor: int, checked: bool) -> Value:
        if len(monomial) > 2 and checked:
            raise NoForm("its numbers are products of three numbers that the kernel computes", self.site)
        if monomial not in self.known:
            values = [self._symbol(symbol) for symbol in monomial]
            product = values[0]
            for other in values[1:]:
                product = self.b.emit("mul", (product, other), self.site)
            self.known[monomial] = product
        value = self.known[monomial]
        if checked:
            small = [symbol for symbol in monomial if self._bits(symbol) <= 32]
            if len(monomial) > 1:
                for symbol in monomial:
                    if symbol not in small:
                        self._bounded(("symbol", symbol), self._symbol(symbol), 1 << 31)
            if len(monomial) > 1 or not small or abs(factor) > _LARGE >> 31:
                self._bounded(("term", monomial, abs(factor)), value, _LARGE // max(1, abs(factor)))
        return self.b.scaled(value, factor, self.site)

    def _product(self, one: Value, other: Value, key: tuple) -> Value:
        self._bounded((*key, "factor"), one, 1 << 31)
        self._bounded((*key, "times"), other, 1 << 24)
        return self.b.emit("mul", (one, other), self.site)

    def _bounded(self, key: tuple, value: Value, most: int) -> None:
        self._ask((*key, "least"), "icmpSGE", value, -most)
        self._ask((*key, "most"), "icmpSLE", value, most)

    def _bits(self, symbol: Symbol) -> int:
        return 64 if isinstance(symbol, Trip) else symbol.type.bits

    def _symbol(self, symbol: Symbol) -> Value:
        if (symbol, ) not in self.known:
            self.known[(symbol, )] = self._round(symbol.loop) if isinstance(symbol, Trip) else self._wide(symbol)
        return self.known[(symbol, )]

    def _round(self, loop: Op) -> Value:
        """The number of the round of a loop around this one."""
        start, value, step = self._counted(loop, induction(loop))
        return self.b.emit("sdiv", (self.b.emit("sub", (value, start), self.site), step), self.site)

    def _counted(self, loop: Op, value: Value) -> tuple[Value, Value, Value]:
        """Start, a number of a loop's counter, and step."""
        if (self.ranges.forms.of(loop.step).poly.constant or 0) <= 0:
            raise NoForm(f"the loop on line {loop.site.line} counts by a step that is not known", loop.site)
        start, value = self._wide(loop.start), self._wide(value)
        if loop.start.type.bits > 32:
            for each in (start, value):
                self._bounded(("counter", each), each, _LARGE)
        return start, value, self._wide(loop.step)

    def _wide(self, value: Value) -> Value:
        return value if value.type == I64 else self.b.emit("int_cast", (value, I64, value.type.bits > 1), self.site)


def merged(conditions: Iterable[Within | Multiple]) -> list[Within | Multiple]:
    """One condition for each polynomial and kind, the narrowest that all together are."""
    found: dict[tuple, Within | Multiple] = {}
    for one in conditions:
        other = found.setdefault((type(one), one.poly), one)
        if isinstance(one, Multiple):
            if one.of > other.of:       # both are powers of two
                found[type(one), one.poly] = one
        elif other is not one:
            found[type(one), one.poly] = Within(one.poly, max(one.least, other.least), min(one.most, other.most), one.what, one.site)
    return list(found.values())
