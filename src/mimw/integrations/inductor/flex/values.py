"""What a number in a score_mod or a mask_mod of flex attention may be, for all queries and keys at once.

Input: indices and a score. Output: values that know all of their meaning, or `Unknown`. For example:

    Whole(0, 0, 1, -1, 0)                       q_idx - kv_idx
    Seen((Whole(0, 0, 1, -1, 0),))              q_idx - kv_idx >= 0, so causal
    Score(inner=1/30, cap=True, outer=30.0)     30 tanh(score / 30)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from torch import Tensor


class Unknown(Exception):
    """The reason why a mod is none that `ops.attention` has."""


@dataclass(frozen=True)
class Box:
    """The extents of a call: batches, heads, queries, keys."""

    batches: int
    heads: int
    queries: int
    keys: int


@dataclass(frozen=True)
class Whole:
    """batch * b + head * h + query * q_idx + key * kv_idx + constant, in whole numbers."""

    batch: int = 0
    head: int = 0
    query: int = 0
    key: int = 0
    constant: int = 0

    def times(self, factor: int) -> Whole:
        return Whole(*(factor * one for one in self.numbers))

    def plus(self, other: Whole) -> Whole:
        return Whole(*(a + b for a, b in zip(self.numbers, other.numbers)))

    @property
    def numbers(self) -> tuple[int, ...]:
        return self.batch, self.head, self.query, self.key, self.constant

    @property
    def is_constant(self) -> bool:
        return not (self.batch or self.head or self.query or self.key)

    @property
    def is_of_heads(self) -> bool:
        return not (self.batch or self.query or self.key)

    def ends(self, box: Box) -> tuple[int, int]:
        """The lowest and the highest one in a box."""
        least = most = self.constant
        for factor, extent in zip(self.numbers, (box.batches, box.heads, box.queries, box.keys)):
            end = factor * max(extent - 1, 0)
            least, most = least + min(end, 0), most + max(end, 0)
        return least, most


@dataclass(frozen=True)
class Seen:
    """True where each of these numbers is 0 or more."""

    conditions: tuple[Whole, ...] = ()

    def both(self, other: Seen) -> Seen:
        return Seen((*self.conditions, *other.conditions))

    @property
    def constant(self) -> bool | None:
        """True or False, or None where it depends on indices."""
        if not all(one.is_constant for one in self.conditions):
            return None
        return all(one.constant >= 0 for one in self.conditions)


@dataclass(frozen=True)
class Hidden:
    """True where one of several conditions fails."""

    of: Seen


NEVER = Seen((Whole(constant=-1),))


def condition(x: Any) -> Seen:
    """A value as a condition; Unknown for one that holds where one of several does."""
    if isinstance(x, bool):
        return Seen() if x else NEVER
    if isinstance(x, Hidden):
        raise Unknown("it joins conditions by or, so that a query may see keys in several places")
    if not isinstance(x, Seen):
        raise Unknown("it takes something for a condition that is no comparison of indices")
    return x


@dataclass(frozen=True)
class Distance:
    """The absolute value of a whole number."""

    of: Whole


@dataclass(frozen=True, eq=False)
class PerHead:
    """A number for each head, known while the graph is compiled: (heads)."""

    values: Tensor


@dataclass(frozen=True)
class Buffer:
    """A tensor that a mod reads: which one of its buffers, its value, and what is known of it."""

    number: int
    example: Tensor


@dataclass(frozen=True)
class Slopes:
    """buffer[h] times a number, or a number for each head."""

    buffer: int
    factor: float | PerHead = 1.0


@dataclass(frozen=True)
class Term:
    """coefficient * whole number, or coefficient * |whole number|, as it is added to a score."""

    coefficient: float | PerHead | Slopes
    of: Whole
    absolute: bool = False


@dataclass(frozen=True)
class Masked:
    """0 where seen, else -inf."""

    seen: Seen


@dataclass(frozen=True)
class Score:
    """outer * score + term; with a cap outer * tanh(inner * score) + term. -inf where it is not seen."""

    inner: float = 1.0
    cap: bool = False
    outer: float = 1.0
    term: Term | None = None
    seen: Seen = Seen()

    def with_term(self, term: Term) -> Score:
        if self.term is not None:
            raise Unknown("it adds more than one bias to a score")
        return replace(self, term=term)

    def without(self, seen: Seen) -> Score:
        return replace(self, seen=self.seen.both(seen))

    def times(self, factor: float) -> Score:
        if factor == 0 or not isfinite(factor) or factor < 0 and self.seen.conditions:
            raise Unknown(f"it multiplies a score by {factor}")
        term = self.term and replace(self.term, coefficient=scaled(self.term.coefficient, factor))
        return replace(self, outer=self.outer * factor, term=term)


def scaled(coefficient: float | PerHead | Slopes, factor: float | PerHead) -> float | PerHead | Slopes:
    """The product of a coefficient and numbers."""
    if isinstance(coefficient, Slopes):
        return replace(coefficient, factor=scaled(coefficient.factor, factor))
    plain = [one.values if isinstance(one, PerHead) else one for one in (coefficient, factor)]
    product = plain[0] * plain[1]
    return PerHead(product) if isinstance(product, Tensor) else float(product)


__all__ = ["Box", "Buffer", "Distance", "Hidden", "Masked", "NEVER", "PerHead", "Score", "Seen", "Slopes", "Term", "Unknown",
           "Whole", "condition", "scaled"]
