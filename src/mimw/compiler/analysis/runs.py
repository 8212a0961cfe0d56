"""Lengths of aligned runs in tiles of pointers: how many neighbouring elements surely lie in one aligned stretch of a buffer.

Input: a tile of pointers, its family and a mask. Output: a power of two, 1 where nothing is known. For example:

    pointer_run(uses, local_ptr(tile, [8 * row + tl.arange(0, 8)]), family)       8
"""

from __future__ import annotations

from math import gcd, prod

from ...ir import Tensor, Value
from .affine import Affine, affine
from .mask_runs import mask_run
from .pointers import Family
from .uses import Uses


def pointer_run(uses: Uses, pointer: Value, family: Family, mask: Value | None = None) -> int:
    """A power of two n: elements 0 to n - 1, n to 2n - 1, .. of the tile, in row-major order, lie one after the other, from a
    multiple of n on, and `mask` takes or leaves them together. 1 where nothing is known."""
    if not isinstance(pointer.type, Tensor):
        return 1
    run = _stated(uses, pointer) or _run(uses, pointer, family)
    return min(run, mask_run(uses, mask)) if mask is not None else run


def _stated(uses: Uses, pointer: Value) -> int | None:
    """The run that the maker of the pointers has stated in the attribute `run` of a `remote_ptr`; None for other pointers."""
    op = uses.definition.get(pointer)
    return op.attrs.get("run") if op is not None and op.name == "remote_ptr" else None


def _run(uses: Uses, pointer: Value, family: Family) -> int:
    place, shape = _position(uses, pointer, family), pointer.type.shape
    if place is None or not shape or place.strides[-1] != 1:
        return 1
    bounds = [shape[-1], *(family.shape[-1:] if len(family.shape) > 1 else ())]
    steps = [place.constant, *(factor for _, factor in place.terms),
             *(stride for stride, extent in zip(place.strides[:-1], shape) if extent > 1)]
    whole = gcd(*bounds, *steps)
    return whole & -whole


def _position(uses: Uses, pointer: Value, family: Family) -> Affine | None:
    """The row-major position in the buffer, as far as it can be read off; which CTA's buffer is left out."""
    op = uses.definition.get(pointer)
    if op is None:
        return None
    if op.name == "local_ptr":
        indices, shape = op.indices, op.shape
        steps = [prod(shape[dim + 1:]) for dim in range(len(shape))]
        if indices is None:
            return Affine(0, (), tuple(step if extent > 1 else 0 for step, extent in zip(steps, shape)))
        rank = len(getattr(op.result.type, "shape", ()))
        total = Affine(0, tuple(family.above[op]), (0, ) * rank)
        for index, step in zip(indices, steps):
            found = affine(uses, index)
            if found is None:
                return None
            total = total.plus(found.times(step))
        return total
    if op.name == "addptr":
        left, right = _position(uses, op.lhs, family), affine(uses, op.rhs)
        return left.plus(right) if left and right else None
    if op.row.pointer_of:
        return _position(uses, getattr(op, op.row.pointer_of), family)
    if op.name == "broadcast":
        return _position(uses, op.value, family)
    if op.name == "splat":
        scalar = _position(uses, op.value, family)
        return scalar and Affine(scalar.constant, scalar.terms, (0, ) * len(op.result.type.shape))
    return None
