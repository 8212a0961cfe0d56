"""The type rules of the op table: from an op's arguments and attributes to the types of its results.

Input: what a rule is about, such as the place of an operand. Output: a function, the rule of a row. For example:

    as_operand(0)(args, attrs)     the type of the first operand, as of `add`
    given(1)(args, attrs)          the type that is the second argument, as of `constant`
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .types import I1, Pointer, Tensor, Type, element_of, like, padded

TypeRule = Callable[[tuple[Any, ...], dict[str, Any]], tuple[Type, ...]]


def as_operand(index: int) -> TypeRule:
    return lambda args, attrs: (args[index].type, )


def given(index: int) -> TypeRule:
    return lambda args, attrs: (args[index], )


def scalar(type_: Type) -> TypeRule:
    return lambda args, attrs: (type_, )


def listed_types(*types: Type) -> TypeRule:
    return lambda args, attrs: types


def bool_like(args, attrs):
    return (like(args[0].type, I1), )


def pointee(index: int) -> TypeRule:
    return lambda args, attrs: (like(args[index].type, element_of(args[index].type).pointee), )


def loaded(args, attrs):
    """The tile of a buffer; of one that lies in pieces, the tile of powers of two that holds it."""
    pieces = attrs.get("pieces")
    return (Tensor(args[0].type.element, args[0].type.shape if pieces is None else padded(pieces[:2])), )


def expanded(args, attrs):
    shape = list(args[0].type.shape)
    axis = args[1] + len(shape) + 1 if args[1] < 0 else args[1]
    return (Tensor(args[0].type.element, (*shape[:axis], 1, *shape[axis:])), )


def reshaped(args, attrs):
    return (Tensor(element_of(args[0].type), tuple(args[1])), )


def transposed(args, attrs):
    return (Tensor(args[0].type.element, tuple(args[0].type.shape[i] for i in args[1])), )


def joined(args, attrs):
    first = args[0].type
    return (Tensor(element_of(first), (*getattr(first, "shape", ()), 2)), )


def halves(args, attrs):
    source = args[0].type
    half = Tensor(source.element, source.shape[:-1]) if len(source.shape) > 1 else source.element
    return half, half


def cut_out(args, attrs):
    return (Tensor(args[0].type.element, tuple(args[2])), )


def _without_axis(type_: Tensor, axis: int) -> Type:
    shape = tuple(extent for i, extent in enumerate(type_.shape) if i != axis)
    return Tensor(type_.element, shape) if shape else type_.element


def reduced(args, attrs):
    return tuple(_without_axis(value.type, args[1]) for value in args[0])


def scanned(args, attrs):
    return tuple(value.type for value in args[0])


def mapped(args, attrs):
    return tuple(like(args[0][0].type, element) for element in args[1])


def gathered(args, attrs):
    return (Tensor(args[0].type.element, args[1].type.shape), )


def described(args, attrs):
    return (Tensor(args[0].type.element, args[0].type.shape), )


def gathered_rows(args, attrs):
    return (args[3], )


def pointed(args, attrs):
    buffer, indices, shape, pointee = args
    pointer = Pointer(pointee, "shared")
    if indices is None:
        return (Tensor(pointer, tuple(shape)) if shape else pointer, )
    return (like(indices[0].type, pointer) if indices else pointer, )


def listed(index: int) -> TypeRule:
    return lambda args, attrs: tuple(args[index])


def of_values(index: int) -> TypeRule:
    return lambda args, attrs: tuple(value.type for value in args[index])


def accumulator(args, attrs):
    return (args[2].type, )
