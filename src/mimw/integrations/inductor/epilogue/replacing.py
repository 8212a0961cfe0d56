"""The pass that puts one call of ours for a product and its epilogue, where both ways were timed with all that inductor fuses.

Input: a graph behind autograd, and the settings. Output: the same graph. For example:

    replace_epilogues(graph, settings)          before other products are replaced
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from operator import getitem
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node
from torch.fx.node import map_aggregate

from mimw.nn.fallback import TYPES
from mimw.ops.launching import is_exact
from mimw.ops.notes import another_chip

from ..settings import Settings
from ..torch_versions import rounds_between
from ..wholes import is_quicker_whole
from .operator import KEPT, PRODUCT
from .reading import Epilogue, epilogue
from .shapes import shape_of_view

_ATEN = torch.ops.aten
_PRODUCTS = (_ATEN.mm.default, _ATEN.addmm.default)


def replace_epilogues(graph: Graph, settings: Settings) -> None:
    """Each product that has an epilogue, and that the library's GEMM takes, becomes one call with it: always where `force` says so,
    else where that was the quicker way."""
    if rounds_between():
        return
    for product in list(graph.nodes):
        if product.op != "call_function" or product.target not in _PRODUCTS:
            continue
        found = epilogue(product) if _are_known(product) else None
        if found is None or not _is_taken(found, settings):
            continue
        if settings.force or is_quicker_whole(product, partial(_put_copy, found), first=found.widened):
            _put(graph, found)


def _are_known(product: Node) -> bool:
    return all(isinstance(one.meta.get("val"), Tensor) for one in (product, *product.all_input_nodes))


def _is_taken(found: Epilogue, settings: Settings) -> bool:
    """True if the kernel computes it in one launch, as far as shapes say: the rows may be a symbol."""
    a, b = found.a.meta["val"], found.b.meta["val"]
    beside = [one.meta["val"] for one in _beside(found) if one is not None]
    extents = [a.shape[1], *b.shape]
    if not all(isinstance(one, int) and one > 0 for one in extents) or a.shape[0] == 0:
        return False
    if a.dtype is not b.dtype or a.dtype not in TYPES:
        return False
    if len({one.device for one in (a, b, *beside)}) != 1 or a.device.type not in settings.devices or is_exact(a) or another_chip(a):
        return False
    if a.stride(1) != 1 or not _by_16_bytes(a, a.stride(0)) or b.shape[1] * found.dtype.itemsize % 16 or b.shape[1] == 1:
        return False
    by_columns, by_rows = b.stride(0) == 1 and _by_16_bytes(b, b.stride(1)), b.stride(1) == 1 and _by_16_bytes(b, b.stride(0))
    return by_columns or by_rows and a.dtype.itemsize == 2


def _by_16_bytes(x: Tensor, stride: Any) -> bool:
    return isinstance(stride, int) and stride > 0 and stride * x.dtype.itemsize % 16 == 0


def _beside(found: Epilogue) -> tuple[Node | None, ...]:
    return found.bias, found.residual, found.row_scale, found.column_scale


def _put_copy(found: Epilogue, copy: Graph, of: dict[Node, Node]) -> None:
    """Put the call into a copy of the graph."""
    _put(copy, replace(found, **{name: of[one] for name, one in vars(found).items() if isinstance(one, Node)}))


def _put(graph: Graph, found: Epilogue) -> None:
    """Put the call before the end, or what is kept, let their users read it instead, and take out what nobody reads any longer."""
    end, columns = found.end, found.b.meta["val"].shape[1]
    with graph.inserting_before(found.kept or end):
        bias, residual = _shaped(graph, found.bias, [columns]), _shaped(graph, found.residual, [-1, columns])
        scales = _shaped(graph, found.row_scale, [-1]), _shaped(graph, found.column_scale, [columns])
        if found.kept is None:
            new = _called(graph, PRODUCT.op, found.a, found.b, bias, residual, *scales, found.alpha, found.beta, found.activation,
                          found.dtype)
        else:
            both = _called(graph, KEPT.op, found.a, found.b, bias, *scales, found.alpha, found.activation, found.dtype)
            new, kept = (_called(graph, getitem, both, at) for at in range(2))
            _stand_for(found.kept, _viewed(graph, kept, found.kept_view))
    with graph.inserting_before(end):
        _stand_for(end, _viewed(graph, new, found.view))
    gone, erased = [end, *([] if found.kept is None else [found.kept])], set()
    for one in gone:
        if one not in erased and not one.users and one.op == "call_function":
            gone.extend(one.all_input_nodes)
            erased.add(one)
            graph.erase_node(one)


def _stand_for(node: Node, new: Node) -> None:
    node.replace_all_uses_with(new)
    new.meta.update({name: one for name, one in node.meta.items() if name != "val"})


def _viewed(graph: Graph, one: Node, view: Node | None) -> Node:
    return one if view is None else _called(graph, _ATEN.reshape.default, one, shape_of_view(view))


def _shaped(graph: Graph, one: Node | None, shape: list[int]) -> Node | None:
    if one is None or one.meta["val"].dim() == len(shape):
        return one
    return _called(graph, _ATEN.reshape.default, one, shape)


def _called(graph: Graph, target: Any, *given: Any) -> Node:
    new = graph.call_function(target, given)
    new.meta["val"] = target(*map_aggregate(given, lambda one: one.meta["val"] if isinstance(one, Node) else one))
    return new


__all__ = ["replace_epilogues"]
