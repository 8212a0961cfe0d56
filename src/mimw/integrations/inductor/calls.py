"""Calls of torch that have a function of ours: attention, and an activation of a linear layer.

Input: a graph as Dynamo records it, before autograd, so that derivatives are those of ours. Output: the same graph. For example:

    scaled_dot_product_attention(q, k, v, is_causal=True)       ops.attention(q, k, v, causal=True)
    flex_attention(q, k, v, block_mask=causal)                  ops.attention(q, k, v, causal=True)
    gelu(linear(x, weight, bias))                               ops.addmm(bias, x, weight.t(), activation="gelu")
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

from mimw import ops
from mimw.nn.fallback import TYPES
from mimw.ops.addmm import ACTIVATIONS
from mimw.ops.scaled_dot_product_attention import by_kernels, reason

from .flex import replace_flex
from .measured import is_quicker
from .products import replace
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
            elif "epilogue" in self.settings.allow and (name := _activation(node)) is not None:
                _epilogue(graph, node, name, self.settings)


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
    if now["query"].device.type not in settings.devices or result.dtype is not now["query"].dtype:     # autocast changes types
        return
    if not {now[name].dtype for name in ("query", "key", "value")} <= TYPES or reason(**now) is not None:
        return
    names = ("query", "key", "value", "attn_mask", "is_causal", "scale")
    if not settings.force:
        theirs = partial(F.scaled_dot_product_attention, enable_gqa=now["enable_gqa"])
        if not is_quicker(f"attention {now['enable_gqa']}", by_kernels, _by_name(theirs),
                          tuple(now[name] for name in names), result.requires_grad):
            return
    replace(graph, node, by_kernels, tuple(given.arguments[name] for name in names))


def _by_name(function: Callable) -> Callable:
    return lambda query, key, value, attn_mask, is_causal, scale: function(
        query, key, value, attn_mask=attn_mask, is_causal=is_causal, scale=scale)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str) -> Tensor:
    """act(x weight^T + bias), x of any number of dimensions, in one launch of the GEMM."""
    rows = x.reshape(-1, x.shape[-1])
    added, beta = (x.new_zeros(()), 0.0) if bias is None else (bias, 1.0)
    return ops.addmm(added, rows, weight.t(), beta=beta, activation=activation).reshape(*x.shape[:-1], weight.shape[0])


def _by_torch(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str) -> Tensor:
    return ACTIVATIONS[activation](F.linear(x, weight, bias))


def _activation(node: Node) -> str | None:
    """The name that `ops.addmm` has for what a node computes, or None."""
    given = node.args
    if node.op not in ("call_method", "call_function") or len(given) != 1:
        return None
    if node.op == "call_method":
        return "relu" if node.target == "relu" and not node.kwargs else None
    options = dict(node.kwargs)
    if node.target is F.gelu:
        kind = options.pop("approximate", "none")
        return None if options else {"none": "gelu", "tanh": "gelu_tanh"}.get(kind)
    if node.target in (F.silu, torch._C._nn.silu):
        return None if options.pop("inplace", False) or options else "silu"
    if node.target in (F.relu, torch.relu):
        return None if options.pop("inplace", False) or options else "relu"
    return None


def _epilogue(graph: Graph, node: Node, activation: str, settings: Settings) -> None:
    """One launch of ours for both. If the graph needs a derivative, torch's way stays: ours would compute the product again."""
    before = next(iter(node.args))
    if not isinstance(before, Node) or before.op != "call_function" or before.target is not F.linear or len(before.users) != 1:
        return
    given = dict(zip(("x", "weight", "bias"), before.args)) | {
        "x" if name == "input" else name: one for name, one in before.kwargs.items()}
    given.setdefault("bias", None)
    now = {name: _value(one) for name, one in given.items()}
    result = _value(node)
    tensors = [one for one in now.values() if one is not None]
    if len(tensors) != 3 - (given["bias"] is None) or not isinstance(result, Tensor) or result.requires_grad:
        return
    if {one.dtype for one in tensors} != {result.dtype} or result.dtype not in TYPES or now["weight"].dim() != 2:
        return
    if {one.device for one in tensors} != {result.device} or result.device.type not in settings.devices:
        return
    if not settings.force and not is_quicker("epilogue", linear, _by_torch, (*(now[name] for name in ("x", "weight", "bias")),
                                                                             activation)):
        return
    replace(graph, node, linear, (given["x"], given["weight"], given["bias"], activation))
    graph.erase_node(before)


def _value(one: Any) -> Any:
    """The tensor, or number, that Dynamo has recorded for a node; what is no node is itself."""
    return one.meta.get("example_value") if isinstance(one, Node) else one


__all__ = ["Calls", "linear"]
