"""What atomics do to many places at once: equal places take turns in the order of the lanes.

Input: a function, and for each lane a place and operands. Output: what each lane finds there, and what it leaves. For example:

    old, new = in_turns(combining("ADD", values.dtype), places, start, values)

    places   an integer a lane: [7, 3, 7]         start    what was there before, a lane: [10, 20, 10]
    values   the operands, a lane: [1, 2, 4]      old      what each lane finds: [10, 20, 11]
                                                  new      and leaves there: [11, 22, 15]; of equal places the last is what stays

The lanes are sorted by place once. Where numbers may be put together in any grouping, integers that is, all turns of a place are
one prefix sum, or one of doubling steps; else a turn is one operation on all places that still have one. Additions of floats keep
their order.
"""

from __future__ import annotations

import numpy as np

from ...compiler.triton_port.interpreter import as_signed, as_unsigned


def _of_unsigned(function):
    return lambda old, new: as_signed(function(as_unsigned(old), as_unsigned(new)))


def _exchange(old, new):
    return new


def exchange_if(old, new, wanted):
    """Compare and swap: `new` where `wanted` is found."""
    return np.where(old == wanted, new, old)


KINDS = {
    "ADD": np.add, "FADD": np.add, "AND": np.bitwise_and, "OR": np.bitwise_or, "XOR": np.bitwise_xor, "MAX": np.maximum,
    "MIN": np.minimum, "UMAX": _of_unsigned(np.maximum), "UMIN": _of_unsigned(np.minimum), "XCHG": _exchange,
}
_BITWISE = frozenset(("AND", "OR", "XOR"))
_ASSOCIATIVE = frozenset(KINDS.values())        # on integers


def combining(kind, dtype: np.dtype):
    """The function by which an atomic of that kind joins what it finds and a number of that type; logic of floats is that of
    their bits."""
    name = getattr(kind, "name", kind)
    function = KINDS[name]
    if name not in _BITWISE or dtype.kind in "iub":
        return function
    bits = f"i{dtype.itemsize}"
    return lambda old, new: function(np.asarray(old).view(bits), np.asarray(new).view(bits)).view(dtype)


def in_turns(function, places: np.ndarray, start: np.ndarray, *operands: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(what each lane finds, what it leaves) if each replaces what is at its place by `function(found, *operands)`."""
    order = _sorted(places)
    ordered = places[order]
    fresh = np.ones(ordered.size, bool)
    np.not_equal(ordered[1:], ordered[:-1], out=fresh[1:])
    if fresh.all():
        return start, _applied(function, start, *operands)
    first = np.flatnonzero(fresh)
    counts = np.diff(first, append=ordered.size)
    start, operands = start[order], [operand[order] for operand in operands]
    if function is _exchange or start.dtype.kind in "iu" and function in _ASSOCIATIVE and operands[0].dtype == start.dtype:
        so_far = _together(function, first, counts, operands[0])
        new = _applied(function, start, so_far)
        old = np.where(fresh, start, np.roll(new, 1))
    else:
        old, new = _one_by_one(function, first, counts, start, operands)
    found, left = np.empty_like(old), np.empty_like(new)
    found[order], left[order] = old, new
    return found, left


def _applied(function, old: np.ndarray, *operands: np.ndarray) -> np.ndarray:
    return np.asarray(function(old, *operands)).astype(old.dtype, copy=False)


def _sorted(places: np.ndarray) -> np.ndarray:
    """The lanes by place, those of one place in order. numpy sorts 16 bits by radix, ten times as fast as more of them."""
    places = places - places.min() if places.size else places
    span = int(places.max(initial=0))
    if places.size < 1024 or span >= 1 << 32:
        return np.argsort(places, kind="stable")
    order = np.argsort(places.astype(np.uint16), kind="stable")
    if span >> 16:
        order = order[np.argsort((places >> places.dtype.type(16)).astype(np.uint16)[order], kind="stable")]
    return order


def _together(function, first: np.ndarray, counts: np.ndarray, values: np.ndarray) -> np.ndarray:
    """For each lane the values of its place up to its own, put together; `first` and `counts` are the lanes of each place."""
    if function is _exchange:
        return values
    if function is np.add:      # integers wrap, so what all places before have summed up to may be taken off again
        sums = np.cumsum(values, dtype=values.dtype)
        return sums - np.repeat(sums[first] - values[first], counts)
    turn, so_far, step = np.arange(values.size) - np.repeat(first, counts), values.copy(), 1
    while step < counts.max():
        later = np.flatnonzero(turn >= step)
        so_far[later] = function(so_far[later - step], so_far[later])
        step *= 2
    return so_far


def _one_by_one(function, first: np.ndarray, counts: np.ndarray, start: np.ndarray, operands) -> tuple[np.ndarray, np.ndarray]:
    """The same for what has to keep its order, turn by turn: the places with most of them first, so that those that still have
    a turn are a prefix. Sums of few places with many turns are one running sum each instead."""
    by = np.argsort(-counts, kind="stable")
    first, counts = first[by], counts[by]
    old, new = np.empty_like(start), np.empty_like(start)
    summed = 0
    if function is np.add and operands[0].dtype == start.dtype:
        summed = int(np.argmin(np.arange(counts.size + 1) + np.append(counts, 0)))       # as few operations of numpy as can be
        for begin, count in zip(first[:summed], counts[:summed]):
            sums = np.add.accumulate(np.append(start[begin], operands[0][begin:begin + count]))
            old[begin:begin + count], new[begin:begin + count] = sums[:-1], sums[1:]
    first, counts = first[summed:], counts[summed:]
    value = start[first]
    for turn, left in enumerate(np.searchsorted(-counts, -np.arange(counts.max(initial=0)))):
        at = first[:left] + turn                                     # of the places that have more turns than these
        old[at] = value[:at.size]
        new[at] = value = _applied(function, value[:at.size], *(operand[at] for operand in operands))
    return old, new
