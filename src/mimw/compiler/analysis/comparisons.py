"""Comparisons of integers as `rest >= 0`, and what has to hold of a launch so that one is true of all its elements.

Input: the forms of a program and a comparison, or a mask of several. Output: polynomials and conditions. For example:

    rest_of(forms, op)      of `rows < M`: (M - 128*pid - i - 1, conditions that neither side wraps)
    held(forms, mask)       (Within(M - 128*pid - i - 1, 0, 2^63, ..), ..): true of every element where this holds

So a mask that cuts nothing off at a launch is none, and `tl.where(rows < M, rows, 0)` is `rows`. The host asks at each launch.
"""

from __future__ import annotations

from typing import Any

from ...ir import Op, Site, Value
from ...ir.types import element_of
from .address_forms import NoForm, Within, fits
from .polynomials import Poly

FAR = 1 << 63       # beyond any number of 64 bits


def rest_of(forms: Any, op: Op) -> tuple[Poly | None, tuple[Within, ...]]:
    """(a polynomial that is 0 or more where the comparison holds, what has to hold for that); None of `==` and `!=`. Raises
    `NoForm`."""
    left, right = forms.of(op.lhs), forms.of(op.rhs)
    if left.base is not None or right.base is not None:
        raise NoForm(f"its mask compares pointers on line {op.site.line}", op.site)
    bits = element_of(op.lhs.type).bits
    rest = {"<": right.poly - left.poly - 1, "<=": right.poly - left.poly, ">": left.poly - right.poly - 1,
            ">=": left.poly - right.poly}.get(op.row.relation)
    return rest, (*left.within, *right.within, *fits(left.poly, bits, op.site), *fits(right.poly, bits, op.site))


def least(poly: Poly, number: int, what: str, site: Site) -> Within:
    """The condition that a polynomial is at least a number in all programs, trips and elements."""
    return Within(poly, number, FAR, what, site)


def held(forms: Any, mask: Value) -> tuple[Within, ...] | None:
    """The conditions on a launch under which a mask is true of all elements; None for a mask that takes other ops. Raises
    `NoForm`."""
    op = forms.uses.definition[mask]
    if op is not None and op.name == "and":
        both = held(forms, op.lhs), held(forms, op.rhs)
        return None if None in both else (*both[0], *both[1])
    if op is None or not op.row.relation or "number" not in op.row.traits:
        return None
    rest, within = rest_of(forms, op)
    if rest is None:
        return None
    return *within, least(rest, 0, "the comparison is not true of all elements: {poly} may be negative", op.site)
