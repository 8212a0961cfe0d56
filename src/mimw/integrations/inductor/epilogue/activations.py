"""Activations in a graph behind autograd, where torch has written them as the operations that they consist of.

Input: a node, and what stands for the activation's argument. Output: the name that `mimw.ops.addmm` has for it, and the nodes. For
example, of x 0.5 (1 + erf(x 0.7071)), as torch writes gelu behind autograd:

    activation(x)           Activation("gelu", end=mul, is_alone=True)

Each activation is written down once as torch decomposes it, and nodes are compared with that as terms: the order of factors and
changes to fp32 do not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from mimw.ops.addmm import ACTIVATIONS

from ..graphs import arguments
from ..torch_versions import decomposed

_ATEN = torch.ops.aten
_COMMUTES = (_ATEN.mul.Tensor, _ATEN.add.Tensor)
_CAST = torch.ops.prims.convert_element_type.default
_MOST = 16      # nodes of an activation


@dataclass(frozen=True)
class Activation:
    """args:      name      in `mimw.ops.addmm`
                 end       the node whose value it is
                 is_alone  nobody else reads the argument. What lies between it and the end nobody else reads"""

    name: str
    end: Node
    is_alone: bool


def activation(x: Node) -> Activation | None:
    """The activation of x that a graph computes."""
    terms: dict[Node, Any] = {x: "x"}
    for node in _behind(x):
        terms[node] = _term(node, terms)
        name = _known().get(terms[node])
        if name is None:
            continue
        part = _upstream(node, x)
        if all(part.issuperset(one.users) for one in part - {x, node}):
            return Activation(name, node, part.issuperset(x.users))
    return None


def _upstream(node: Node, x: Node) -> set[Node]:
    """The nodes from x to a node that depends on x alone."""
    found = [node]
    for one in found:
        found.extend(given for given in one.all_input_nodes if one is not x and given not in found)
    return set(found)


def _behind(x: Node) -> list[Node]:
    """The nodes that depend on x alone, each behind its arguments, up to as many as an activation has."""
    found = [x]
    for one in found:
        for user in one.users:
            if isinstance(user.target, OpOverload) and user not in found and all(one in found for one in user.all_input_nodes):
                found.append(user)
        if len(found) > _MOST:
            break
    return found[1:]


def _term(node: Node, terms: dict[Node, Any]) -> Any:
    """The node's value as nested tuples."""
    given = arguments(node)
    if node.target is _CAST and given["dtype"] is torch.float32:
        return terms[given["a"]]
    values = [terms[one] if isinstance(one, Node) else _number(one) for one in given.values()]
    if node.target in _COMMUTES and values[2:] in ([], [1.0]):
        values = sorted(values[:2], key=repr)
    return (str(node.target), *values)


def _number(one: Any) -> Any:
    return float(one) if isinstance(one, (int, float)) and not isinstance(one, bool) else str(one)


@cache
def _known() -> dict[Any, str]:
    """Terms of the activations, as torch decomposes them."""
    known = {}
    for name, function in ACTIVATIONS.items():
        terms: dict[Node, Any] = {}
        for node in () if name is None else decomposed(function).nodes:
            if node.op == "placeholder":
                terms[node] = "x"
            elif node.op == "call_function":
                terms[node] = _term(node, terms)
        if terms:
            known[list(terms.values())[-1]] = name
    return known


__all__ = ["Activation", "activation"]
