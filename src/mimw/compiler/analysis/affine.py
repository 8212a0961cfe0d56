"""Tiles of integers as `constant + scalars + stride * position` along each axis, where that can be read off.

Input: a value. Output: its `Affine` form, or None. For example, in a kernel with the parameter n:

    4 * n + tl.arange(0, 64)       Affine(constant=0, terms=((n, 4), ), strides=(1, ))
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import Op, Tensor, Value
from .uses import Uses

# Comparisons that hold between two numbers if they hold for both, of a sum that grows or falls evenly.
BETWEEN = frozenset(("icmpSGE", "icmpSGT", "icmpSLE", "icmpSLT"))


@dataclass(frozen=True)
class Affine:
    """Element [i, j, ..] is `constant` + the sum of scalar values times their factors + strides[0] * i + strides[1] * j + .."""

    constant: int
    terms: tuple[tuple[Value, int], ...] = ()
    strides: tuple[int, ...] = ()

    @property
    def is_scalar(self) -> bool:
        """True if all elements are equal."""
        return not any(self.strides)

    def plus(self, other: Affine, sign: int = 1) -> Affine:
        terms = dict(self.terms)
        for value, factor in other.terms:
            terms[value] = terms.get(value, 0) + sign * factor
        return Affine(self.constant + sign * other.constant, tuple((value, factor) for value, factor in terms.items() if factor),
                      tuple(a + sign * b for a, b in zip(self.strides, other.strides)))

    def times(self, number: int) -> Affine:
        return Affine(self.constant * number, tuple((value, factor * number) for value, factor in self.terms if number),
                      tuple(stride * number for stride in self.strides))


def affine(uses: Uses, value: Value) -> Affine | None:
    """The affine form of an integer scalar or tile; None for a tile that has none that is seen. Wrapping is left out of account:
    these are indices."""
    op = uses.definition.get(value)
    rule = _RULES.get(op.name) if op is not None else None
    found = rule(uses, op) if rule else None
    if found is None and not isinstance(value.type, Tensor):
        return Affine(0, ((value, 1), ))
    return found


def _constant(uses: Uses, op: Op) -> Affine | None:
    return Affine(int(op.value), (), _flat(op)) if isinstance(op.value, int) else None


def _flat(op: Op) -> tuple[int, ...]:
    return (0, ) * len(getattr(op.result.type, "shape", ()))


def _range(uses: Uses, op: Op) -> Affine:
    return Affine(op.start, (), (1, ) if op.end - op.start > 1 else (0, ))


def _splat(uses: Uses, op: Op) -> Affine | None:
    scalar = affine(uses, op.value)
    return Affine(scalar.constant, scalar.terms, _flat(op))


def _expand(uses: Uses, op: Op) -> Affine | None:
    source, axis = affine(uses, op.value), op.axis % len(op.result.type.shape)
    return source and Affine(source.constant, source.terms, (*source.strides[:axis], 0, *source.strides[axis:]))


def _same(uses: Uses, op: Op) -> Affine | None:
    return affine(uses, op.value)


def _sum(uses: Uses, op: Op) -> Affine | None:
    left, right = affine(uses, op.lhs), affine(uses, op.rhs)
    return left.plus(right, -1 if op.name == "sub" else 1) if left and right else None


def _product(uses: Uses, op: Op) -> Affine | None:
    left, right = affine(uses, op.lhs), affine(uses, op.rhs)
    for one, other in ((left, right), (right, left)):
        if one and other and other.is_scalar and not other.terms:
            return one.times(other.constant)
    return None


def _trans(uses: Uses, op: Op) -> Affine | None:
    source = affine(uses, op.value)
    return source and Affine(source.constant, source.terms, tuple(source.strides[axis] for axis in op.order))


_RULES = {"constant": _constant, "make_range": _range, "distinct_range": _range, "splat": _splat, "expand_dims": _expand,
          "broadcast": _same, "int_cast": _same, "add": _sum, "sub": _sum, "mul": _product, "trans": _trans}
