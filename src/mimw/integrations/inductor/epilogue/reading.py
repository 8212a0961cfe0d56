"""The epilogue of a product in a graph: all that the library's GEMM does to its sums on their way out.

Input: a product, `aten.mm` or `aten.addmm`, behind autograd. Output: an `Epilogue`, as far as the nodes behind it say what the
kernel does. For example, of a linear layer and its activation:

    epilogue(addmm)         Epilogue(a=x, b=w, bias=bias, activation="gelu", end=mul_2, ...)

The kernel computes act(alpha row_scale column_scale a b + bias + beta residual) in fp32, and rounds once. So a node belongs to it
whose result nobody else reads, and which

    multiplies by a number                      while no bias is there
    multiplies by a fp32 vector, for rows or columns                while nothing is added
    adds a vector of the columns, once          the bias
    adds, or subtracts, a matrix, once          the residual, of the result's type
    is an activation, once                      the last one but for types and views
    changes the type, or the shape in front of the columns

The argument of an activation may have other readers, as where a gradient is wanted: the kernel writes it, too, unless there
is a residual.

Between these nodes the product's own type is not rounded to, as inductor does not between operations that it fuses. A narrower
type is: it ends an epilogue.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from mimw.nn.fallback import TYPES

from ..graphs import arguments
from ..wholes import is_fused
from .activations import activation
from .shapes import are_equal, are_numbers, is_contiguous, is_of_columns, keeps_columns, shape_of, value

_ATEN = torch.ops.aten
_VIEWS = (_ATEN.view.default, _ATEN.reshape.default, _ATEN._unsafe_view.default)
_CAST = torch.ops.prims.convert_element_type.default
_ADDED = {_ATEN.add.Tensor: 1, _ATEN.sub.Tensor: -1}
_SCALED = {_ATEN.mul.Tensor: lambda x: x, _ATEN.div.Tensor: lambda x: 1 / x}


@dataclass(frozen=True)
class Epilogue:
    """args:      a, b      the product's operands
                 bias, residual, row_scale, column_scale     nodes, or None
                 alpha, beta, activation, dtype      numbers, a word of `mimw.ops.addmm`, the result's type
                 end       the node whose value all this is; `view` the last one that changed the shape
                 kept      the node whose value the activation is applied to, where others read it; `kept_view` its view
                 widened   the node that made a residual wider to be added, which the kernel does not need
                 steps     how many nodes of it are more than the product, its bias, types and views"""

    a: Node
    b: Node
    end: Node
    dtype: torch.dtype
    bias: Node | None = None
    residual: Node | None = None
    row_scale: Node | None = None
    column_scale: Node | None = None
    alpha: float = 1.0
    beta: float = 1.0
    activation: str | None = None
    view: Node | None = None
    kept: Node | None = None
    kept_view: Node | None = None
    widened: Node | None = None
    steps: int = 0


def epilogue(product: Node) -> Epilogue | None:
    """The longest epilogue of a product; None where there is not more than the product and its bias."""
    best = None
    for one in _epilogues(product):
        fitting = _fitting(one) if one.steps and one.dtype in TYPES and is_contiguous(value(one.end)) else None
        best = best if fitting is None or one.end.target is _CAST and _is_cheap_behind(one) else fitting
    return best


def _is_cheap_behind(one: Epilogue) -> bool:
    """True of a wider type that an operation behind it would read: inductor fuses the change of type into that."""
    return one.dtype.itemsize > value(one.a).dtype.itemsize and any(map(is_fused, one.end.users))


def _fitting(one: Epilogue) -> Epilogue | None:
    """The epilogue with a residual of the result's type: the one that is added, or what was widened for that. None without, and
    where another type is to be kept."""
    if one.kept is not None and value(one.kept).dtype is not one.dtype:
        return None
    if one.residual is None or value(one.residual).dtype is one.dtype:
        return one
    source = arguments(one.residual)["a"] if one.residual.target is _CAST else None
    is_wider = source is not None and value(source).dtype is one.dtype and one.dtype.itemsize < value(one.residual).dtype.itemsize
    return replace(one, residual=source, widened=one.residual) if is_wider else None


def _epilogues(product: Node) -> Iterator[Epilogue]:
    """From the product on, each with one node more."""
    one = _of_product(product)
    while one is not None:
        yield one
        one = _next(one)


def _of_product(product: Node) -> Epilogue | None:
    given, dtype = arguments(product), product.meta["val"].dtype
    if product.target is _ATEN.mm.default:
        return Epilogue(given["this"], given["mat2"], product, dtype)
    if not are_numbers(given["alpha"], given["beta"]):
        return None
    one = Epilogue(given["mat1"], given["mat2"], product, dtype, alpha=float(given["alpha"]))
    more = _plus(one, given["this"], float(given["beta"]))
    return None if more is None else replace(more, steps=0 if more.bias is not None else 1)


def _next(one: Epilogue) -> Epilogue | None:
    """The epilogue with the node behind its end, or None."""
    of_product = value(one.a).dtype
    narrowed = one.dtype is not of_product and one.dtype.itemsize <= of_product.itemsize
    if one.activation is None and not narrowed and (found := _activated(one)) is not None:
        return found
    if len(one.end.users) != 1:
        return None
    (node, ) = one.end.users
    given = arguments(node) if isinstance(node.target, OpOverload) else {}
    if node.target in _VIEWS:
        return replace(one, end=node, view=node) if keeps_columns(value(one.end), value(node)) else None
    if narrowed:
        return None
    if node.target is _CAST:
        new = given["dtype"]
        return replace(one, end=node, dtype=new, steps=one.steps + (new is not of_product)) if new in TYPES else None
    if one.activation is None and node.target in _ADDED and are_numbers(given["alpha"]):
        return _with_sum(one, node, given["this"], given["other"], float(given["alpha"]) * _ADDED[node.target])
    if one.activation is None and node.target in _SCALED:
        return _with_product(one, node, given["this"], given["other"])
    return None


def _activated(one: Epilogue) -> Epilogue | None:
    """The epilogue with an activation of its end, or of a view of that; what others read of the end is kept."""
    views = [user for user in one.end.users if user.target in _VIEWS and keeps_columns(value(one.end), value(user))]
    for end in (one.end, *views):
        found = activation(end)
        if found is None:
            continue
        alone = found.is_alone and (end is one.end or len(one.end.users) == 1)
        if not alone and (one.residual is not None or not is_contiguous(value(one.end))):
            return None
        kept = {} if alone else dict(kept=one.end, kept_view=one.view)
        return _moved(one, found.end, activation=found.name, view=one.view if end is one.end else end, **kept)
    return None


def _moved(one: Epilogue, end: Node, **options: Any) -> Epilogue:
    """One step more, which `end` says."""
    return replace(one, end=end, dtype=end.meta["val"].dtype, steps=one.steps + 1, **options)


def _with_sum(one: Epilogue, node: Node, this: Any, other: Any, factor: float) -> Epilogue | None:
    """this + factor other, one of which is the end."""
    if this is other:
        return None
    before, added, factor = (one, other, factor) if this is one.end else (_scaled(one, factor), this, 1.0)
    more = None if before is None else _plus(before, added, factor)
    return None if more is None else _moved(more, node)


def _with_product(one: Epilogue, node: Node, this: Any, other: Any) -> Epilogue | None:
    """The end times, or by, a number or a vector."""
    is_product = node.target is _ATEN.mul.Tensor
    if this is other or this is not one.end and not is_product:
        return None
    other = other if this is one.end else this
    if are_numbers(other) and other != 0:
        more = _scaled(one, float(other) if is_product else 1 / float(other))
        return None if more is None else _moved(more, node)
    shape, here = shape_of(other), tuple(value(one.end).shape)
    if not is_product or shape is None or value(other).dtype is not torch.float32 or not (one.bias is one.residual is None):
        return None
    if one.column_scale is None and is_of_columns(shape, here):
        return _moved(one, node, column_scale=other)
    if one.row_scale is None and are_equal((*shape[:-1], here[-1]), here) and are_equal(shape[-1:], (1, )):
        return _moved(one, node, row_scale=other)
    return None


def _plus(one: Epilogue, other: Any, factor: float) -> Epilogue | None:
    """With something added, but for the end."""
    shape = shape_of(other)
    if shape is None or value(other).dtype not in TYPES:
        return None
    here = tuple(value(one.end).shape)
    if one.bias is None and factor == 1 and is_of_columns(shape, here):
        return replace(one, bias=other)
    if one.residual is None and are_equal(shape, here) and factor != 0:
        return replace(one, residual=other, beta=factor)
    return None


def _scaled(one: Epilogue, factor: float) -> Epilogue | None:
    if factor == 1:
        return one
    return None if one.bias is not None else replace(one, alpha=one.alpha * factor, beta=one.beta * factor)


__all__ = ["Epilogue", "epilogue"]
