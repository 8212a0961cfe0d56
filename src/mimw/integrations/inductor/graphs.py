"""Nodes of torch's graphs: arguments by name, and a call of ours in the place of a node.

Input: a node of ATen operators. Output: its arguments, or another node. For example:

    arguments(addmm)                    {"this": bias, "mat1": x, "mat2": w, "beta": 1, "alpha": 1}
    replace(graph, mm, ours, (a, b))    a call of ours instead
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.fx import Graph, Node


def arguments(node: Node) -> dict[str, Any]:
    """The arguments by the names of the operator's schema, defaults included; `this` is what the schema calls self."""
    defaults = {argument.name: argument.default_value for argument in node.target._schema.arguments}
    named = defaults | dict(zip(defaults, node.args)) | node.kwargs
    return {"this" if name == "self" else name: value for name, value in named.items()}


def replace(graph: Graph, node: Node, ours: Callable, given: tuple) -> None:
    """Put a call of ours in the place of a node."""
    with graph.inserting_before(node):
        new = graph.call_function(ours, given)
    new.meta.update(node.meta)
    node.replace_all_uses_with(new)
    graph.erase_node(node)


__all__ = ["arguments", "replace"]
