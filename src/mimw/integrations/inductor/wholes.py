"""A product with all that inductor may fuse behind it, timed in two ways: as it stands in the graph, and with a call of ours in it.

Input: a product in a graph behind autograd, and what puts ours into a copy of that part. Output: True if ours was quicker. For
example:

    is_quicker_whole(addmm, put)            relu(addmm) and the mask of its gradient: cuBLAS and one launch, or ours and one launch

Inductor itself compiles both, with the settings of the model: under mode="max-autotune" its templates with fused epilogues, and our
product among its choices, are what ours has to beat. Times of parts would not say which whole is quicker: what is fused into the
launch behind a product costs that launch little.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import Graph, Node

from .measured import is_quicker
from .torch_versions import at_hints, by_inductor, is_autotuned

_FUSED = torch.Tag.pointwise, *([torch.Tag.reduction] if hasattr(torch.Tag, "reduction") else [])


def is_quicker_whole(product: Node, put: Callable[[Graph, dict[Node, Node]], None],
                     made: Mapping[Node, Callable[[Tensor], Tensor]] = {}, first: Node | None = None) -> bool:
    """True if the part of the graph from a product on takes less time with ours.

    args:      put   `put(copy, of)` puts ours into a copy of that part, in which `of[node]` stands for a node of the graph. What it
                     replaces has to be in that part: a product, and operations of elements behind it
               first a node in front that belongs to the part, too
               made  node -> what makes its tensor of one of zeros, where numbers matter
    returns:   False, too, where an extent is a symbol, but for a product whose numbers `made` knows: it is timed alone then, at the
               extents that the symbols stood for first, as inductor times its own choices
    """
    inputs = product.all_input_nodes
    hinted = made and any(_is_symbolic(one.meta["val"]) for one in inputs)
    nodes = [*([] if first is None else [first]), *([product] if hinted else whole(product))]
    copies = [_Copy(nodes) for _ in range(2)]
    given = tuple(one.meta.get("val") for one in copies[0].inputs)
    if not all(isinstance(one, Tensor) for one in given):
        return False
    put(copies[0].graph, copies[0].of)
    ours, theirs = (by_inductor(one.graph) for one in copies)
    name = f"{product.target} and what is fused{' under max-autotune' * is_autotuned()}"
    given = tuple(map(at_hints, given)) if hinted else given
    return is_quicker(f"{name}\n{copies[1].graph}\n{copies[0].graph}", ours, theirs, given,
                      made={at: made[one] for at, one in enumerate(copies[0].inputs) if one in made})


def _is_symbolic(x: Tensor) -> bool:
    return not all(isinstance(one, int) for one in (*x.shape, *x.stride()))


def whole(product: Node) -> list[Node]:
    """The product, and what inductor may fuse behind it: nodes of elements, views and reductions that depend on it, and on nothing
    else that does and is not among them."""
    inside, behind = {product: None}, set()
    node = product.next
    while node.op != "root":
        given = node.all_input_nodes
        if any(one in behind for one in given) or any(one in inside for one in given) and not is_fused(node):
            behind.add(node)
        elif any(one in inside for one in given):
            inside[node] = None
        node = node.next
    return list(inside)


def is_fused(node: Node) -> bool:
    """True of an operation of elements, a view or a reduction."""
    target = node.target
    if target is operator.getitem:
        return True
    if not isinstance(target, OpOverload) or target._schema.is_mutable:
        return False
    is_view = any(one.alias_info is not None for one in target._schema.returns)
    return is_view or any(one in target.tags for one in _FUSED)


class _Copy:
    """A graph of its own of some nodes: its inputs are what they read, its results what others read of them. Names are counted, so
    that parts which do the same have one text."""

    def __init__(self, nodes: list[Node]):
        self.graph, self.of = Graph(), {}
        inside = set(nodes)
        self.inputs = [one for one in dict.fromkeys(given for node in nodes for given in node.all_input_nodes) if one not in inside]
        for number, one in enumerate(self.inputs):
            self._noted(one, self.graph.create_node("placeholder", f"given{number}"))
        for number, one in enumerate(nodes):
            args, kwargs = (torch.fx.map_arg(part, self.of.__getitem__) for part in (one.args, one.kwargs))
            self._noted(one, self.graph.create_node("call_function", one.target, args, kwargs, f"node{number}"))
        self.graph.output(tuple(self.of[one] for one in nodes if not inside.issuperset(one.users)))

    def _noted(self, one: Node, copy: Node) -> None:
        copy.meta, self.of[one] = dict(one.meta), copy


__all__ = ["is_fused", "is_quicker_whole", "whole"]
