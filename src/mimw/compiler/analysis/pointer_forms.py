"""Integers and pointers of a plain kernel as polynomials: what a tile of addresses is, element by element.

Input: the def-use index and a value. Output: its `Form`, or `NoForm` with the reason and the line. For example:

    a + rows[:, None] * stride_am + ks[None, :]         base a, polynomial 128*pid*stride_am + i*stride_am + j
    a_at += BK * stride_ak, carried by a loop           what it was before the loop, + trip * 64 * stride_ak

Sums, differences and products of 32 bits are right modulo 2^32 however often they wrap. So wrapping counts only where a number of
32 bits is taken for the number itself: as an offset of a pointer, a wider integer, a side of a comparison, a dividend. There the
form notes that its polynomial is to stay `Within` what the bits hold. Anything else of one number is a symbol of its own.

With `assume`, rows that wrap around are taken for ones that do not: `(pid * BM + i) % M` and `tl.where(rows < M, rows, 0)` are what
stands in them, and the form notes when that is so.
"""

from __future__ import annotations

from typing import Any

from ...ir import Op, Pointer, Scalar, Tensor, Value
from ...ir.flow import induction, loop_carry
from ...ir.types import element_of
from .address_forms import Form, NoForm, Within, fits
from .comparisons import held, least
from .polynomials import Poly, Position, Trip
from .uses import Uses

MOST_TERMS = 64     # of one polynomial: what needs more is no address that people write


class Forms:
    """The forms of the values of one program, each found once."""

    def __init__(self, uses: Uses, assume: bool = False):
        self.uses, self.assume = uses, assume
        self.addresses = False      # whether a number that becomes an address is a base
        self.known: dict[Value, Form] = {}
        self.alike: dict[Any, list[Value]] = {}     # scalars that are computed alike
        self.open: set[Value] = set()               # values whose forms are being found

    def of(self, value: Value) -> Form:
        """The form of an integer or pointer, or of a tile of them. Raises `NoForm`."""
        if value not in self.known:
            op = self.uses.definition[value]
            if value in self.open:      # a loop changes it by what comes from itself
                return self._itself(value)
            self.open.add(value)
            try:
                found = self._argument(value) if op is None else self._result(value, op)
            finally:
                self.open.remove(value)
            if len(found.poly.terms) > MOST_TERMS:
                raise NoForm(f"its address is a sum of more than {MOST_TERMS} products", self.uses.site(value))
            self.known[value] = found
        return self.known[value]

    # ---- results of ops ---------------------------------------------------------------------------------------------

    def _result(self, value: Value, op: Op) -> Form:
        if self.addresses and op.name == "int_to_ptr" and isinstance(value.type, Pointer):
            return Form(value, Poly())
        rule = _RULES.get(op.name)
        found = rule(self, op) if rule else None
        if found is not None:
            return found
        if isinstance(value.type, Scalar) and not value.type.is_float:
            return Form(None, Poly.of(self._symbol(value, op)))
        if "remainder" in op.row.traits:
            raise NoForm(f"its rows or columns wrap around: a remainder on line {op.site.line}", op.site)
        raise NoForm(f"its address takes `{op.row.word or op.name}` on line {op.site.line}, which is no sum of positions times "
                     "strides", op.site)

    def _symbol(self, value: Value, op: Op) -> Value:
        """The scalar itself, or one that is computed alike in front of it and in scope."""
        if "pure" not in op.row.effects or op.blocks or len(op.results) != 1:
            return value
        try:
            key = (op.name, str(value.type), *(self.of(arg).poly if isinstance(arg, Value) else repr(arg) for arg in op.args))
        except NoForm:
            return value
        others = self.alike.setdefault(key, [])
        for other in others:
            if self._before(self.uses.definition[other], op):
                return other
        others.append(value)
        return value

    def _before(self, first: Op, op: Op) -> bool:
        """True if `first` stands in front of `op`, in a block around it."""
        blocks = {self.uses.place[around].block for around in (op, *self.uses.parents(op))}
        return self.uses.place[first].block in blocks and self.uses.position[first] < self.uses.position[op]

    # ---- arguments of blocks, and parameters ------------------------------------------------------------------------

    def _argument(self, value: Value) -> Form:
        place = self.uses.argument.get(value)
        loop = place.parent if place is not None else None
        found = None
        if loop is not None and loop.name == "for":
            found = self._counted(loop, value) if value is induction(loop) else self._carried(loop, value)
        if found is not None:
            return found
        if place is None and isinstance(value.type, Pointer):
            return Form(value, Poly())
        return self._itself(value)

    def _itself(self, value: Value) -> Form:
        """An integer as a symbol. Raises `NoForm` for anything else."""
        if isinstance(value.type, Scalar) and not value.type.is_float:
            return Form(None, Poly.of(value))
        site = self.uses.site(value)
        raise NoForm(f"its address goes through the loop or branch on line {site.line} in a way that is not followed", site)

    def _counted(self, loop: Op, value: Value) -> Form | None:
        """A loop's counter is start + step * trip, where the step is a number."""
        start, step = self.of(loop.start), self.of(loop.step).poly.constant
        return Form(None, start.poly + Poly.of(Trip(loop)) * step, start.within) if step is not None and step > 0 else None

    def _carried(self, loop: Op, value: Value) -> Form | None:
        """A value that a loop adds to is init + increment * trip, where the increment is the same in each round."""
        carry = loop_carry(loop, value)
        after = self.uses.definition.get(carry.after) if carry is not None and carry.after is not None else None
        if after is None or after.name not in ("add", "sub", "addptr") or after.lhs is not value:
            return None
        init, more = self.of(carry.init), self.of(after.rhs)
        if any(isinstance(symbol, Position) or self._varies(symbol, loop) for symbol in more.poly.symbols):
            return None
        step = -more.poly if after.name == "sub" else more.poly
        within = _offset(more, after) if after.name == "addptr" else more.within
        return Form(init.base, init.poly + step * Poly.of(Trip(loop)), (*init.within, *within))

    def _varies(self, symbol: Value | Trip, loop: Op) -> bool:
        """True if the symbol may differ from one round of the loop to the next."""
        uses = self.uses
        inside = symbol.loop if isinstance(symbol, Trip) else uses.definition[symbol]
        if inside is None and symbol in uses.argument:
            inside = uses.argument[symbol].parent
        return inside is not None and uses.position[loop] <= uses.position[inside] <= uses.last[loop]

    def invariant(self, poly: Poly, loop: Op) -> bool:
        """True if nothing in `poly` differs from one round of the loop to the next."""
        return not any(self._varies(symbol, loop) for symbol in poly.symbols if not isinstance(symbol, Position))


