"""Whether two accesses of one task to global memory can meet at an element that has the same index in both tiles, or another one.

Input: an access, a later one, and the loops of which a trip lies between them. Output: a `Meeting`. For example, with 64 columns:

    tl.store(u + at, x); tl.load(u + at)                        SAME: what element 5 of the one tile is, is element 5 of the other
    tl.store(u + at, x); tl.load(u + at + k * 64)               SAME: the same tile, or another one
    tl.store(u + at, x); tl.load(u + at + 64 * stride)          APART: rows further down, whatever the stride
    tl.store(u + at, x); tl.load(u + at + 1)                    MIXED: an element has index 5 in one tile and 4 in the other
    tl.store(u + at, x); tl.load(u + n)                         UNKNOWN

Addresses are compared as polynomials (`pointer_forms`), boxes by their offsets; where all is numbers, exactly. Else rows are taken
not to reach into each other, as in every array of torch: tiles that are apart along one axis are apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import gcd
from typing import Any

from ...ir import Descriptor, Op, Pointer, Tensor, Value
from ...ir.types import element_of
from .address_forms import NoForm, positions
from .own_elements import by_box, stays
from .pointer_forms import Forms
from .polynomials import Poly, Trip
from .uses import Uses


class Meeting(Enum):
    """Where two accesses may meet: nowhere, at elements of one index, at elements of different ones, nobody knows."""

    APART = "apart"
    SAME = "same"
    MIXED = "mixed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, eq=False)
class _Round:
    """A number of a loop's round: that of the `first` access, of the `second` one, or how much `later` the second one's is, 1 or
    more."""

    loop: Op
    whose: str

    @property
    def name(self) -> str:
        return f"{self.whose} trip@{self.loop.site.line}"


class Accesses:
    """The accesses of one program, compared; each address is followed once."""

    def __init__(self, uses: Uses):
        self.uses, self.forms = uses, Forms(uses)
        self.rounds: dict[tuple[Op, str], _Round] = {}
        self.known: dict[Any, Meeting] = {}

    def meeting(self, first: Op, second: Op, between: frozenset[Op] = frozenset()) -> Meeting:
        """The meeting of an access with one that stands in front of it, or is of an earlier trip of the loops `between`."""
        key = first, second, between
        if key not in self.known:
            try:
                self.known[key] = self._meeting(first, second, between)
            except NoForm:
                self.known[key] = Meeting.UNKNOWN
        return self.known[key]

    def _meeting(self, first: Op, second: Op, between: frozenset[Op]) -> Meeting:
        one, other = address_of(first), address_of(second)
        if by_box(first) != by_box(second):
            return Meeting.UNKNOWN
        if by_box(first):
            known = one is other and stays(self.uses, one, between)
            return self._of_boxes(first, second, between) if known else Meeting.UNKNOWN
        if one is other and not between:
            return Meeting.SAME
        forms = self.forms.of(one), self.forms.of(other)
        if forms[0].base is not forms[1].base or forms[0].base is None or not stays(self.uses, forms[0].base, between):
            return Meeting.UNKNOWN
        tiles = [positions(form.poly, value.type) if isinstance(value.type, Tensor) else (form.poly, ())
                 for form, value in zip(forms, (one, other), strict=True)]
        if None in tiles:
            return Meeting.UNKNOWN
        (start, strides), (later, others) = tiles
        distance = self._distance(start, later, first, second, between)
        if distance is None:
            return Meeting.UNKNOWN
        mine, theirs = _axes(strides, one), _axes(others, other)
        if mine == theirs and (found := _exactly(distance, mine) or _whole_tiles(distance, mine)):
            return found
        return _by_numbers(distance, mine, theirs)

    def _of_boxes(self, first: Op, second: Op, between: frozenset[Op]) -> Meeting:
        found = set()
        for extent, one, other in zip(first.descriptor.type.shape, first.offsets, second.offsets, strict=True):
            axis = [(Poly.number(1), extent)]
            distance = self._distance(self.forms.of(one).poly, self.forms.of(other).poly, first, second, between)
            found.add(Meeting.UNKNOWN if distance is None else _whole_tiles(distance, axis) or _by_numbers(distance, axis, axis))
        return next(one for one in (Meeting.APART, Meeting.UNKNOWN, Meeting.MIXED, Meeting.SAME) if one in found)

    def _distance(self, one: Poly, other: Poly, first: Op, second: Op, between: frozenset[Op]) -> Poly | None:
        """`other - one`, each in its own trips; None if a trip computes what it depends on."""
        loops = self.uses.loops(first), self.uses.loops(second)
        common = [loop for loop in loops[0] if loop in loops[1]]
        crossed = next((loop for loop in common if loop in between), None)
        steady = common[:common.index(crossed)] if crossed is not None else common
        own = {*loops[0], *loops[1]}.difference(steady)
        symbols = {symbol for poly in (one, other) for symbol in poly.symbols if not isinstance(symbol, Trip)}
        if not all(stays(self.uses, symbol, own) for symbol in symbols):
            return None
        mine, theirs = ({Trip(loop): self._round(loop, whose) for loop in own} for whose in ("first", "second"))
        if crossed is not None:
            theirs[Trip(crossed)] = mine[Trip(crossed)] + self._round(crossed, "later")
        return other.substituted(theirs) - one.substituted(mine)

    def _round(self, loop: Op, whose: str) -> Poly:
        return Poly.of(self.rounds.setdefault((loop, whose), _Round(loop, whose)))


Axis = tuple[Poly, int]     # the distance of neighbours along an axis, in elements, and their number


def _axes(strides: tuple[Poly, ...], address: Value) -> list[Axis]:
    extents = address.type.shape if isinstance(address.type, Tensor) else ()
    return [(stride, extent) for stride, extent in zip(strides, extents, strict=True) if stride and extent > 1]


def _whole_tiles(distance: Poly, axes: list[Axis]) -> Meeting | None:
    """SAME or APART of two tiles with these axes that are a number of tiles apart along each; None of others."""
    apart = False
    for stride, extent in sorted(axes, key=lambda axis: (axis[0].constant is not None, -abs(axis[0].constant or 0) * axis[1])):
        step = stride * extent
        if len(step.terms) == 1:
            count, distance = distance.divided(step)
            apart = apart or _is_never_zero(count)
    if distance:
        return Meeting.APART if not axes and _is_never_zero(distance) else None
    return Meeting.APART if apart else Meeting.SAME


def _exactly(distance: Poly, axes: list[Axis]) -> Meeting | None:
    """The meeting of two tiles with these axes where all is numbers: rows without a gap reach into each other. Else None."""
    number, strides = distance.constant, [stride.constant for stride, _ in axes]
    if number is None or None in strides:
        return None
    if number == 0:
        return Meeting.SAME
    steps = sorted(((abs(stride), extent) for stride, (_, extent) in zip(strides, axes, strict=True)), reverse=True)
    return Meeting.MIXED if _reaches(number, steps) else Meeting.APART


def _reaches(number: int, axes: list[tuple[int, int]]) -> bool:
    """True if indices that differ by less than the extents lead so many elements further."""
    if not axes:
        return number == 0
    (stride, extent), *rest = axes
    return any(_reaches(number - stride * step, rest) for step in range(1 - extent, extent)
               if abs(number - stride * step) <= sum(one * (count - 1) for one, count in rest))


def _by_numbers(distance: Poly, mine: list[Axis], theirs: list[Axis]) -> Meeting:
    """The meeting of two tiles, of which the second begins at a distance from the first, by the numbers in these."""
    strides = [stride.constant for stride, _ in (*mine, *theirs)]
    number = distance.terms.get((), 0)
    if None in strides:
        return Meeting.UNKNOWN
    grid = gcd(*strides, *(factor for monomial, factor in distance.terms.items() if monomial))
    if grid and number % grid or not grid and number:
        return Meeting.APART        # columns between columns
    if distance.constant is None:
        return Meeting.UNKNOWN
    (low, high), (others_low, others_high) = _span(mine), _span(theirs)
    return Meeting.MIXED if low <= number + others_high and number + others_low <= high else Meeting.APART


def _span(axes: list[Axis]) -> tuple[int, int]:
    ends = [stride.constant * (extent - 1) for stride, extent in axes]
    return sum(end for end in ends if end < 0), sum(end for end in ends if end > 0)


def _is_never_zero(count: Poly) -> bool:
    """True if a number is never 0: a number, or one that grows with rounds from there on."""
    number, rest = count.terms.get((), 0), [item for item in count.terms.items() if item[0]]
    if not rest:
        return number != 0
    (symbols, factor), *more = rest
    grows = len(symbols) == 1 and isinstance(symbols[0], _Round) and symbols[0].whose == "later"
    return grows and not more and number * factor >= 0


def address_of(op: Op) -> Value:
    """The pointer, tile of pointers, or tensor descriptor through which an op accesses global memory."""
    return op.descriptor if "descriptor" in op.row.places else op.pointer


def is_access(op: Op) -> bool:
    """True of an op that reads or writes global memory through one pointer, one tile of pointers, or a tensor descriptor."""
    return any(name in ("pointer", "descriptor") and how.endswith(("read", "write")) for name, how in op.row.touches) \
        and isinstance(element_of(address_of(op).type), (Pointer, Descriptor))
