"""What boxes take for granted, asked by the kernel itself: conditions on numbers that it loads, as ops in front of a loop.

Input: `Within`s and `Multiple`s of boxes (`analysis.made_boxes`), and the loop whose rounds they are about. Output: a bool of the
program. For example, of a load of `for k in range(0, K, 64)`:

    Multiple(K, 8); Within(m*K + i*K, ..); Within(64*trip, 0, 2^31)     (K & 7 == 0) & (m * K + 63 * K < 2^31) & (last <= ..)

What is asked of one number alone becomes one range of it, and what follows from the ranges of numbers (`spans`) is not asked. The
others are computed in 64 bits; where a term may be larger than that, its size is asked besides, and a product of three such numbers
is refused (`NoForm`). So an answer of true is right of the whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from math import gcd

from ...ir import I1, I64, Builder, Op, Site, Value
from ...ir.flow import induction
from ..analysis.address_forms import NoForm, Within
from ..analysis.polynomials import Monomial, Poly, Position, Symbol, Trip
from ..analysis.scalar_ranges import Ranges
from ..analysis.tensor_boxes import Multiple
from ..analysis.whole_numbers import Whole, narrowed, of_poly, of_type

WORD = 16               # bytes: what descriptors' arrays begin at multiples of, and the most that a thread writes at a time
_LARGE = 1 << 56        # what a term may be, so that sums of `_TERMS` of them stay within 64 bits
_TERMS = 24


class Asked:
    """Writes conditions in front of `loop`, or, where that is None, of numbers that no round changes. `known` are ranges of numbers
    that are asked elsewhere; `spans` has those that this asks as well."""

    def __init__(self, b: Builder, ranges: Ranges, loop: Op | None, site: Site, known: Mapping[Symbol, Whole] | None = None):
        self.b, self.ranges, self.loop, self.site = b, ranges, loop, site
        self.spans: dict[Symbol, Whole] = dict(known or {})
        self.values: dict[Monomial, Value] = {}
        self.asked: dict[tuple, Value] = {}

    def all(self, conditions: Iterable[Within | Multiple]) -> Value:
        """True where all of them hold."""
        conditions = list(dict.fromkeys(conditions))
        for one in conditions:
            self._check_place(one.poly)
        before, others = dict(self.spans), []
        for one in conditions:
            if isinstance(one, Within) and not self._about_one(one):
                others.append(one)
        for symbol, span in self.spans.items():
            was = before.get(symbol, self._by_type(symbol))
            for place, relation in ((0, "icmpSGE"), (1, "icmpSLE")):
                if span[place] != was[place]:
                    self._ask(("span", symbol, place), relation, self._own(symbol), span[place])
        for one in conditions:
            if isinstance(one, Multiple):
                self._multiple(one)
        for one in others:
            self._within(one)
        found = list(self.asked.values())
        total = found[0] if found else self.b.constant(1, I1, self.site)
        for other in found[1:]:
            total = self.b.emit("and", (total, other), self.site)
        return total

    def _check_place(self, poly: Poly) -> None:
        """Refuse numbers that are not there yet where the conditions stand."""
        for symbol in poly.symbols:
            if self.loop is not None and not self._moves(symbol) and not self.ranges.forms.invariant(Poly.of(symbol), self.loop):
                raise NoForm(f"its place follows from what line {self.ranges.site(symbol).line} computes in the loop", self.site)

    def sum(self, poly: Poly) -> Value:
        """A polynomial in 64 bits, whatever its size."""
        return self._sum(poly, checked=False)

    def _ask(self, key: tuple, relation: str, value: Value, number: int) -> None:
        if key not in self.asked:
            self.asked[key] = self.b.by_constant(relation, value, number, self.site)

    def _multiple(self, one: Multiple) -> None:
        terms = list(one.poly.terms.items())
        of = one.of // gcd(terms[0][1], one.of) if len(terms) == 1 else one.of
        alone = len(terms) == 1 and len(terms[0][0]) == 1
        if of > 1:
            value = self._own(terms[0][0][0]) if alone else self._sum(one.poly, checked=False)
            rest = self.b.by_constant("and", value, of - 1, self.site)      # `of` is a power of two
            self._ask(("multiple", one.poly, of), "icmpEQ", rest, 0)

    # ---- ranges --------------------------------------------------------------------------------------------------------

    def _by_type(self, symbol: Symbol) -> Whole:
        if isinstance(symbol, Position):
            return 0, symbol.extent - 1
        if isinstance(symbol, Trip):
            return self._rounds(symbol.loop)
        return of_type(symbol.type)

    def _span(self, symbol: Symbol) -> Whole:
        return self.spans.get(symbol) or self._by_type(symbol)

    def _rounds(self, loop: Op) -> Whole:
        start, end = (of_poly(self.ranges.forms.of(one).poly, self._span) for one in (loop.start, loop.end))
        bits = of_type(loop.start.type)
        return 0, max(0, (min(end[1], bits[1]) - max(start[0], bits[0]) - 1) // self._step(loop))

    def _step(self, loop: Op) -> int:
        step = self.ranges.forms.of(loop.step).poly.constant
        if step is None or step <= 0:
            raise NoForm(f"the loop on line {loop.site.line} counts by a step that is not known", loop.site)
        return step

    def _about_one(self, one: Within) -> bool:
        """Narrow the range of a number, if a condition is about that number alone; False if it is about several."""
        positions = [symbol for symbol in one.poly.symbols if isinstance(symbol, Position)]
        others = [symbol for symbol in one.poly.symbols if not isinstance(symbol, Position)]
        if len(others) != 1:
            return False
        if any(sum(symbol is other for symbol in monomial for other in others) > 1 or
               sum(isinstance(symbol, Position) for symbol in monomial) > 1 for monomial in one.poly.terms):
            return False
        symbol, = others
        moves = self._moves(symbol)
        for ends in product(*((0, position.extent - 1) for position in positions)):
            line = one.poly.substituted(dict(zip(positions, ends)))
            factor, rest = line.terms.get((symbol, ), 0), line.terms.get((), 0)
            if moves and not one.least <= rest <= one.most:     # in the first round
                raise NoForm(one.what.format(poly=self.ranges.shown(one.poly)), one.site)
            self.spans[symbol] = narrowed(self._span(symbol), factor, rest, (one.least, one.most))
        if self.spans[symbol][0] > self.spans[symbol][1]:
            raise NoForm(one.what.format(poly=self.ranges.shown(one.poly)), one.site)
        return True

    def _moves(self, symbol: Symbol) -> bool:
        return isinstance(symbol, Position) or isinstance(symbol, Trip) and symbol.loop is self.loop

    def _within(self, one: Within) -> None:
        least, most = of_poly(one.poly, self._span)
        if least >= one.least and most <= one.most:
            return
        fixed, moving = Poly(), {}
        for monomial, factor in one.poly.terms.items():
            changes = [symbol for symbol in monomial if self._moves(symbol)]
            if len(changes) > 1:
                raise NoForm("what its numbers have to keep to is no sum of rounds times numbers", one.site)
            rest = Poly({tuple(symbol for symbol in monomial if not self._moves(symbol)): factor})
            if changes:
                moving[changes[0]] = moving.get(changes[0], Poly()) + rest
            else:
                fixed = fixed + rest
        ends = [self._ends(symbol, factor) for symbol, factor in moving.items()]
        bounds = (least < one.least, 0, "icmpSGE", one.least), (most > one.most, 1, "icmpSLE", one.most)
        for needed, place, relation, bound in bounds:
            if needed and -(1 << 62) < bound < 1 << 62:
                self._ask((place, one.poly, bound), relation, self._end(fixed, [each[place] for each in ends]), bound)
            elif needed:        # of numbers of 64 bits: that terms are small says it
                self._sum(fixed)

    def _end(self, fixed: Poly, ends: list[Value | int]) -> Value:
        values = [one for one in ends if isinstance(one, Value)]
        fixed = fixed + sum(one for one in ends if isinstance(one, int))
        if fixed or not values:
            values = [self._sum(fixed), *values]
        total = values[0]
        for one in values[1:]:
            total = self.b.emit("add", (total, one), self.site)
        return total

    def _ends(self, symbol: Symbol, factor: Poly) -> tuple[Value | int, Value | int]:
        """The least and the most of a number times a position, or times a round of the loop; 0 is among them."""
        if isinstance(symbol, Position):
            end = self._sum(factor * (symbol.extent - 1))
        else:
            self._small(("rounds", symbol), self._own(symbol), self._span(symbol), 1 << 24)
            times = self._sum(factor)
            self._small(("factor", factor), times, of_poly(factor, self._span), 1 << 31)
            end = self.b.emit("mul", (times, self._own(symbol)), self.site)
        least, most = of_poly(factor, self._span)
        if least >= 0 or most <= 0:
            return (0, end) if least >= 0 else (end, 0)
        zero = self.b.constant(0, I64, self.site)
        return self.b.emit("minsi", (end, zero), self.site), self.b.emit("maxsi", (end, zero), self.site)

    # ---- sums and products -------------------------------------------------------------------------------------------

    def _sum(self, poly: Poly, checked: bool = True) -> Value:
        number, total = poly.terms.get((), 0), None
        if checked and (len(poly.terms) > _TERMS or abs(number) > _LARGE):
            raise NoForm("its numbers are sums of too many products", self.site)
        for monomial, factor in poly.terms.items():
            if monomial:
                term = self._term(monomial, factor, checked)
                total = term if total is None else self.b.emit("add", (total, term), self.site)
        if total is None:
            return self.b.constant(number, I64, self.site)
        return self.b.by_constant("add", total, number, self.site) if number else total

    def _term(self, monomial: Monomial, factor: int, checked: bool) -> Value:
        if checked:
            self._check(monomial, factor)
        return self.b.scaled(self._product(monomial), factor, self.site)

    def _product(self, monomial: Monomial) -> Value:
        if monomial not in self.values:
            values = [self._wide(self._own(symbol)) for symbol in monomial]
            total = values[0]
            for other in values[1:]:
                total = self.b.emit("mul", (total, other), self.site)
            self.values[monomial] = total
        return self.values[monomial]

    def _check(self, monomial: Monomial, factor: int) -> None:
        """Ask that a term is small, if it may be large."""
        if _size(of_poly(Poly({monomial: factor}), self._span)) <= _LARGE:
            return
        if len(monomial) > 2:
            raise NoForm("its numbers are products of three numbers that the kernel computes", self.site)
        for symbol in monomial if len(monomial) > 1 else ():
            self._small(("number", symbol), self._own(symbol), self._span(symbol), 1 << 31)
        self._small(("term", monomial, abs(factor)), self._product(monomial), (-_LARGE << 8, _LARGE << 8), _LARGE // abs(factor))

    def _small(self, key: tuple, value: Value, span: Whole, most: int) -> None:
        if _size(span) > most:
            self._ask((*key, "least"), "icmpSGE", value, -most)
            self._ask((*key, "most"), "icmpSLE", value, most)

    # ---- numbers ---------------------------------------------------------------------------------------------------------

    def _own(self, symbol: Symbol) -> Value:
        """A number as the kernel has it; of the loop's rounds the last one."""
        if not isinstance(symbol, Trip):
            return symbol
        if (symbol, ) not in self.values:
            self.values[(symbol, )] = self._last_round() if self._moves(symbol) else self._round(symbol.loop)
        return self.values[(symbol, )]

    def _last_round(self) -> Value:
        """The number of the loop's last round; 0 where it has none."""
        start, end = self._counted(self.loop, self.loop.end)
        behind = self.b.by_constant("sub", self.b.emit("sub", (end, start), self.site) if start is not None else end, 1, self.site)
        zero = self.b.constant(0, I64, self.site)
        return self._rounded(self.b.emit("maxsi", (behind, zero), self.site), self.loop, "last")

    def _round(self, loop: Op) -> Value:
        """The number of the round of a loop around this one."""
        start, value = self._counted(loop, induction(loop))
        return self._rounded(self.b.emit("sub", (value, start), self.site) if start is not None else value, loop, "round")

    def _rounded(self, value: Value, loop: Op, name: str) -> Value:
        step = self._step(loop)
        return value if step == 1 else self.b.by_constant("sdiv", value, step, self.site)

    def _counted(self, loop: Op, value: Value) -> tuple[Value | None, Value]:
        """The start of a loop, None if that is 0, and a number of its counter."""
        begin = None if self.ranges.forms.of(loop.start).poly.constant == 0 else self._wide(loop.start)
        value = self._wide(value)
        for each in (begin, value):
            if each is not None and loop.start.type.bits > 32:
                self._small(("counter", each), each, (-_LARGE << 1, _LARGE << 1), _LARGE)
        return begin, value

    def _wide(self, value: Value) -> Value:
        if value.type == I64:
            return value
        if (value, ) not in self.values:
            self.values[(value, )] = self.b.emit("int_cast", (value, I64, value.type.bits > 1), self.site)
        return self.values[(value, )]


def begins_word(b: Builder, address: Value, site: Site) -> Value:
    """True where an address is a multiple of WORD."""
    rest = b.by_constant("and", b.emit("ptr_to_int", (address, I64), site), WORD - 1, site)
    return b.by_constant("icmpEQ", rest, 0, site)


def word_of(b: Builder, address: Value, site: Site) -> Value:
    """The address of the word that an address lies in: itself, if that is a multiple of WORD."""
    begin = b.by_constant("and", b.emit("ptr_to_int", (address, I64), site), -WORD, site)
    return b.emit("int_to_ptr", (begin, address.type), site)


def _size(span: Whole) -> int:
    return max(abs(span[0]), abs(span[1]))
