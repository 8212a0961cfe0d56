"""Ops without effects on poison: which elements of their results are poison.

Input: an op that met a `Poisoned`, and its handler. Output: the op's results, poisoned where an element is made of one that nobody
has written. For example:

    fmul %x %alpha                an element of the result is poison where one of `x` or `alpha` is
    select %mask %x %zero         poison where the mask takes an element of `x` that is; everywhere if the mask is poison there
    reduce %x over axis 1         the rows in which an element is poison
    trans %x                      the poison moves as the elements do

The handler runs on the data, garbage and all. For ops that only move elements it runs once more, on the masks. An op of which
nothing is known gives poison only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from ...ir import Op, Value
from .poison import Poisoned, data_of, poisoned
from .tasks import Task


def spread(task: Task, op: Op, run: Callable) -> None:
    """Run `op` by `run`, for operands some of which are poisoned."""
    env, given = task.env, {value: task.env[value] for value in op.operands}
    tiles = {value: tile for value, tile in given.items() if tile.__class__ is Poisoned}
    origin = next(iter(tiles.values())).origin
    try:
        env.update((value, _harmless(op, value, tile)) for value, tile in tiles.items())
        with np.errstate(all="ignore"):
            run(task, op)
        found = [env[result] for result in op.results]
        masks = _masks(task, op, run, given)
    finally:
        env.update(given)
    for result, data, mask in zip(op.results, found, masks):
        env[result] = poisoned(data, np.broadcast_to(mask, np.shape(data)), origin)


def _harmless(op: Op, value: Value, tile: Poisoned):
    """The data to compute with; garbage is no divisor to be refused."""
    if op.row.cost == "division" and value is op.rhs:
        return np.where(tile.mask, np.ones_like(tile.data), tile.data)[()]
    return tile.data


def _masks(task: Task, op: Op, run: Callable, given: dict[Value, object]) -> Iterable:
    """For each result, where it is poison, in a shape that broadcasts to the result's."""
    row = op.row
    if op.name == "select":
        condition = given[op.condition]
        taken = np.where(data_of(condition), _mask(given[op.if_true]), _mask(given[op.if_false]))
        return [_mask(condition) | taken]
    if "combines" in row.traits:
        return [_combined(op, given)] * len(op.results)
    if "maps" in row.traits or "assembly" in row.traits:
        return [_packed(op, given)] * len(op.results)
    if op.name == "dot":
        a, b, acc = (_mask(given[value]) for value in (op.a, op.b, op.acc))
        return [a.any(axis=-1, keepdims=True) | b.any(axis=-2, keepdims=True) | acc]
    if row.elements_of:
        return _moved(task, op, run, given)
    if row.layout in ("same", "pin") and "lanes" not in op.attrs:
        return [_elementwise(op, given)]
    return [np.True_] * len(op.results)


def _mask(tile) -> np.ndarray:
    return tile.mask if tile.__class__ is Poisoned else np.zeros(np.shape(tile), bool)


def _any(masks: Iterable[np.ndarray]) -> np.ndarray:
    found = np.False_
    for mask in masks:
        found = found | mask
    return found


def _elementwise(op: Op, given: dict) -> np.ndarray:
    """An element for an element, less those that another operand decides."""
    found = _any(_mask(given[value]) for value in op.operands)
    if op.row.absorbs is not None:
        for value in op.operands:
            data = data_of(given[value])
            decides = np.asarray(data == data.dtype.type(op.row.absorbs))
            found = found & ~(decides & ~_mask(given[value]))
    return found


def _moved(task: Task, op: Op, run: Callable, given: dict) -> list[np.ndarray]:
    """The masks, moved as the elements are. What says where to is used."""
    moving = {value for name in op.row.elements_of for value in _values(getattr(op, name))}
    for value, tile in given.items():
        if value not in moving and tile.__class__ is Poisoned:
            raise tile.origin.refusal(task, op, "takes it as an address") from None
    task.env.update((value, _mask(given[value])) for value in moving)
    run(task, op)
    return [np.asarray(task.env[result]) != 0 for result in op.results]


def _values(operand) -> tuple:
    return operand if isinstance(operand, tuple) else (operand, )


def _combined(op: Op, given: dict) -> np.ndarray:
    """Tuples are reduced and scanned as one: an index of the largest element is poison with the elements."""
    mask = _any(_mask(given[value]) for value in op.values)
    if "reverse" not in op.row.places:
        return mask.any(axis=op.axis)
    if op.reverse:
        return np.flip(np.logical_or.accumulate(np.flip(mask, op.axis), axis=op.axis), op.axis)
    return np.logical_or.accumulate(mask, axis=op.axis)


def _packed(op: Op, given: dict) -> np.ndarray:
    """`pack` neighbours are the arguments of one call."""
    mask, pack = _any(_mask(given[value]) for value in op.values), op.pack if "pack" in op.row.places else 1
    if "lanes" in op.attrs or np.size(mask) % pack:
        return np.broadcast_to(np.any(mask), np.shape(mask))
    return np.repeat(mask.reshape(-1, pack).any(axis=1), pack).reshape(np.shape(mask))