# ---- one rule for each op --------------------------------------------------------------------------------------------


def _bits(value: Value) -> int:
    return element_of(value.type).bits


def _offset(form: Form, op: Op) -> tuple[Within, ...]:
    """The conditions on the offset that an `addptr` takes: it is a signed number."""
    return (*form.within, *(fits(form.poly, _bits(op.rhs), op.site) if _bits(op.rhs) < 64 else ()))


def _constant(forms: Forms, op: Op) -> Form | None:
    return Form(None, Poly.number(int(op.value))) if isinstance(op.value, int) else None


def _range(forms: Forms, op: Op) -> Form:
    extent = op.end - op.start
    return Form(None, Poly.number(op.start) + (Poly.of(Position(0, extent)) if extent > 1 else 0))


def _same(forms: Forms, op: Op) -> Form:
    return forms.of(op.value)


def _moved(form: Form, axes: dict[int, int]) -> Form:
    """The form of a tile whose axes have other numbers."""
    def now(poly: Poly) -> Poly:
        return poly.substituted({symbol: Poly.of(Position(axes[symbol.axis], symbol.extent)) for symbol in poly.symbols
                                 if isinstance(symbol, Position)})
    return Form(form.base, now(form.poly), form.within)


def _expand(forms: Forms, op: Op) -> Form:
    rank = len(op.result.type.shape)
    kept = [axis for axis in range(rank) if axis != op.axis % rank]
    return _moved(forms.of(op.value), dict(enumerate(kept)))


def _trans(forms: Forms, op: Op) -> Form:
    return _moved(forms.of(op.value), {old: new for new, old in enumerate(op.order)})


def _sum(forms: Forms, op: Op) -> Form:
    left, right = forms.of(op.lhs), forms.of(op.rhs)
    poly = left.poly - right.poly if op.name == "sub" else left.poly + right.poly
    return Form(None, poly, (*left.within, *right.within))


