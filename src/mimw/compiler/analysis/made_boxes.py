"""Loads by pointers that are boxes of a tensor whose base, extents and strides the kernel computes, as out of a table of groups.

Input: a program, and a load of a tile in a `for` loop. Output: a `MadeBox`, or why there is none. For example, of grouped products,
with M, N, K and at_a out of a table:

    for g: M, N, K, at_a = ..; while ..: m = ..; for k in range(0, K, 64): x = tl.load(a + at_a + rows[:, None] * K + ks, rows < M)
    made_box(program, load)     [M, K'] with strides [K, 1] from a + at_a on, at [m, 64*trip]; `around` is the `while`

`pointer_boxes` asks of shapes and strides that the arguments of the launch say them, since the host makes the descriptor. Here the
kernel makes it in front of `around`, the outermost loop in whose rounds none of these numbers changes, and all that the box takes
for granted can be asked where the load's own loop begins: what differs there is the round alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...ir import Op, Program
from .address_forms import NoForm
from .box_conditions import conditions_of
from .pointer_boxes import Assuming
from .polynomials import Poly, Position, Symbol
from .scalar_ranges import Ranges
from .tensor_boxes import UNBOUNDED, Box, Multiple, Refused
from .uses import uses_of


@dataclass(frozen=True)
class MadeBox:
    """A box from `base` elements behind the start of its array. `loop` is the load's own loop, in front of which `box.assumed` can
    be asked, `around` the loop in front of which the descriptor can be made; `ranges` name the scalars.
    `loaded` says that the array is an address that the kernel computes, which may begin anywhere."""

    box: Box
    base: Poly
    loop: Op
    around: Op
    ranges: Ranges
    loaded: bool = False


def made_box(program: Program, op: Op) -> MadeBox | Refused:
    """The box of a load of a tile (`is_tile_access`) whose numbers are known where its loop begins; or why there is none.
    Parameters say which arrays begin at multiples of 16 bytes (`tt.divisibility`)."""
    loops = uses_of(program).loops(op)
    if not loops or loops[-1].name != "for":
        return Refused("it stands in no `for` loop, in front of which its numbers could be looked at", op.site)
    found = _InLoop(program, loops).found(op)
    return found if isinstance(found, Refused) else found.made


@dataclass(frozen=True)
class _Box(Box):
    """A box that knows what is made of it."""

    made: MadeBox | None = None


class _Ranges(Ranges):
    """Scalars as they are known where a loop begins: all but what its own rounds change."""

    def __init__(self, forms, loop: Op):
        super().__init__(forms)
        self.loop = loop

    def exact(self, symbol: Symbol) -> bool:
        return not isinstance(symbol, Position) and self.forms.invariant(Poly.of(symbol), self.loop)

    def unbounded(self, poly: Poly) -> None:
        """Nothing is: the kernel looks at the numbers themselves."""


class _InLoop(Assuming):
    """Boxes of loads in one loop, `loops[-1]`; the others are around it, outermost first."""

    def __init__(self, program: Program, loops: tuple[Op, ...]):
        super().__init__(program)
        self.loops, self.ranges = loops, _Ranges(self.forms, loops[-1])
        self.params = {param.value: param for param in program.params}
        self.forms.addresses = True

    def of(self, op: Op, everywhere: frozenset[tuple[int, bool]] = frozenset()) -> _Box:
        box = super().of(op, everywhere)
        param = self.params.get(box.base)
        if param is not None and dict(param.attrs).get("tt.divisibility", 1) % 16:
            raise NoForm(f"{param.name} does not begin at a multiple of 16 bytes in this launch", op.site)
        begun = {axis for axis, is_end in self._bounds(op, op.pointer.type) if not is_end and (axis, is_end) not in everywhere}
        around = next(loop for loop in self.loops
                      if all(self.forms.invariant(poly, loop) for poly in (*box.shape, *box.strides, Poly.of(box.base))))
        base = Poly() if box.order[-1] in begun else box.offsets[-1].part(      # a lower bound counts from where the array begins
            lambda monomial: bool(monomial) and self.forms.invariant(Poly({monomial: 1}), around))
        inner = box.shape[-1] if box.shape[-1].constant == UNBOUNDED else box.shape[-1] - base
        moved = replace(box, shape=(*box.shape[:-1], inner), offsets=(*box.offsets[:-1], box.offsets[-1] - base))
        asked = [one for one in box.assumed if one not in conditions_of(self.ranges, box, op, begun)]
        granule = 16 // box.element.bytes
        asked += [Multiple(Poly({monomial: factor}), granule, "it begins at no multiple of 16 bytes: {poly}", op.site)
                  for monomial, factor in base.terms.items() if factor % granule]
        asked += conditions_of(self.ranges, moved, op, begun)
        moved = replace(moved, assumed=tuple(dict.fromkeys(asked)))
        made = MadeBox(moved, base, self.loops[-1], around, self.ranges, param is None)
        return _Box(*(getattr(moved, name) for name in moved.__dataclass_fields__), made)
