"""Whether elements of tensors share memory, told from extents and strides alone, to the element.

Input: extents and strides, as torch has them: none negative. Output: a truth value:

    overlaps_itself((4, 5), (0, 1))         True: an expanded row
    overlaps_itself((2, 3), (3, 2))         False, although the rows lie between each other
    overlap(64, (8, 4), (24, 1), 2, (8, 4), (24, 1), 2)         False: queries and keys of one packed tensor, 64 bytes apart

Two elements share memory where a sum of strides, each taken so many times, comes to 0: a linear equation in bounded integers.
For the strides that tensors have, each of which leaps over what lies below it, the search has two or three branches a dimension.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd

STEPS = 20_000      # of one search; strides for which it takes longer count as shared, since a race in silence is worse
Term = tuple[int, int, int]     # a stride, and the least and the most times that it is taken


def overlaps_itself(extents: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """True if two elements of one tensor lie in one place."""
    if 0 in extents:
        return False
    dims = sorted((stride, extent) for stride, extent in zip(strides, extents) if extent > 1)
    reach = 0
    for stride, extent in dims:
        if stride <= reach:
            return any(_first_differs(dims[at:]) for at in range(len(dims)))
        reach += stride * (extent - 1)
    return False


def _first_differs(dims: list[tuple[int, int]]) -> bool:
    """True if two elements lie in one place whose indices differ in the first of these dimensions, and in no dimension besides
    them."""
    (stride, extent), *rest = dims
    return _comes_to(0, [(stride, 1, extent - 1), *((step, 1 - count, count - 1) for step, count in rest)])


@lru_cache(4096)
def overlap(apart: int, extents: tuple[int, ...], strides: tuple[int, ...], size: int, others: tuple[int, ...],
            other_strides: tuple[int, ...], other_size: int) -> bool:
    """True if an element of one tensor and one of another share a byte.

    args:      apart            bytes from the beginning of the first tensor to that of the other
               extents, strides, size          of the first; strides in elements, each of `size` bytes
               others, other_strides, other_size        of the other
    """
    if 0 in extents or 0 in others:
        return False
    terms = [(stride * size, 0, extent - 1) for stride, extent in zip(strides, extents)]
    terms += [(stride * other_size, 1 - extent, 0) for stride, extent in zip(other_strides, others)]
    return _comes_to(apart, [*terms, (1, 1 - other_size, size - 1)])


def span(extents: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """The elements from the first to the last, both included; 0 where there is none."""
    return 0 if 0 in extents else 1 + sum(stride * (extent - 1) for stride, extent in zip(strides, extents))


def _comes_to(goal: int, terms: list[Term]) -> bool:
    """True if the strides, each taken a number of times between its least and its most, can add up to `goal`."""
    most: dict[int, int] = {}
    for stride, least, greatest in terms:
        goal -= stride * least
        most[stride] = most.get(stride, 0) + greatest - least
    ordered = sorted(((stride, times) for stride, times in most.items() if stride and times), reverse=True)
    return _reaches(ordered, goal, [STEPS])


def _reaches(terms: list[tuple[int, int]], goal: int, steps: list[int]) -> bool:
    """True if multiples of the strides, none taken oftener than it may be, add up to `goal`, and when the steps have run out.
    The greatest stride comes first."""
    if not terms:
        return goal == 0
    (stride, times), *rest = terms
    common = gcd(*(step for step, _ in terms))
    if goal % common:
        return False
    below = sum(step * count for step, count in rest)
    first, last = max(0, -((below - goal) // stride)), min(times, goal // stride)
    if len(rest) == 1:      # then the remainder alone decides, and comes again after so many
        stride, goal, every = stride // common, goal // common, rest[0][0] // common
        return first + (goal - first * stride) * pow(stride, -1, every) % every <= last
    for taken in range(first, last + 1):
        steps[0] -= 1
        if steps[0] < 0 or _reaches(rest, goal - taken * stride, steps):
            return True
    return False


__all__ = ["overlap", "overlaps_itself", "span"]
