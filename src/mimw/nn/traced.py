"""Modules of mimw in graphs of torch.fx: leaves, as those of torch.nn, whose `forward` may look at shapes and types.

Input: a `forward`, or a function of tensors. Output: the same, which is one node of a graph that torch.fx traces. For example:

    class Norm(torch.nn.Module):
        @leaf
        def forward(self, x): ...                   call_module in the graph of torch.fx.symbolic_trace(model)

    @leaf_function
    def loss(hidden, weight, target): ...           call_function

torch.fx's own tracer takes modules of the package torch.nn alone for leaves, and asks the tracer, not the module.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from torch.fx import Proxy
from torch.fx.proxy import TraceError

P, R = ParamSpec("P"), TypeVar("R")


def leaf(forward: Callable[P, R]) -> Callable[P, R]:
    """The method of a module that is one node where an argument is a variable of a graph that torch.fx traces.

    errors:    TraceError, torch's, for a module that is traced by itself
    """
    @wraps(forward)
    def in_graphs(self, *args: Any, **named: Any):
        proxy = _proxy(args, named)
        if proxy is None:
            return forward(self, *args, **named)
        if proxy.tracer.root is self:
            raise TraceError(f"{type(self).__name__} of mimw is one node in a graph of torch.fx, and cannot be the graph itself: "
                             "trace a module that has it, as torch.nn.Sequential(layer)")
        return proxy.tracer.create_proxy("call_module", proxy.tracer.path_of_module(self), args, named)

    return in_graphs


def leaf_function(function: Callable[P, R]) -> Callable[P, R]:
    """The function, which is one node where an argument is a variable of a graph that torch.fx traces."""
    @wraps(function)
    def in_graphs(*args: Any, **named: Any):
        proxy = _proxy(args, named)
        if proxy is None:
            return function(*args, **named)
        return proxy.tracer.create_proxy("call_function", in_graphs, args, named)

    return in_graphs


def _proxy(args: tuple, named: dict[str, Any]) -> Proxy | None:
    for one in (*args, *named.values()):
        if isinstance(one, Proxy):
            return one
    return None


__all__ = ["leaf", "leaf_function"]
