"""Views of allocations: the allocations of which a buffer value may be a part, and the dimensions along which the value runs.

Input: a program. Output: for each buffer value its views. An example:

    %t = buffer_trans (buffer_index %tiles %slot)        View(alloc=%tiles, dims=(1, 0))

Views (index, slice, transpose) are followed back to the `local_alloc`; where control flow hands buffers on, a value may have
several views. A buffer seen with another shape or width of elements starts anew: it counts as an allocation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...ir.core import Op, Program, Value
from ...ir.flow import all_carries
from ...ir.types import Buffer


@dataclass(frozen=True)
class View:
    """One way in which a value is part of `alloc`.

    `dims[i]` is the dimension of one tile of the allocation that dimension i of the view runs along. `slices` are the
    `buffer_slice` ops on the way, each with the `dims` that it cut.
    """

    alloc: Value
    dims: tuple[int, ...]
    slices: frozenset[tuple[Op, tuple[int, ...]]] = frozenset()


def find_views(program: Program) -> dict[Value, tuple[View, ...]]:
    """The views of each buffer value, in the order in which they were found."""
    found: dict[Value, dict[View, None]] = {}
    carries = [carry for carry in all_carries(program) if isinstance(carry.target.type, Buffer)]
    ops = [op for op in program.where(lambda row: row.view in _STEPS) if isinstance(op.result.type, Buffer)]
    count = -1
    while count != sum(map(len, found.values())):
        count = sum(map(len, found.values()))
        for op in ops:
            found.setdefault(op.result, {}).update(dict.fromkeys(_STEPS[op.row.view](op, found)))
        for carry in carries:
            found.setdefault(carry.target, {}).update(found.get(carry.source, {}))
    return {value: tuple(views) for value, views in found.items()}


def _alloc(op: Op, found) -> list[View]:
    return [View(op.result, tuple(range(len(op.result.type.shape))))]


def _index(op: Op, found) -> list[View]:
    """One buffer of an array keeps the tile; indexing a single buffer drops its leading dimension."""
    source = op.buffer
    drops = source.type.count == 0 and len(source.type.shape) > 1
    return [replace(view, dims=view.dims[1:]) if drops else view for view in found.get(source, ())]


def _slice(op: Op, found) -> list[View]:
    return [replace(view, slices=view.slices | {(op, view.dims)}) for view in found.get(op.buffer, ())]


def _trans(op: Op, found) -> list[View]:
    return [replace(view, dims=tuple(view.dims[i] for i in op.order)) for view in found.get(op.buffer, ())]


def is_retyped(op: Op) -> bool:
    """True if a `buffer_reinterpret` changes more than the type of each element, so that the result has its own layout. In tensor
    memory there is one for each shape."""
    source, result = op.buffer.type, op.result.type
    return result.space != "tmem" and (source.shape, source.element.bits, source.count) != (
        result.shape, result.element.bits, result.count)


def _reinterpret(op: Op, found) -> list[View]:
    return _alloc(op, found) if is_retyped(op) else list(found.get(op.buffer, ()))


# By the fact `view` of a row, for whole tiles and boxes of them; a flat buffer has no dimensions of a tile to follow.
_STEPS = {"placed": _alloc, "slot": _index, "part": _slice, "transposed": _trans, "retyped": _reinterpret}
