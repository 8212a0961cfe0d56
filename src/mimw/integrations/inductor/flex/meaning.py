"""Options of `ops.attention` that compute what a score_mod and a mask_mod of flex attention say.

Input: the values of both functions (values.py), and extents. Output: a window, a soft cap, slopes, and which keys are seen.
For example, of 512 queries and keys:

    meaning(Score(), Seen((Whole(query=1, key=-1),)), box)      Meaning(1.0, None, Keys(0, 512), (None, 0), None)
    meaning(Score(), Seen((Whole(head=1),)), box)               the same without a bound: all heads are 0 or more

flex counts queries and keys from the first ones on; `ops.attention` has the last query at the last key. With d = q_idx - kv_idx,
and keys from `first` up to `end`, the distance from a query's place to a key is d + end - queries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from .values import Box, PerHead, Score, Seen, Slopes, Term, Unknown, Whole, condition, scaled


class Near(NamedTuple):
    """Keys that a query sees: least <= q_idx - kv_idx <= most; None is no bound."""

    least: int | None = None
    most: int | None = None


@dataclass(frozen=True)
class Meaning:
    """scale is a factor of flex attention's own. Keys from `first` up to `end` are seen. slopes are a tensor that the score_mod
    reads, times a factor, or numbers; None is no slopes. near is what the mask_mod alone says, by which blocks are checked."""

    scale: float
    softcap: float | None
    first: int
    end: int
    window: tuple[int | None, int | None]
    slopes: Slopes | PerHead | float | None
    near: Near


def meaning(score: Any, mask: Any, box: Box) -> Meaning:
    """The options, or Unknown."""
    if not isinstance(score, Score):
        raise Unknown("its result is not made of the score")
    mask = condition(mask)
    near, seen = bounds(mask, box), bounds(mask.both(score.seen), box)
    first, end, window = window_of(seen, box)
    scale, softcap = score.outer, None
    if score.cap:
        sign = 1 if score.outer > 0 else -1         # tanh(-x) is -tanh(x)
        scale, softcap = score.inner * score.outer, sign * score.outer
    slopes = None if score.term is None else _slopes(score.term, seen, end - box.queries, box)
    return Meaning(scale, softcap, first, end, window, slopes, near)


def bounds(seen: Seen, box: Box) -> Near:
    """The bounds of q_idx - kv_idx that conditions are, without those that hold everywhere."""
    least, most = [], []
    for one in seen.conditions:
        lowest, highest = one.ends(box)
        if lowest >= 0:
            continue
        if highest < 0:
            raise Unknown("no query sees a key")
        if one.batch or one.head or one.query != -one.key:
            raise Unknown("its mask is no window: it depends on more than the distance of a query and a key")
        if one.query > 0:
            least.append(-(one.constant // one.query))
        else:
            most.append(one.constant // one.key)
    near = Near(max(least, default=None), min(most, default=None))
    if None not in near and near.least > near.most:
        raise Unknown("no query sees a key")
    return near


def window_of(seen: Near, box: Box) -> tuple[int, int, tuple[int | None, int | None]]:
    """Keys from a first one up to an end, and how far a query sees from its place among them to the left and right."""
    first = 0 if seen.most is None else max(0, -seen.most)          # the first query sees keys from -most on
    end = box.keys if seen.least is None else min(box.keys, box.queries - seen.least)       # the last one up to -least
    if first >= end:
        raise Unknown("no query sees a key")
    ahead = end - box.queries
    left, right = seen.most if seen.most is None else seen.most + ahead, seen.least if seen.least is None else -seen.least - ahead
    if left is not None and left < 0 or right is not None and right < 0:
        raise Unknown("the last queries see no key of the window")
    return first, end, (left, right)


def _slopes(term: Term, seen: Near, ahead: int, box: Box) -> Slopes | PerHead | float:
    """The factor of |d + ahead| that ops.attention is to subtract, where d = q_idx - kv_idx."""
    of, step = term.of, term.of.key
    if step == 0 or of != Whole(query=-step, key=step, constant=-step * ahead):
        raise Unknown("it adds a bias that is no slope times the distance of a query's place and a key, with the last query at the "
                      "last key that is seen")
    if term.absolute:
        factor = -abs(step)
    elif (1 - box.keys if seen.least is None else seen.least) + ahead >= 0:
        factor = step
    elif (box.queries - 1 if seen.most is None else seen.most) + ahead <= 0:
        factor = -step
    else:
        raise Unknown("it adds a bias that has another sign for keys before a query than behind it, where slopes are for distances")
    slopes = scaled(term.coefficient, float(factor))
    number = slopes.factor if isinstance(slopes, Slopes) else slopes
    if isinstance(number, PerHead) and number.values.dtype is not torch.float32:
        raise Unknown(f"its slopes are {number.values.dtype}, not float32")
    return slopes


__all__ = ["Meaning", "Near", "bounds", "meaning", "window_of"]
