"""The dialect `vector`: a few numbers of one thread, each with a place of its own that is known when compiling.

Input: numbers and vectors of a body. Output: vectors, whose ops are done element by element. For example:

    v = vector.load(ir.VectorType.get([4], f32), x, [i])        four loads, of x[i] to x[i + 3]
    vector.reduction(f32, vector.CombiningKind.ADD, arith.mulf(v, v))       three additions, in order
"""

from __future__ import annotations

import enum
from typing import Any

from . import memory
from .arith import cast_type
from .dialect import DIALECTS, op
from .threads import INDEX
from .types import Type, VectorType, is_float
from .values import Number, Vector


def _vector(body, what: str, value: Any) -> Vector:
    if not isinstance(value, Vector):
        body.fail(f"{what} takes a vector, got {value!r}")
    return value


def _flat(body, what: str, type_: Any) -> VectorType:
    if not isinstance(type_, VectorType) or type_.rank != 1 or type_.shape[0] is None:
        body.fail(f"{what} takes a vector type of one known extent, got {type_}")
    return type_


@op("vector")
def load(body, result, base, indices=None):
    """Neighbours along the last axis, from the thread's indices on."""
    type_ = _flat(body, "vector.load", result)
    return Vector(tuple(memory.load.record(body, [base, each], {}) for each in _neighbours(body, indices, type_)), type_)


@op("vector")
def store(body, valueToStore, base, indices):
    """Write neighbours along the last axis, from the thread's indices on."""
    value = _vector(body, "vector.store", valueToStore)
    for number, each in zip(value.numbers, _neighbours(body, indices, value.type)):
        memory.put(body, number, base, each, "vector.store")


def _neighbours(body, indices, type_: VectorType) -> list[list]:
    *others, last = indices
    first = body.threads.number(last, INDEX)
    steps = (body.threads.constant(step, first.type) for step in range(type_.shape[0]))
    return [[*others, first if not step.known else body.threads.op("add", [first, step], first.type)] for step in steps]


@op("vector")
def broadcast(body, vector, source):
    """One number in all places."""
    type_, value = cast_type(body, "vector.broadcast", vector, source)
    type_ = _flat(body, "vector.broadcast", type_)
    return Vector((body.threads.number(value, type_.element_type), ) * type_.shape[0], type_)


op("vector", "splat")(lambda body, aggregate, input: broadcast.record(body, [aggregate, input], {}))


@op("vector")
def from_elements(body, dest, elements):
    """A vector of these numbers."""
    return Vector(tuple(body.threads.number(one) for one in elements), _flat(body, "vector.from_elements", dest))


@op("vector")
def extract(body, source, dynamic_position=(), static_position=()):
    """The number in one place, which must be known."""
    places = [getattr(one, "value", one) for one in (*static_position, *dynamic_position)]
    return _vector(body, "vector.extract", source).numbers[_place(body, "vector.extract", source, places)]


@op("vector")
def insert(body, value_to_store, dest, dynamic_position=(), static_position=()):
    """The vector with another number in one place, which must be known."""
    places = [getattr(one, "value", one) for one in (*static_position, *dynamic_position)]
    at = _place(body, "vector.insert", _vector(body, "vector.insert", dest), places)
    value = body.threads.number(value_to_store, dest.type.element_type)
    return Vector((*dest.numbers[:at], value, *dest.numbers[at + 1:]), dest.type)


def _place(body, what: str, vector: Vector, places: list) -> int:
    known = [one for one in map(body.known, places) if one is not None and one >= 0]
    if len(known) != 1 or known[0] >= len(vector.numbers):
        body.fail(f"{what}: the place must be one constant from 0 to {len(vector.numbers) - 1}, got {places!r}")
    return known[0]


class CombiningKind(enum.Enum):
    """The way in which vector.reduction combines two numbers."""

    ADD, MUL, MINUI, MINSI, MINNUMF, MAXUI, MAXSI, MAXNUMF, AND, OR, XOR, MINIMUMF, MAXIMUMF = range(13)


DIALECTS["vector"].CombiningKind = CombiningKind
_COMBINE = {"ADD": ("addi", "addf"), "MUL": ("muli", "mulf"), "AND": ("andi", ), "OR": ("ori", ), "XOR": ("xori", )}


@op("vector")
def reduction(body, dest, kind, vector, acc=None, fastmath=None):
    """All numbers combined, from the first on."""
    name = str(getattr(kind, "name", kind)).upper()
    if name not in CombiningKind.__members__:
        body.fail(f"vector.reduction: {kind!r} is no kind; there are {', '.join(CombiningKind.__members__)}")
    numbers = [*([] if acc is None else [body.threads.number(acc)]), *_vector(body, "vector.reduction", vector).numbers]
    names = _COMBINE.get(name, (name.lower(), ))
    combine = getattr(DIALECTS["arith"], names[-1] if is_float(numbers[0].type) else names[0])
    total: Number = numbers[0]
    for one in numbers[1:]:
        total = combine.record(body, [total, one], {})
    if isinstance(dest, Type) and dest != total.type:
        body.fail(f"vector.reduction of {total.type} gives no {dest}")
    return total
