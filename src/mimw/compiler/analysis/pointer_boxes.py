"""Loads and stores by pointers that are boxes of a tensor, as a TMA descriptor has them, and what has to hold for that.

Input: a program and one of its `tl.load`s or `tl.store`s of a tile. Output: its `Box`, or why it has none (`Refused`). For example:

    x = tl.load(a + rows[:, None] * stride_am + (k * 64 + ks)[None, :],
                mask=(rows[:, None] < M) & (ks[None, :] < K - k * 64), other=0.0)
    box_of(program, op)     base a, shape [M, K], strides [stride_am, 1], at [128*pid, 64*trip@3], a block of 128 x 64

Elements that the box has are those that the mask admits, at the same addresses; the others are 0, as `other` says. An axis that
no mask bounds is promised to be inside by the program, so its extent is one that cuts nothing off (`UNBOUNDED`). All that this
takes for granted of a launch stands in `assumed`: the host has to ask it (`orchestrate.box_host`).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import copysign

from ...ir import Op, Program, Scalar, Tensor, Value
from ...ir.extents import is_odd
from ...ir.tensor_map import block_problem
from .address_forms import Form, NoForm, Within, positions
from .box_conditions import conditions_of
from .comparisons import least
from .mask_bounds import Bound, bounds_of
from .pointer_forms import Forms
from .polynomials import Poly
from .scalar_ranges import Ranges
from .tensor_boxes import UNBOUNDED, Box, Refused
from .uses import Uses, uses_of

__all__ = ["Box", "Refused", "box_of", "form_of", "is_tile_access", "ranges_of"]


def is_tile_access(op: Op) -> bool:
    """True of a load or store through a tile of pointers into global memory."""
    return (op.row.loads or op.row.stores) and not op.row.ours and isinstance(op.pointer.type, Tensor)


def box_of(program: Program, op: Op, assume: bool = False) -> Box | Refused:
    """The box of a load or store through a tile of pointers (`is_tile_access`), or why it has none. With `assume` also one for
    launches alone in which parts of its mask are true everywhere and its rows do not wrap around: that is then among what it
    assumes."""
    try:
        return program.kept(Boxes).of(op)
    except NoForm as why:
        return program.kept(Assuming).found(op) if assume else Refused(why.reason, why.site)


def form_of(program: Program, value: Value, assume: bool = False) -> Form:
    """The form of a tile of pointers, as boxes take it; with `assume` also one for launches alone in which rows do not wrap
    around. Raises `NoForm`."""
    try:
        return program.kept(Boxes).forms.of(value)
    except NoForm:
        if not assume:
            raise
        return program.kept(Assuming).forms.of(value)


def ranges_of(program: Program) -> Ranges:
    """The scalars of a program, as its boxes name them."""
    return program.kept(Boxes).ranges


def is_plus_zero(uses: Uses, other: Value | None) -> bool:
    """True of no value at all, and of +0 in each element: what a copy engine writes for elements that it does not read."""
    while other is not None:
        op = uses.definition[other]
        if op is None:
            return False
        if op.name == "constant":
            return op.value == 0 and copysign(1, op.value) > 0
        if not (op.row.elements_of == ("value", ) or op.row.cost == "convert" or op.name == "int_cast"):
            return False
        other = op.value
    return True


class Boxes:
    """The forms of one program's values, for all its boxes."""

    assume = False

    def __init__(self, program: Program):
        self.uses: Uses = uses_of(program)
        self.forms = Forms(self.uses, self.assume)
        self.ranges = Ranges(self.forms)

    def of(self, op: Op, everywhere: frozenset[tuple[int, bool]] = frozenset()) -> Box:
        """The box; `everywhere` are bounds of its mask that are assumed to cut nothing off. Raises `NoForm`."""
        tile, element = op.pointer.type, op.pointer.type.element.pointee
        self._check(op, element)
        where = self.forms.of(op.pointer)
        if where.base is None:
            raise NoForm("its base is no parameter of the kernel", op.site)
        every = self._bounds(op, tile)
        bounds = {key: bound for key, bound in every.items() if key not in everywhere}
        start, strides = self._positions(where, op, tile)
        order = self._order(strides, op)
        offsets = _Split(self.ranges, start, strides, order, bounds).offsets()
        shape = [self._extent(axis, offset, bounds, op) for axis, offset in zip(order, offsets)]
        block = tuple(tile.shape[axis] for axis in order)
        if (problem := block_problem(block, element.bytes)) is not None:
            raise NoForm(problem[0], op.site)
        ends = {axis: bound.op for (axis, is_end), bound in bounds.items() if is_end}
        box = Box(where.base, element, block, tuple(shape), tuple(strides[axis] for axis in order), tuple(offsets), order,
                  tuple(ends.get(axis) for axis in order), ())
        begun = {axis for axis, is_end in bounds if not is_end}
        assumed = (*conditions_of(self.ranges, box, op, begun), *where.within,
                   *(one for bound in every.values() for one in bound.within),
                   *(one for key in sorted(everywhere) for one in _cuts_nothing(every[key], tile)))
        for one in assumed:
            if isinstance(one, Within) and (site := self.ranges.unbounded(one.poly)) is not None:
                raise NoForm(f"its address follows from what line {site.line} computes, which nothing bounds before the launch",
                             site)
        return replace(box, assumed=tuple(dict.fromkeys(assumed)))

    def _check(self, op: Op, element) -> None:
        """Refuse what no descriptor does, wherever the pointers are."""
        if not isinstance(element, Scalar) or element.bits not in (8, 16, 32) or element.name == "fp8e4b15":
            raise NoForm(f"its elements are {element}, and boxes are of 8, 16 or 32 bits", op.site)
        if op.pointer.type.element.space not in ("global", "constant"):
            raise NoForm("it is no access to global memory", op.site)
        if "is_volatile" in op.row.places and op.is_volatile:
            raise NoForm("it is volatile", op.site)
        if any(str(hint).lower().split(".")[-1] in ("cv", "wt") for hint in op.cache_policy or ()):
            raise NoForm("it goes past the caches, which a descriptor cannot", op.site)
        if "other" in op.row.places and not is_plus_zero(self.uses, op.other):
            raise NoForm("what stands for elements outside of the mask is not 0", op.site)

    def _bounds(self, op: Op, tile: Tensor) -> dict[tuple[int, bool], Bound]:
        """(axis, True) -> the bound where the axis ends, (axis, False) -> where it begins."""
        found: dict[tuple[int, bool], Bound] = {}
        mask = op.mask if "mask" in op.row.places else None
        for bound in bounds_of(self.forms, mask) if mask is not None else ():
            key = bound.axis, bound.end is not None
            if key in found:
                lines = sorted({found[key].op.site.line, bound.op.site.line})
                raise NoForm(f"its mask bounds one axis twice, on line{'s' * (len(lines) > 1)} {' and '.join(map(str, lines))}",
                             bound.op.site)
            found[key] = bound
        return found

    def _positions(self, where: Form, op: Op, tile: Tensor) -> tuple[Poly, tuple[Poly, ...]]:
        if is_odd(tile.shape):
            raise NoForm("an extent of its tile is no power of two", op.site)
        if len(tile.shape) not in (1, 2):
            raise NoForm(f"its tile has {len(tile.shape)} axes, and boxes have 1 or 2", op.site)
        found = positions(where.poly, tile)
        if found is None:
            raise NoForm("its address multiplies positions with each other", op.site)
        return found

    def _order(self, strides: tuple[Poly, ...], op: Op) -> tuple[int, ...]:
        """The tile's axes in the descriptor's order: the one of stride 1 last."""
        inner = [axis for axis, stride in enumerate(strides) if stride.constant == 1]
        if len(inner) != 1:
            facts = "no axis of its tile has" if not inner else "both axes of its tile have"
            raise NoForm(f"{facts} stride 1", op.site)
        outer = [axis for axis in range(len(strides)) if axis not in inner]
        for axis in outer:
            stride = strides[axis]
            if not stride:
                raise NoForm("one axis of its tile stays where it is: stride 0", op.site)
            if len(stride.terms) != 1 or min(stride.terms.values()) < 0:
                raise NoForm(f"the stride {self.ranges.shown(stride)} is a sum or negative", op.site)
            if not self.ranges.is_exact(stride):
                raise NoForm(f"the stride {self.ranges.shown(stride)} is not made of arguments alone", op.site)
        return (*outer, *inner)

    def _extent(self, axis: int, offset: Poly, bounds: dict[tuple[int, bool], Bound], op: Op) -> Poly:
        """The extent along an axis: position i is inside where offset + i is."""
        begin, end = bounds.get((axis, False)), bounds.get((axis, True))
        if begin is not None and offset + begin.begin != Poly():
            raise NoForm(f"its mask on line {begin.op.site.line} begins elsewhere than the tensor", begin.op.site)
        if end is None:
            return Poly.number(UNBOUNDED)
        extent = offset + end.end
        if not self.ranges.is_exact(extent):
            raise NoForm(f"its mask on line {end.op.site.line} bounds something else than the address moves by: "
                         f"{self.ranges.shown(extent)} is not made of arguments alone", end.op.site)
        if extent.constant is not None and extent.constant < 1:
            raise NoForm(self._empty(end, extent), end.op.site)
        return extent

    def _empty(self, end: Bound, extent: Poly) -> str:
        """The reason for which an axis has no element, whatever the arguments are: the kernel alone knows what bounds it, or a
        constant of the launch is 0."""
        mask, decides = f"its mask on line {end.op.site.line}", self.ranges.unbounded(end.end)
        if decides is None:
            return (f"{mask} leaves an axis of {extent} elements, by constants of this launch: orchestrate a launch with 1 "
                    "element or more")
        return (f"{mask} ends at {self.ranges.shown(end.end)}, for which line {decides.line} has to run, and a descriptor's "
                "extents are made of arguments: pass that size as an argument, or make the descriptor in the kernel "
                "(tl.make_tensor_descriptor)")


