"""Which axes of an op's tiles go together when tasks share out a tile, and which have to stay whole.

Input: an op of a plain kernel, and the number of parts. Output: its `Links`, or None for an op that is not followed. For example:

    %s = dot %a %b %acc             axis 0 of %a, %acc and %s go together, axis 1 of %a and axis 0 of %b stay whole
    %m = reduce (%s) 1              axis 0 of %s and axis 0 of %m go together, axis 1 of %s stays whole
    %x = load %pointers             axis 0 of %pointers and axis 0 of %x go together, and so do their axes 1

Axes that go together are all cut into the same parts or all left whole: then part p of the results follows from part p of the
operands. An axis that stays whole is one along which each result needs elements of several parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import prod

from ...ir import Op, Tensor, Value
from ...ir.flow import carries

Axis = tuple[Value, int]    # an axis of a tile


@dataclass
class Links:
    """`together` are axes that are cut alike, `whole` axes that stay whole, each with the reason in words."""

    together: list[tuple[Axis, Axis]] = field(default_factory=list)
    whole: list[tuple[Axis, str]] = field(default_factory=list)

    def join(self, one: Value, axis: int, other: Value, other_axis: int) -> None:
        self.together.append(((one, axis), (other, other_axis)))

    def keep(self, value: Value, axis: int, why: str) -> None:
        self.whole.append(((value, axis), why))

    def keep_all(self, value: Value, why: str, but: tuple[int, ...] = ()) -> None:
        for axis in range(len(shape_of(value))):
            if axis not in but:
                self.keep(value, axis, why)


def shape_of(value: Value | None) -> tuple[int, ...]:
    """The extents of a tile; () for a number and for what is no tile."""
    return value.type.shape if value is not None and isinstance(value.type, Tensor) else ()


def links(op: Op, parts: int) -> Links | None:
    """The links of an op whose tiles are cut into `parts` parts; None if nothing is known of the op. Numbers have no axes."""
    found = Links()
    if op.row.ours:
        return None
    if op.row.hands_on:
        for carry in carries(op):
            _alike(found, (carry.source, carry.target))
        return found
    if op.name in _RULES:
        return found if _RULES[op.name](op, found, parts) is not False else None
    if _is_elementwise(op):
        tiles = [value for value in (*op.operands, *op.results) if shape_of(value)]
        return found if _alike(found, tiles) else None
    return None


def _is_elementwise(op: Op) -> bool:
    if op.name == "map_elementwise":
        return op.pack == 1
    if op.name == "extern_elementwise":
        return bool(op.is_pure)
    numbers_only = not any(map(shape_of, (*op.operands, *op.results)))
    return "pure" in op.row.effects and not op.blocks and not op.row.rule and (op.row.layout == "same" or numbers_only)


def _alike(found: Links, tiles) -> bool:
    """Join every axis of tiles of one shape; False where shapes differ."""
    first, *others = tiles or (None, )
    for other in others:
        if shape_of(other) != shape_of(first):
            return False
        for axis in range(len(shape_of(first))):
            found.join(first, axis, other, axis)
    return True


# ---- rules: each adds to the links; False says that the op is not followed -----------------------------------------------

_RULES: dict[str, Callable[[Op, Links, int], bool | None]] = {}


def _rule(*names: str):
    def note(rule):
        _RULES.update(dict.fromkeys(names, rule))
        return rule
    return note


@_rule("constant", "poison", "splat", "make_range", "yield", "condition", "assert", "assume", "hint", "make_tensor_descriptor",
       "descriptor_load", "descriptor_store", "descriptor_reduce")
def _free(op: Op, found: Links, parts: int) -> None:
    """Each part can be made, loaded or stored by itself."""


@_rule("load", "masked_load", "store", "masked_store", "atomic_rmw")
def _by_pointers(op: Op, found: Links, parts: int) -> bool:
    return _alike(found, [value for value in (*op.operands, *op.results) if shape_of(value)])


@_rule("dot", "dot_scaled")
def _product(op: Op, found: Links, parts: int) -> bool | None:
    if len(shape_of(op.result)) != 2:
        return False
    scaled = op.name == "dot_scaled"
    for rows in (op.acc, op.a, op.a_scale if scaled else None):
        if rows is not None:
            found.join(op.result, 0, rows, 0)
    found.join(op.result, 1, op.acc, 1)
    found.join(op.result, 1, op.b, 1)
    found.keep(op.a, 1, "adds up along its columns")
    found.keep(op.b, 0, "adds up along the rows of its right operand")
    if scaled:
        for scale in (op.a_scale, op.b_scale):
            if shape_of(scale):
                found.keep_all(scale, "adds up along the columns of a scale", but=(0, ))
        if shape_of(op.b_scale):
            found.join(op.result, 1, op.b_scale, 0)


@_rule("reduce", "scan")
def _along(op: Op, found: Links, parts: int) -> None:
    reduces = op.name == "reduce"
    for value, result in zip(op.values, op.results):
        along = op.axis % len(shape_of(value))
        for axis in range(len(shape_of(value))):
            if axis == along:
                found.keep(value, axis, "goes along the rows that would be shared out")
            else:
                found.join(value, axis, result, axis - (reduces and axis > along))
        if not reduces:
            found.keep(result, along, "goes along the rows that would be shared out")
    if len(op.values) > 1:
        _alike(found, op.values)


@_rule("expand_dims")
def _expand_dims(op: Op, found: Links, parts: int) -> None:
    at = op.axis % len(shape_of(op.result))
    for axis in range(len(shape_of(op.value))):
        found.join(op.value, axis, op.result, axis + (axis >= at))
    found.keep(op.result, at, "makes an axis of extent 1")


@_rule("broadcast")
def _broadcast(op: Op, found: Links, parts: int) -> bool | None:
    before, after = shape_of(op.value), shape_of(op.result)
    if len(before) != len(after):
        return False
    for axis, (extent, wider) in enumerate(zip(before, after)):
        if extent == wider:
            found.join(op.value, axis, op.result, axis)
        else:
            found.keep(op.value, axis, "repeats an axis of extent 1")


@_rule("trans")
def _trans(op: Op, found: Links, parts: int) -> None:
    for axis, before in enumerate(op.order):
        found.join(op.value, before % len(op.order), op.result, axis)


@_rule("reshape")
def _reshape(op: Op, found: Links, parts: int) -> None:
    """Two axes with the same elements in front of them cut the row-major order at the same places, if both can be cut."""
    starts, joined = dict(_starts(shape_of(op.result), parts)), set()
    for start, axis in _starts(shape_of(op.value), parts):
        if start in starts and not op.can_reorder:
            found.join(op.value, axis, op.result, starts[start])
            joined |= {(op.value, axis), (op.result, starts[start])}
    for value in (op.value, op.result):
        found.keep_all(value, "puts elements of one row into others", but=tuple(axis for one, axis in joined if one is value))


def _starts(shape: tuple[int, ...], parts: int) -> Iterator[tuple[int, int]]:
    """(elements of the axes in front, axis) of each axis that can be cut into parts."""
    return ((prod(shape[:axis]), axis) for axis, extent in enumerate(shape) if extent % parts == 0)


@_rule("unsplat")
def _unsplat(op: Op, found: Links, parts: int) -> None:
    found.keep_all(op.value, "makes a number of a tile")


@_rule("join", "split")
def _pairs(op: Op, found: Links, parts: int) -> None:
    """The pairs' own axis is the last one, and stays whole."""
    pair, singles = (op.result, (op.lhs, op.rhs)) if op.name == "join" else (op.value, op.results)
    for single in singles:
        for axis in range(len(shape_of(single))):
            found.join(pair, axis, single, axis)
    found.keep(pair, len(shape_of(pair)) - 1, "takes both elements of a pair")


@_rule("gather")
def _gather(op: Op, found: Links, parts: int) -> bool | None:
    source, indices = shape_of(op.source), shape_of(op.indices)
    if len(source) != len(indices):
        return False
    _alike(found, (op.indices, op.result))
    for axis in range(len(source)):
        if axis != op.axis % len(source) and source[axis] == indices[axis]:
            found.join(op.source, axis, op.indices, axis)
        else:
            found.keep(op.source, axis, "picks rows of the whole tile")
            if axis != op.axis % len(source):
                found.keep(op.indices, axis, "picks rows of a larger tile")


@_rule("histogram")
def _histogram(op: Op, found: Links, parts: int) -> None:
    for value in filter(shape_of, (*op.operands, op.result)):
        found.keep_all(value, "counts all elements")


@_rule("descriptor_gather", "descriptor_scatter")
def _picked_rows(op: Op, found: Links, parts: int) -> None:
    tile = op.result if op.results else op.value
    found.join(tile, 0, op.rows, 0)
    found.keep(tile, 1, "copies whole rows")
