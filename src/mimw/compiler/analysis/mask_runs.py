"""Lengths of runs of equal elements in masks: cp.async moves at least 4 bytes, all or none of them.

Input: the def-use index and a mask. Output: a power of two along the last dimension. For example, for n divisible by
16:

    mask_run(uses, tl.arange(0, 64) < n)       16: the mask changes at multiples of 16 only

The facts are those that Triton's own axis analysis derives at the lowering of the copy, or fewer: a run that this file
promises, the copy can move.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd

from ...ir import Op, Tensor, Value
from ...ir.flow import induction
from .uses import Uses

_MANY = 1 << 30
_BORDER_AT_RIGHT = ("<", ">=")  # x < n changes between n - 1 and n
_BORDER_AT_LEFT = (">", "<=")  # n > x as well


@dataclass(frozen=True)
class _Run:
    """`counts`: elements go up by one; else `equal` neighbours are equal. `divisor` divides the first of a run."""

    counts: bool
    equal: int
    divisor: int


def mask_run(uses: Uses, mask: Value) -> int:
    """Elements along the last dimension of `mask`, in aligned groups of this many, that are surely equal."""
    return _run(uses, mask).equal


def cut_at(uses: Uses, mask: Value, each: int) -> int | None:
    """The place along the last dimension where `mask` changes, if that is known and in the middle of an aligned group of `each`."""
    op = uses.definition.get(mask)
    while op is not None and (op.name == "broadcast" and op.value.type.shape[-1] == mask.type.shape[-1]
                              or op.name == "expand_dims" and op.axis % len(op.result.type.shape) < len(op.result.type.shape) - 1):
        op = uses.definition.get(op.value)
    if op is None or op.row.relation not in _BORDER_AT_RIGHT + _BORDER_AT_LEFT:
        return None
    sides = (op.lhs, op.rhs) if op.row.relation in _BORDER_AT_RIGHT else (op.rhs, op.lhs)
    for (counting, border), behind in ((sides, 0), (sides[::-1], 1)):   # x < 3 changes at 3, x <= 3 behind it
        start, end = _first(uses, counting), _number(uses, border)
        if start is not None and end is not None:
            place = end + behind - start
            return place if 0 < place < mask.type.shape[-1] and place % each else None
    return None


def _first(uses: Uses, value: Value) -> int | None:
    """The first of numbers that go up by one, if it is known."""
    op = uses.definition.get(value)
    if op is None:
        return None
    if op.name in ("broadcast", "expand_dims") and op.value.type.shape[-1] == op.result.type.shape[-1]:
        return _first(uses, op.value)
    if op.name == "add":
        for counting, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            start, more = _first(uses, counting), _number(uses, other)
            if start is not None and more is not None:
                return start + more
    return op.start if op.name == "make_range" else None


def _number(uses: Uses, value: Value) -> int | None:
    """The number that a value is in all its elements, if it is known."""
    op = uses.definition.get(value)
    if op is None:
        return None
    if op.name in ("splat", "broadcast", "expand_dims"):
        return _number(uses, op.value)
    return int(op.value) if op.name == "constant" else None


def divisor(uses: Uses, value: Value) -> int:
    """A power of two that surely divides an integer scalar, a pointer's address, or the first element of a tile."""
    whole = _run(uses, value).divisor
    return whole & -whole


def _run(uses: Uses, value: Value) -> _Run:
    extent = value.type.shape[-1] if isinstance(value.type, Tensor) else _MANY
    op = uses.definition.get(value)
    if op is None:
        return _Run(False, 1 if isinstance(value.type, Tensor) else extent, _of_argument(uses, value))
    rule = _compared if op.row.relation in _BORDER_AT_RIGHT + _BORDER_AT_LEFT else _RULES.get(op.name)
    return rule(uses, op, extent) if rule else _Run(False, 1 if isinstance(value.type, Tensor) else extent, 1)


def _of_argument(uses: Uses, value: Value) -> int:
    """The number that divides `value`: for a parameter by its specialisation, for the counter of a loop by its bounds; 1 for
    other values."""
    for param in uses.program.params:
        if param.value is value:
            return dict(param.attrs).get("tt.divisibility", 1)
    place = uses.argument.get(value)
    if place is not None and place.parent is not None and place.parent.name == "for" and value is induction(place.parent):
        return gcd(*(_run(uses, bound).divisor for bound in (place.parent.start, place.parent.step)))
    return 1


def _power(value) -> int:
    """The largest power of two that divides a number."""
    return int(value) & -int(value) or _MANY


def _constant(uses: Uses, op: Op, extent: int) -> _Run:
    return _Run(False, extent, 1 if isinstance(op.value, float) else _power(op.value))


def _range(uses: Uses, op: Op, extent: int) -> _Run:
    return _Run(True, 1, _power(op.start))


def _splat(uses: Uses, op: Op, extent: int) -> _Run:
    return _Run(False, extent, _run(uses, op.value).divisor)


def _broadcast(uses: Uses, op: Op, extent: int) -> _Run:
    source = _run(uses, op.value)
    return replace(source, counts=False, equal=extent) if op.value.type.shape[-1] != extent else source


def _expand(uses: Uses, op: Op, extent: int) -> _Run:
    source, last = _run(uses, op.value), len(op.result.type.shape) - 1
    if op.axis % (last + 1) != last:
        return source
    return _Run(False, 1, source.divisor if source.equal == op.value.type.shape[-1] else 1)


def _sum(uses: Uses, op: Op, extent: int) -> _Run:
    left, right = _run(uses, op.lhs), _run(uses, op.rhs)
    counts = left.counts and right.equal == extent or (op.name == "add" and right.counts and left.equal == extent)
    return _Run(counts, 1 if counts else min(left.equal, right.equal), gcd(left.divisor, right.divisor))


def _product(uses: Uses, op: Op, extent: int) -> _Run:
    left, right = _run(uses, op.lhs), _run(uses, op.rhs)
    factors = [1 if side.counts else side.divisor for side in (left, right)]
    return _Run(False, min(left.equal, right.equal), min(_MANY, factors[0] * factors[1]))


def _compared(uses: Uses, op: Op, extent: int) -> _Run:
    left, right = _run(uses, op.lhs), _run(uses, op.rhs)
    counting, border = (left, right) if op.row.relation in _BORDER_AT_RIGHT else (right, left)
    if counting.counts and border.equal == extent:
        return _Run(False, _power(gcd(extent, counting.divisor, border.divisor)), 1)
    return _Run(False, min(left.equal, right.equal), 1)


def _both(uses: Uses, op: Op, extent: int) -> _Run:
    return _Run(False, min(_run(uses, op.lhs).equal, _run(uses, op.rhs).equal), 1)


def _cast(uses: Uses, op: Op, extent: int) -> _Run:
    return _run(uses, op.value)


def _addressed(uses: Uses, op: Op, extent: int) -> _Run:
    """Pointers: their divisors are of bytes."""
    pointer = op.lhs.type.element if isinstance(op.lhs.type, Tensor) else op.lhs.type
    return _Run(False, 1, gcd(_run(uses, op.lhs).divisor, _run(uses, op.rhs).divisor * pointer.pointee.bytes))


_RULES = {
    "constant": _constant, "make_range": _range, "distinct_range": _range, "splat": _splat,
    "broadcast": _broadcast, "expand_dims": _expand,
    "add": _sum, "sub": _sum, "mul": _product, "int_cast": _cast,
    "uniform": _cast, "addptr": _addressed,
    "and": _both, "or": _both,
}
