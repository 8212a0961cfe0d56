"""Forms of integers and pointers: a base, and a polynomial of elements from there on.

Input: nothing. Output: frozen data, and `NoForm`, which carries a reason and a line. For example, of `pointer_forms`:

    Form(base=a, poly=128*pid*stride_am + i*stride_am + j)          a + rows[:, None] * stride_am + ks[None, :]
    positions(form.poly, tile)          (128*pid*stride_am, (stride_am, 1)): where the tile starts, and its strides
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import Site, Tensor, Value
from .polynomials import Poly, Position


class NoForm(Exception):
    """A value has no form: the reason, a part of a sentence, and the line."""

    def __init__(self, reason: str, site: Site):
        super().__init__(reason)
        self.reason, self.site = reason, site


@dataclass(frozen=True)
class Within:
    """Something that is to hold at each launch: `poly`, over all programs, trips and elements, lies in `least` to `most`. `what` is
    the fault otherwise, a sentence; `site` the line that it is about."""

    poly: Poly
    least: int
    most: int
    what: str
    site: Site


@dataclass(frozen=True)
class Form:
    """`base` (None: an integer) + `poly` elements; `within` is what has to hold for that."""

    base: Value | None
    poly: Poly
    within: tuple[Within, ...] = ()


def fits(poly: Poly, bits: int, site: Site, unsigned: bool = False) -> tuple[Within, ...]:
    """The conditions under which a number of so many bits is the number itself; none if it surely is."""
    least, most = (0, (1 << bits) - 1) if unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1)
    if all(isinstance(symbol, Position) for symbol in poly.symbols):
        ends = [poly.at({symbol: end * (symbol.extent - 1) for symbol in poly.symbols}) for end in (0, 1)]
        if len(poly.symbols) < 2 and least <= min(ends) and max(ends) <= most:
            return ()
    return Within(poly, least, most, f"{{poly}} may be more than {bits} bits hold", site),


def positions(poly: Poly, tile: Tensor) -> tuple[Poly, tuple[Poly, ...]] | None:
    """(what is the same in all elements, what each axis' position is multiplied with); None if positions are multiplied with each
    other."""
    start, strides = Poly(), [Poly() for _ in tile.shape]
    for monomial, factor in poly.terms.items():
        moving = [symbol for symbol in monomial if isinstance(symbol, Position)]
        if len(moving) > 1:
            return None
        term = Poly({tuple(symbol for symbol in monomial if not isinstance(symbol, Position)): factor})
        if moving:
            strides[moving[0].axis] = strides[moving[0].axis] + term
        else:
            start = start + term
    return start, tuple(strides)
