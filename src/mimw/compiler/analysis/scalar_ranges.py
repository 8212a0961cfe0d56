"""Scalars that the host can bound when a launch comes: it knows the arguments and the grid, not the program and the trip.

Input: the forms of a program and a polynomial. Output: what the host cannot bound, or the rule by which it bounds a scalar. For
example, with N an argument and pid the program's number:

    tiles = tl.cdiv(N, 128)         Rule("quotient", (N + 127, 128)): exact, since arguments are known
    tile_n = pid % tiles            Rule("remainder", (pid, tiles)): between two numbers
    e = tl.load(experts + pid)      no rule: it could be anything
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...ir import Param, Scalar, Site, Value
from ...ir.flow import bounds, induction
from .address_forms import NoForm
from .pointer_forms import Forms
from .polynomials import Poly, Position, Symbol, Trip

# The function of `runtime.spans` for each op of two integers of which the host knows the meaning.
_FUNCTIONS = {"sdiv": "quotient", "srem": "remainder", "minsi": "smaller", "maxsi": "larger"}


@dataclass(frozen=True)
class Rule:
    """`function` of `runtime.spans`, applied to `operands`; `bits` are what the kernel has each of them in. `exact` says that
    operands that are known make a number that is known."""

    function: str
    operands: tuple[Poly, ...]
    bits: int
    exact: bool = True


class Ranges:
    """The scalars of one program, as the host sees them."""

    def __init__(self, forms: Forms):
        self.forms, self.uses = forms, forms.uses
        self.params: dict[Value, Param] = {param.value: param for param in forms.uses.program.params}
        self._exact: dict[Symbol, bool] = {}

    def rule(self, symbol: Symbol) -> Rule | None:
        """The rule by which the host finds the numbers that a symbol may be; None for a parameter, a position, and for others where
        there is none."""
        if isinstance(symbol, Trip):
            return self._loop("trips", symbol.loop)
        if isinstance(symbol, Position) or symbol in self.params:
            return None
        op, place = self.uses.definition[symbol], self.uses.argument.get(symbol)
        if place is not None:
            counted = place.parent is not None and place.parent.name == "for" and symbol is induction(place.parent)
            return self._loop("counter", place.parent) if counted else None
        if op.name == "get_program_id":
            return Rule("program", (Poly.number(op.axis), ), 32, exact=False)
        if op.name == "get_num_programs":
            return Rule("programs", (Poly.number(op.axis), ), 32, exact=False)
        if op.name == "select":
            return self._of("either", (op.if_true, op.if_false), exact=False)
        function = _FUNCTIONS.get(op.name)
        return self._of(function, (op.lhs, op.rhs)) if function else None

    def _of(self, function: str, operands: tuple[Value, ...], exact: bool = True) -> Rule | None:
        if not all(isinstance(one.type, Scalar) for one in operands):
            return None
        try:
            return Rule(function, tuple(self.forms.of(one).poly for one in operands), operands[0].type.bits, exact)
        except NoForm:
            return None

    def _loop(self, function: str, loop) -> Rule | None:
        return self._of(function, bounds(loop), exact=False)

    def counted(self, poly: Poly) -> Poly:
        """The same with a loop's counter in place of `start + step * trip`, where the start differs between programs: together they
        stay below the loop's end, which nobody knows of the two by themselves."""
        for trip in [symbol for symbol in poly.symbols if isinstance(symbol, Trip)]:
            start, step = (self.forms.of(one).poly for one in (trip.loop.start, trip.loop.step))
            factor = poly.terms.get((trip, ), 0)
            if self.is_exact(start) or not step.constant or not factor or factor % step.constant:
                continue
            times = factor // step.constant
            whole = (start + Poly.of(trip) * step) * times
            if all(poly.terms.get(monomial) == number for monomial, number in whole.terms.items()):
                poly = poly - whole + Poly.of(induction(trip.loop)) * times
        return poly

    def exact(self, symbol: Symbol) -> bool:
        """True if arguments alone say which number a symbol is."""
        if symbol not in self._exact:
            self._exact[symbol] = False
            rule = self.rule(symbol)
            self._exact[symbol] = symbol in self.params if rule is None else rule.exact and all(
                self.exact(one) for operand in rule.operands for one in operand.symbols)
        return self._exact[symbol]

    def is_exact(self, poly: Poly) -> bool:
        """True if arguments alone say which number a polynomial is."""
        return all(map(self.exact, poly.symbols))

    def site(self, symbol: Symbol) -> Site:
        """The line of a scalar, or of a trip's loop: of the call in the kernel's file, where a library computes it."""
        site = symbol.loop.site if isinstance(symbol, Trip) else self.uses.site(symbol)
        return next((one for one in site.chain() if one.file == self.uses.program.site.file), site)

    def shown(self, poly: Poly) -> str:
        """A polynomial for people: scalars by their names, or by what they are and their lines."""
        return poly.text(self._shown)

    def _shown(self, symbol: Symbol) -> str:
        if symbol.name:
            return symbol.name
        op = self.uses.definition[symbol]
        if op is not None and op.name == "get_program_id":
            return f"program_id({op.axis})"
        site = self.site(symbol)
        return f"({op.row.word or op.name} of line {site.line})" if op is not None else f"(a number of line {site.line})"

    def unbounded(self, poly: Poly) -> Site | None:
        """The line of the first scalar in `poly`, or behind it, that the host cannot bound; None if there is none."""
        return next(self._unbounded(poly, set()), None)

    def _unbounded(self, poly: Poly, seen: set[Symbol]) -> Iterator[Site]:
        for symbol in poly.symbols:
            if symbol in seen or isinstance(symbol, Position) or symbol in self.params:
                continue
            seen.add(symbol)
            rule = self.rule(symbol)
            if rule is None:
                yield self.site(symbol)
            else:
                for operand in rule.operands:
                    yield from self._unbounded(operand, seen)
