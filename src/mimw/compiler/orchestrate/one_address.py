"""Loads of a tile whose elements all have one address: one load, whose number all elements have.

Input: a plain program and one of its loads by pointers. Output: its `OneAddress`, or None. For example, of columns that share a
scale:

    cols = pid * 128 + tl.arange(0, 128)
    tl.load(scales + cols // 128 * steps + k)       base scales, offset pid * steps + k: tl.load(scales + (pid * steps + k))

A tile of 128 copies is loaded by as many threads, and goes through shared memory to where the sums lie; a number is in a register.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import Op, Program, Scalar, Value
from ..analysis.address_forms import NoForm, Within, fits
from ..analysis.pointer_boxes import form_of, is_tile_access, ranges_of
from ..analysis.polynomials import Poly, Position, Trip


@dataclass(frozen=True)
class OneAddress:
    """`offset` elements from the parameter `base` on. `assumed` is what has to hold of a launch."""

    base: Value
    offset: Poly
    assumed: tuple[Within, ...]


def one_address(program: Program, op: Op, assume: bool) -> OneAddress | None:
    """The address of a load's elements if it is the same one. With `assume` also where rows that do not wrap around are taken for
    granted."""
    if op.name != "load" or not is_tile_access(op) or bool(getattr(op.is_volatile, "value", op.is_volatile)):
        return None
    try:
        form = form_of(program, op.pointer, assume)
    except NoForm:
        return None
    if form.base is None or not isinstance(form.base.type.pointee, Scalar) or any(map(_has_no_number, _steps(program, form.poly))):
        return None
    if any(isinstance(symbol, Position) for symbol in form.poly.symbols):
        return None
    assumed = tuple(dict.fromkeys((*form.within, *fits(form.poly, 32, op.site))))
    if any(ranges_of(program).unbounded(one.poly) is not None for one in assumed):
        return None
    return OneAddress(form.base, form.poly, assumed)


def _steps(program: Program, poly: Poly) -> list[Poly]:
    """The steps of the loops whose trips an offset takes."""
    forms = ranges_of(program).forms
    return [forms.of(symbol.loop.step).poly for symbol in poly.symbols if isinstance(symbol, Trip)]


def _has_no_number(step: Poly) -> bool:
    return step.constant is None
