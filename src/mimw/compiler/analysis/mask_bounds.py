"""Masks as bounds of a tile's positions, one axis each.

Input: the forms of a program and a mask. Output: the `Bound`s whose conjunction it is, or `NoForm` with the line. For example:

    (rows[:, None] < M) & (ks[None, :] < K - k * 64)        axis 0 ends at M - 128*pid, axis 1 ends at K - 64*trip
    rows[:, None] >= 0                                      axis 0 begins at -128*pid

Bounds are of positions in the tile: position i is inside where begin <= i < end. Comparisons are of signed numbers, in any
spelling.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import Op, Tensor, Value
from .address_forms import NoForm, Within, positions
from .comparisons import rest_of
from .pointer_forms import Forms
from .polynomials import Poly


@dataclass(frozen=True)
class Bound:
    """Positions along `axis` are inside below `end`, or from `begin` on: one of the two is None. `op` is the comparison."""

    axis: int
    end: Poly | None
    begin: Poly | None
    op: Op
    within: tuple[Within, ...] = ()


def bounds_of(forms: Forms, mask: Value) -> tuple[Bound, ...]:
    """The bounds that a mask is the conjunction of, each once; () for one that is always true. Raises `NoForm`."""
    op = forms.uses.definition[mask]
    if op is None:
        site = forms.uses.site(mask)
        raise NoForm(f"its mask comes from the loop or branch on line {site.line}", site)
    if op.name == "and":
        found = dict.fromkeys((*bounds_of(forms, op.lhs), *bounds_of(forms, op.rhs)))
        return tuple({(one.axis, one.end, one.begin): one for one in found}.values())
    if op.name == "splat":
        return bounds_of(forms, op.value)
    if op.row.elements_of == ("value", ):
        return _moved(forms, op)
    if op.name == "constant" and op.value:
        return ()
    if op.row.relation and "number" in op.row.traits:
        return _compared(forms, op)
    raise NoForm(f"its mask takes `{op.row.word or op.name}` on line {op.site.line}, which bounds no axis", op.site)


def _moved(forms: Forms, op: Op) -> tuple[Bound, ...]:
    """The bounds of a mask of another shape: axes that are new or broadcast have none."""
    if op.name == "broadcast":
        return bounds_of(forms, op.value)
    rank = len(op.result.type.shape)
    if op.name == "expand_dims":
        axes = [axis for axis in range(rank) if axis != op.axis % rank]
    elif op.name == "trans":
        axes = [op.order.index(axis) for axis in range(rank)]
    else:
        raise NoForm(f"its mask takes `{op.row.word or op.name}` on line {op.site.line}, which bounds no axis", op.site)
    return tuple(Bound(axes[one.axis], one.end, one.begin, one.op, one.within) for one in bounds_of(forms, op.value))


def _compared(forms: Forms, op: Op) -> tuple[Bound, ...]:
    """A comparison as `rest >= 0`, where rest = what is the same everywhere, + or - one position."""
    rest, within = rest_of(forms, op)
    found = positions(rest, op.result.type) if rest is not None and isinstance(op.result.type, Tensor) else None
    if found is None:
        raise NoForm(f"its mask compares on line {op.site.line} what bounds no axis", op.site)
    start, strides = found
    moving = [axis for axis, stride in enumerate(strides) if stride]
    if not moving and start.constant is not None and start.constant >= 0:
        return ()
    if len(moving) != 1 or abs(strides[moving[0]].constant or 0) != 1:
        raise NoForm(f"its mask compares on line {op.site.line} what bounds no axis", op.site)
    if strides[moving[0]].constant == -1:
        return Bound(moving[0], start + 1, None, op, within),
    return Bound(moving[0], None, -start, op, within),