def _addptr(forms: Forms, op: Op) -> Form:
    pointer, offset = forms.of(op.lhs), forms.of(op.rhs)
    return Form(pointer.base, pointer.poly + offset.poly, (*pointer.within, *_offset(offset, op)))


def _product(forms: Forms, op: Op) -> Form:
    left, right = forms.of(op.lhs), forms.of(op.rhs)
    return Form(None, left.poly * right.poly, (*left.within, *right.within))


def _shifted(forms: Forms, op: Op) -> Form | None:
    left, by = forms.of(op.lhs), forms.of(op.rhs).poly.constant
    return None if by is None or not 0 <= by < _bits(op.lhs) else Form(None, left.poly * (1 << by), left.within)


def _quotient(forms: Forms, op: Op) -> Form | None:
    """A quotient that leaves no rest, whatever the symbols are, or the same quotient in all elements; any other one is a symbol, or
    has no form."""
    left, by = forms.of(op.lhs), forms.of(op.rhs).poly.constant
    if not by:
        return None
    if any(factor % by for factor in left.poly.terms.values()):
        return _shared_quotient(left, by, op)
    return Form(None, Poly({monomial: factor // by for monomial, factor in left.poly.terms.items()}),
                (*left.within, *fits(left.poly, _bits(op.lhs), op.site)))


def _shared_quotient(left: Form, by: int, op: Op) -> Form | None:
    """The quotient that all elements of a tile have: `(128 * pid + j) // 128` is pid for j from 0 to 127, and pid from 0 on."""
    moving = left.poly.part(lambda monomial: any(isinstance(symbol, Position) for symbol in monomial))
    if not moving or any(len(monomial) > 1 or factor < 0 for monomial, factor in moving.terms.items()):
        return None
    begin = left.poly - moving
    rest = begin.terms.get((), 0) % by
    most = rest + sum(factor * (symbol.extent - 1) for (symbol, ), factor in moving.terms.items())
    begin = begin - rest
    if most >= by or any(factor % by for factor in begin.terms.values()):
        return None
    what = "elements have several quotients, as {poly} may be negative or more than its bits hold"
    inside = Within(begin, 0, (1 << _bits(op.lhs) - 1) - 1 - most, what, op.site)
    return Form(None, Poly({monomial: factor // by for monomial, factor in begin.terms.items()}),
                (*left.within, *(() if begin.constant == 0 else (inside, ))))


def _cast(forms: Forms, op: Op) -> Form | None:
    """A narrower integer is right modulo its bits; a wider one if the number was within its own."""
    inner, bits = forms.of(op.value), _bits(op.value)
    if bits == 1 or element_of(op.type).bits == 1:
        return None
    wider = element_of(op.type).bits > bits
    return Form(None, inner.poly, (*inner.within, *(fits(inner.poly, bits, op.site, not op.signed) if wider else ())))


def _remainder(forms: Forms, op: Op) -> Form | None:
    """Of a tile, under an assumption: what is divided, which is smaller than what divides it."""
    if not forms.assume or not isinstance(op.result.type, Tensor):
        return None
    left, right = forms.of(op.lhs), forms.of(op.rhs)
    wraps = "rows or columns may wrap around: {poly} may be negative"
    conditions = least(left.poly, 0, wraps, op.site), least(right.poly - left.poly - 1, 0, wraps, op.site)
    inside = (fits(one.poly, _bits(op.lhs), op.site) for one in (left, right))
    return Form(None, left.poly, (*left.within, *right.within, *(each for one in inside for each in one), *conditions))


def _select(forms: Forms, op: Op) -> Form | None:
    """Of a tile, under an assumption: what is taken where the condition holds, which it does everywhere."""
    if not forms.assume or not isinstance(op.result.type, Tensor):
        return None
    conditions = held(forms, op.condition)
    if conditions is None:
        return None
    inner = forms.of(op.if_true)
    return Form(inner.base, inner.poly, (*inner.within, *conditions))


_RULES = {"constant": _constant, "make_range": _range, "splat": _same, "broadcast": _same, "expand_dims": _expand, "trans": _trans,
          "add": _sum, "sub": _sum, "addptr": _addptr, "mul": _product, "shl": _shifted, "sdiv": _quotient, "int_cast": _cast,
          "srem": _remainder, "select": _select}