class Assuming(Boxes):
    """The same for launches of which more is assumed."""

    assume = True

    def found(self, op: Op) -> Box | Refused:
        """The box of the fewest assumptions about the mask; or why there is none with the whole of it."""
        refused: list[Refused] = []
        try:
            bounds = self._bounds(op, op.pointer.type)
        except NoForm as why:
            return Refused(why.reason, why.site)
        for count in range(len(bounds) + 1):
            for everywhere in combinations(sorted(bounds, key=lambda key: self._weight(bounds[key])), count):
                try:
                    return self.of(op, frozenset(everywhere))
                except NoForm as why:
                    refused.append(Refused(why.reason, why.site))
        return refused[0]

    def _weight(self, bound: Bound) -> int:
        """The number of symbols in a bound: one of constants is the first to be taken for granted."""
        return len((bound.end if bound.begin is None else bound.begin).symbols)


def _cuts_nothing(bound: Bound, tile: Tensor) -> tuple[Within, ...]:
    """The condition that a bound holds for all positions along its axis; none if it surely does. Raises `NoForm` if it never
    does."""
    inside = -bound.begin if bound.end is None else bound.end - tile.shape[bound.axis]
    if inside.constant is not None and inside.constant < 0:
        raise NoForm(f"its mask on line {bound.op.site.line} cuts something off", bound.op.site)
    what = "the mask cuts something off: {poly} may be negative"
    return () if inside.constant is not None else (least(inside, 0, what, bound.op.site), )


