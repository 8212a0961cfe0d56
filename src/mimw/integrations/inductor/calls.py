"""Calls of torch that have a function of ours: attention.

Input: a graph as Dynamo records it, before autograd, so that derivatives are those of ours. Output: the same graph. For example:

    scaled_dot_product_attention(q, k, v, is_causal=True)       ops.attention(q, k, v, causal=True)
    flex_attention(q, k, v, block_mask=causal)                  ops.attention(q, k, v, causal=True)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import Signature, signature
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node
from torch.nn import functional as F

from mimw.nn.fallback import TYPES
from mimw.ops.scaled_dot_product_attention import by_kernels, reason

from .flex import replace_flex
from .graphs import replace
from .measured import is_quicker
from .settings import Settings
from .torch_versions import FLEX, GraphPass


class Calls(GraphPass):
    """The pass before autograd."""

    def __init__(self, settings: Settings):
        self.settings = settings

    def uuid(self) -> Any:
        return "mimw.integrations.inductor.calls 2", self.settings.key()

    def __call__(self, graph: Graph) -> None:
        for node in list(graph.nodes):
            if node.op == "call_function" and node.target is F.scaled_dot_product_attention and "sdpa" in self.settings.allow:
                _attention(graph, node, self.settings)
            elif node.op == "call_function" and node.target is FLEX and "flex" in self.settings.allow:
                replace_flex(graph, node, self.settings)


def _of_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False) -> None:
    """torch's parameters, in torch's order."""


_PARAMETERS: Signature = signature(_of_attention)


def _attention(graph: Graph, node: Node, settings: Settings) -> None:
    given = _PARAMETERS.bind(*node.args, **node.kwargs)
    given.apply_defaults()
    now = {name: _value(one) for name, one in given.arguments.items()}
    result = _value(node)
    if None in (now["query"], now["key"], now["value"], result) or not isinstance(now["is_causal"], bool) \
            or isinstance(now["dropout_p"], Node | Tensor) or isinstance(now["scale"], Tensor | torch.SymFloat):
        return
    dtype, tensors = result.dtype, ("query", "key", "value")
    if now["query"].device.type not in settings.devices or not {dtype, *(now[name].dtype for name in tensors)} <= TYPES:
        return
    of_autocast = [name for name in tensors if now[name].dtype is not dtype]    # nothing else changes the type
    now |= {name: now[name].to(dtype) for name in of_autocast}
    if reason(**now) is not None:
        return
    names = ("query", "key", "value", "attn_mask", "is_causal", "scale")
    if not settings.force:
        theirs = partial(F.scaled_dot_product_attention, enable_gqa=now["enable_gqa"])
        if not is_quicker(f"attention {now['enable_gqa']}", by_kernels, _by_name(theirs),
                          tuple(now[name] for name in names), result.requires_grad):
            return
    with graph.inserting_before(node):
        lowered = {name: graph.call_method("to", (given.arguments[name], dtype)) for name in of_autocast}
    for name, one in lowered.items():
        one.meta["example_value"] = now[name]
    replace(graph, node, by_kernels, tuple((given.arguments | lowered)[name] for name in names))


def _by_name(function: Callable) -> Callable:
    return lambda query, key, value, attn_mask, is_causal, scale: function(
        query, key, value, attn_mask=attn_mask, is_causal=is_causal, scale=scale)


def _value(one: Any) -> Any:
    """The tensor, or number, that Dynamo has recorded for a node; what is no node is itself."""
    return one.meta.get("example_value") if isinstance(one, Node) else one


__all__ = ["Calls"]
