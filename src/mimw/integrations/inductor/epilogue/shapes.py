"""Shapes of a graph's values, of which extents may be symbols: what is known of them without a guard.

Input: nodes, or shapes. Output: yes or no, or a shape. For example:

    is_of_columns((32, ), (2, 8, 32))       True: a number of each column
    keeps_columns(before, after)            True of a view of (16, 32) as (2, 8, 32)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch.fx import Node

from ..graphs import arguments


def is_of_columns(shape: tuple, here: tuple) -> bool:
    """True for a number of each column."""
    return (1 <= len(shape) <= len(here) and not are_equal(here[-1:], (1, )) and are_equal(shape[-1:], here[-1:])
            and are_equal(shape[:-1], (1, ) * (len(shape) - 1)))


def keeps_columns(old: Tensor, new: Tensor | None) -> bool:
    """True of a view that changes the shape in front of the columns alone."""
    return new is not None and new.dim() >= 2 and are_equal(new.shape[-1:], old.shape[-1:])


def shape_of_view(view: Node) -> Any:
    """The shape, in which there may be symbols, that a view gives."""
    given = arguments(view)
    return given["size"] if "size" in given else given["shape"]


def are_equal(shape: Sequence[Any], other: Sequence[Any]) -> bool:
    """True of extents that are known to be equal; symbols are compared by what they are called, without a guard."""
    return list(map(str, shape)) == list(map(str, other))


def is_contiguous(x: Tensor) -> bool:
    """True if x is known to be."""
    strides, stride = [], 1
    for extent in reversed(x.shape):
        strides.insert(0, stride)
        stride = stride * extent
    return all(are_equal((extent, ), (1, )) or are_equal((one, ), (wanted, ))
               for extent, one, wanted in zip(x.shape, x.stride(), strides, strict=True))


def value(node: Node) -> Any:
    """The tensor without data that torch has noted for a node; None where it has not."""
    return node.meta.get("val")


def shape_of(other: Any) -> tuple | None:
    """The shape of a tensor; None for what is none."""
    return tuple(value(other).shape) if isinstance(other, Node) and isinstance(value(other), Tensor) else None


def are_numbers(*given: Any) -> bool:
    """True of numbers of Python's."""
    return all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in given)


__all__ = ["are_equal", "are_numbers", "is_contiguous", "is_of_columns", "keeps_columns", "shape_of", "shape_of_view", "value"]