class _Split:
    """The part of an address that is the same in all elements, shared out among the axes as the masks have it."""

    def __init__(self, ranges: Ranges, start: Poly, strides: tuple[Poly, ...], order: tuple[int, ...], bounds):
        self.ranges, self.start, self.strides, self.order = ranges, start, strides, order
        self.begins = {axis: -bound.begin for (axis, is_end), bound in bounds.items() if not is_end}
        self.ends = {axis: -self._moving(bound.end) for (axis, is_end), bound in bounds.items() if is_end}

    def _moving(self, poly: Poly) -> Poly:
        """The terms that differ between programs and trips."""
        return poly.part(lambda monomial: not all(map(self.ranges.exact, monomial)))

    def offsets(self) -> tuple[Poly, ...]:
        """The offsets in the descriptor's order. Each split is right, since sum of offset * stride == start; which one it is
        decides whether extents are made of arguments alone."""
        if len(self.order) == 1:
            return self.start,
        outer, inner = self.order
        stride = self.strides[outer]
        if outer in self.begins:
            return self.begins[outer], self.start - self.begins[outer] * stride
        if inner in self.begins:
            more, rest = (self.start - self.begins[inner]).divided(stride)
            return more, self.begins[inner] + rest
        fixed = self.start - self._moving(self.start)
        more, rest = fixed.divided(stride)
        if outer in self.ends:
            moving = self.ends[outer]
            return moving + more, self._moving(self.start) - moving * stride + rest
        moving, left = (self._moving(self.start) - self.ends.get(inner, Poly())).divided(stride)
        return moving + more, left + self.ends.get(inner, Poly()) + rest
