"""Arithmetic on numbers of which some are known when the kernel is recorded: nothing is recorded for those.

Input: Python ints and i32 scalars or tiles. Output: the same; an int where all are ints. For example:

    total(0, %x, semantic)              %x, no op
    product(3, 4, semantic)             12
    along(%rank, ("node", "device"), (2, 4), semantic)       {"node": %rank // 4 % 2, "device": %rank % 4}
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod


def product(number, factor: int, semantic):
    """`number * factor`."""
    if isinstance(number, int):
        return number * factor
    return number if factor == 1 else semantic.mul(number, semantic.to_tensor(factor), False)


def total(left, right, semantic):
    """`left + right`."""
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    if isinstance(left, int) and left == 0:
        return right
    if isinstance(right, int) and right == 0:
        return left
    return semantic.add(semantic.to_tensor(left), semantic.to_tensor(right), False)


def along(number, names: Sequence[str], sizes: Sequence[int], semantic) -> dict:
    """The coordinates along axes of those sizes, by name, of the place with that row-major number, which may be larger than there
    are places: then it is taken modulo these."""
    found = {}
    for at, (name, size) in enumerate(zip(names, sizes)):
        stride = prod(sizes[at + 1:])
        if size == 1:
            found[name] = semantic.to_tensor(0)
            continue
        rest = semantic.mod(number, semantic.to_tensor(stride * size))
        found[name] = rest if stride == 1 else semantic.floordiv(rest, semantic.to_tensor(stride))
    return found


def picked(values: Sequence[int], number, semantic):
    """Number `number` of `values`."""
    if isinstance(number, int):
        return values[number]
    step = values[1] - values[0] if len(values) > 1 else 0
    if all(value == values[0] + index * step for index, value in enumerate(values)):
        return total(product(number, step, semantic) if step else 0, values[0], semantic)
    found = semantic.to_tensor(values[0])
    for index, value in enumerate(values[1:], 1):
        found = semantic.where(semantic.equal(number, semantic.to_tensor(index)), semantic.to_tensor(value), found)
    return found
