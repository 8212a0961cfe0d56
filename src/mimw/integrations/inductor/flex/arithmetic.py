"""Sums, products and comparisons of the numbers in a mod of flex attention (values.py).

Input: values, and extents. Output: a value, or Unknown with the reason. For example:

    add(box, Whole(query=1), 3)                             q_idx + 3
    multiply(box, 0.5, Whole(query=-1, key=1))              Term(0.5, kv_idx - q_idx)
    compared("ge")(box, Whole(query=1), Whole(key=1))       Seen((q_idx - kv_idx,))
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

import torch

from .values import Box, Buffer, Distance, Masked, PerHead, Score, Seen, Slopes, Term, Unknown, Whole, scaled

_WHAT = {Score: "a score", Whole: "an index", Distance: "a distance", Seen: "a condition", Masked: "a mask", Slopes: "slopes",
         PerHead: "a number of a head", Term: "a bias", Buffer: "a tensor that it reads"}


def per_head(box: Box, x: Any) -> Any:
    """A number, or the numbers of all heads, from what depends on heads alone."""
    x = _plain(x)
    if isinstance(x, PerHead):
        return x.values
    if isinstance(x, Whole) and x.is_of_heads:
        return torch.arange(box.heads, dtype=torch.int32) * x.head + x.constant
    if _is_number(x):
        return x
    raise _no("a function of heads alone", x)


def add(box: Box, x: Any, y: Any) -> Any:
    x, y = _plain(x), _plain(y)
    if isinstance(y, Score) or isinstance(x, int) and isinstance(y, Whole):
        x, y = y, x
    if isinstance(x, Score):
        return _added(box, x, y)
    if isinstance(x, Whole) and isinstance(y, int):
        return x.plus(Whole(constant=y))
    if isinstance(x, Whole) and isinstance(y, Whole):
        return x.plus(y)
    if _is_number(x) and _is_number(y):
        return x + y
    if _are_of_heads(x, y):
        return PerHead(per_head(box, x) + per_head(box, y))
    one, other = (_as_term(box, value) for value in (x, y))
    if one and other and not one.absolute and not other.absolute:
        for sign in (1, -1):
            if _same(one.coefficient, scaled(other.coefficient, sign)):
                return Term(one.coefficient, one.of.plus(other.of.times(sign)))
    raise _no("a sum", x, y)


def _added(box: Box, score: Score, y: Any) -> Score:
    if _is_number(y) and y == 0:
        return score
    if isinstance(y, Masked):
        return score.without(y.seen)
    term = _as_term(box, y)
    if term is None:
        raise _no("a sum", score, y)
    return score.with_term(term)


def multiply(box: Box, x: Any, y: Any) -> Any:
    x, y = _plain(x), _plain(y)
    if _is_number(x) and _is_number(y):
        return x * y
    for one, other in ((x, y), (y, x)):
        if isinstance(one, Score) and _is_number(other):
            return one.times(other)
        if isinstance(one, Whole) and isinstance(other, int):
            return one.times(other)
        if isinstance(one, Slopes) and isinstance(other, (Whole, Distance)) and not _is_of_heads(other):
            return _term(box, one, other)
        if isinstance(one, Slopes) and isinstance(other, Term) and not isinstance(other.coefficient, Slopes):
            return Term(_finite(scaled(one, other.coefficient)), other.of, other.absolute)
        if isinstance(one, (Slopes, Term)) and (_is_number(other) or _is_of_heads(other)):
            factor = float(other) if _is_number(other) else PerHead(per_head(box, other))
            return scaled(one, factor) if isinstance(one, Slopes) else \
                Term(_finite(scaled(one.coefficient, factor)), one.of, one.absolute)
    if _are_of_heads(x, y):
        return PerHead(per_head(box, x) * per_head(box, y))
    for one, other in ((x, y), (y, x)):
        if isinstance(other, (Whole, Distance)) and (_is_number(one) or _is_of_heads(one)):
            return _term(box, float(one) if _is_number(one) else PerHead(per_head(box, one)), other)
    raise _no("a product", x, y)


def divide(box: Box, x: Any, y: Any) -> Any:
    x, y = _plain(x), _plain(y)
    if _is_number(y) and y == 0:
        raise Unknown("it divides by 0")
    if _is_number(x) and _is_number(y):
        return x / y
    if _are_of_heads(x, y):
        return PerHead(per_head(box, x) / per_head(box, y))
    if _is_number(y) and not isinstance(x, (Whole, Distance)):
        return multiply(box, x, 1 / y)
    if _is_number(y) or _is_of_heads(y):
        return _term(box, 1 / y if _is_number(y) else PerHead(1 / per_head(box, y)), x)
    raise _no("a quotient", x, y)


def negative(box: Box, x: Any) -> Any:
    return multiply(box, x, -1)


def absolute(box: Box, x: Any) -> Any:
    x = _plain(x)
    if isinstance(x, Whole) and not x.is_of_heads:
        return Distance(x)
    if isinstance(x, Term) and isinstance(x.coefficient, float):
        return Term(abs(x.coefficient), x.of, True)
    if _is_number(x) or _is_of_heads(x):
        value = per_head(box, x)
        return PerHead(value.abs()) if isinstance(value, torch.Tensor) else abs(value)
    raise _no("an absolute value", x)


def tanh(box: Box, x: Any) -> Any:
    if _is_of_heads(x):
        return PerHead(torch.tanh(per_head(box, x)))
    if not isinstance(x, Score) or x.cap or x.term is not None or x.seen.conditions:
        raise _no("tanh", x)
    return Score(inner=x.outer, cap=True)


def compared(name: str) -> Callable:
    """The comparison of that name, of whole numbers."""
    def comparison(box: Box, x: Any, y: Any) -> Seen:
        if isinstance(x, Distance) and name in ("le", "lt"):        # |x| <= y
            return comparison(box, x.of, y).both(comparison(box, x.of.times(-1), y))
        if isinstance(y, Distance) and name in ("ge", "gt"):
            return comparison(box, x, y.of).both(comparison(box, x, y.of.times(-1)))
        x, y = (Whole(constant=one) if isinstance(one, int) else one for one in (_plain(x), _plain(y)))
        if not isinstance(x, Whole) or not isinstance(y, Whole):
            raise _no("a comparison", x, y)
        over, under = x.plus(y.times(-1)), y.plus(x.times(-1))
        less = Whole(constant=-1)
        return Seen({"ge": (over,), "gt": (over.plus(less),), "le": (under,), "lt": (under.plus(less),), "eq": (over, under)}[name])

    return comparison


def as_float(box: Box, x: Whole) -> Any:
    """A whole number as one that is rounded from here on."""
    return PerHead(per_head(box, x).float()) if x.is_of_heads and not x.is_constant else _term(box, 1.0, x)


def _as_term(box: Box, x: Any) -> Term | None:
    if isinstance(x, Term):
        return x
    return _term(box, 1.0, x) if isinstance(x, (Whole, Distance)) else None


def _term(box: Box, coefficient: float | PerHead | Slopes, of: Any) -> Term:
    if not isinstance(of, (Whole, Distance)):
        raise _no("a product", of)
    whole, absolute = (of.of, True) if isinstance(of, Distance) else (of, False)
    if isinstance(coefficient, PerHead) and not coefficient.values.is_floating_point():
        if int(coefficient.values.long().abs().max()) * max(map(abs, whole.ends(box))) >= 1 << 31:
            raise Unknown("its whole numbers may be more than 32 bits have")
    return Term(_finite(coefficient), whole, absolute)


def _finite(coefficient: Any) -> Any:
    number = coefficient.factor if isinstance(coefficient, Slopes) else coefficient
    if not (bool(number.values.isfinite().all()) if isinstance(number, PerHead) else isfinite(number)):
        raise Unknown("a slope is no finite number")
    return coefficient


def _same(x: Any, y: Any) -> bool:
    if isinstance(x, Slopes) and isinstance(y, Slopes):
        return x.buffer == y.buffer and _same(x.factor, y.factor)
    if isinstance(x, PerHead) and isinstance(y, PerHead):
        return torch.equal(x.values, y.values)
    return isinstance(x, float) and isinstance(y, float) and x == y


def _plain(x: Any) -> Any:
    """A whole number that no index is part of, as a number."""
    if isinstance(x, bool):
        raise Unknown("it computes with True or False as numbers")
    return x.constant if isinstance(x, Whole) and x.is_constant else x


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool)


def _is_of_heads(x: Any) -> bool:
    return isinstance(x, PerHead) or isinstance(x, Whole) and x.is_of_heads


def _are_of_heads(x: Any, y: Any) -> bool:
    return any(map(_is_of_heads, (x, y))) and all(_is_of_heads(one) or _is_number(one) for one in (x, y))


def _no(what: str, *given: Any) -> Unknown:
    return Unknown(f"it has {what} of " + " and ".join(_WHAT.get(type(one), f"{one}") for one in given)
                   + ", which no option of ops.attention has")


__all__ = ["absolute", "add", "as_float", "compared", "divide", "multiply", "negative", "per_head", "tanh"]
