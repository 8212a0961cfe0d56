"""A function of torch is recorded for one score, and what it computed becomes an expression.

Input: `function(score, batch, head, q_idx, kv_idx)`, the signature of torch's flex attention, and tensors behind these if it takes
any. Output: an expression, and the tensors that it reads. For example:

    root, tables = traced(lambda score, b, h, q, k: score + bias[h, q - k + n])     "s + f0[h, q - k + 7]", (bias, )

torch runs the function once, with a float32 and four int64 of no dimensions and without data, and notes each of its own operations;
rules.py says which expression each is. What else it computes, asks for, or changes in place, is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph
from torch.fx import Node as Call
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes

from ..errors import ScoreModError
from .nodes import BOOL, FLOAT, INDICES, SCORE, Node
from .rules import TableRead, called, constant

MOST_CALLS = 500        # operations of a function
_GIVEN = (SCORE, *INDICES.values())


class _Indices(TorchFunctionMode):
    """Inside, `x[i]` reads at whole numbers of no dimensions without asking for their values."""

    def __torch_function__(self, function: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        if function is Tensor.__getitem__:
            table, index = args
            index = index if isinstance(index, tuple) else (index, )
            if all(type(one) is int or isinstance(one, Tensor) and not one.dim() for one in index):
                index = [one if isinstance(one, Tensor) else torch.full((), one, dtype=torch.int64, device=table.device)
                         for one in index]
                return torch.ops.aten.index.Tensor(table, index)
        return function(*args, **(kwargs or {}))


def traced(function: Callable, device: torch.device | str = "cpu",
           more: Sequence[Tensor] = ()) -> tuple[tuple[Node, ...], list[Any]]:
    """The expressions of its results, and the tensors that they read, in the order of their numbers.

    args:      function  of a score and four indices, and of tensors like those in `more`, of which only shapes and types are read
               device    of the tensors that it reads
    returns:   one expression, or those of a tuple; of a tensor among `more`, its number in there in place of the tensor
    errors:    ScoreModError with the reason
    """
    try:
        with _disable_current_modes(), FakeTensorMode(allow_non_fake_inputs=True):
            given = [torch.empty((), dtype=torch.float32 if one is SCORE else torch.int64, device=device) for one in _GIVEN]
            given += [torch.empty(one.shape, dtype=one.dtype, device=device) for one in more]
        with _disable_current_modes(), _Indices(), torch.no_grad():
            made = make_fx(lambda *given: function(*given), tracing_mode="fake", _allow_non_fake_inputs=True)(*given)
    except Exception as error:
        raise ScoreModError(f"a score_mod could not be recorded for one score: {type(error).__name__}: "
                            f"{str(error).strip().splitlines()[0] if str(error).strip() else ''}",
                            hint="it is called with tensors of no dimensions and without data: a Python `if`, float() or .item() "
                            "of these has no answer; choose by torch.where") from error
    made.graph.eliminate_dead_code()
    return _read(made.graph, made)


def _read(graph: Graph, owner: torch.nn.Module) -> tuple[tuple[Node, ...], list[Any]]:
    values: dict[Call, Any] = {}
    tables: list[Any] = []
    given, numbers = iter(_GIVEN), count()
    if len(graph.nodes) > MOST_CALLS:
        raise ScoreModError(f"a score_mod of {len(graph.nodes)} operations is longer than {MOST_CALLS}")
    for call in graph.nodes:
        if call.op == "placeholder":
            values[call] = next(given, None) or TableRead(call.meta["val"], next(numbers))
        elif call.op == "get_attr":
            values[call] = TableRead(getattr(owner, call.target), getattr(owner, call.target))
        elif call.op == "output":
            return _results(call, values), tables
        else:
            values[call] = _called(call, values, tables)
    raise ScoreModError("a score_mod gives no result")


def _called(call: Call, values: dict[Call, Any], tables: list[Any]) -> Any:
    schema = getattr(call.target, "_schema", None)
    if schema is None:
        raise ScoreModError(f"a score_mod computes with {call.target}, which is no operation of torch's")
    given, named = (map_arg(part, values.__getitem__) for part in (call.args, call.kwargs))
    by_name = {**dict(zip((one.name for one in schema.arguments), given)), **named}
    result = call.meta["val"]
    name = schema.name.removeprefix("aten::")
    if name in ("lift_fresh_copy", "lift_fresh") and isinstance(by_name["self"], TableRead):
        return constant(by_name["self"])
    if not isinstance(result, Tensor) or result.dim():
        raise ScoreModError(f"a score_mod computes with {name}, whose result is no single number")
    types = [one.meta["val"].dtype for one in call.all_input_nodes]
    return called(name, by_name, result.dtype, types, tables)


def _results(call: Call, values: dict[Call, Any]) -> tuple[Node, ...]:
    (made, ) = map_arg(call.args, values.get)
    made = made if isinstance(made, (tuple, list)) else (made, )
    if not all(isinstance(one, Node) and one.kind in (FLOAT, BOOL) for one in made) \
            or any(one.meta["val"].dtype not in (torch.float32, torch.bool) for one in call.all_input_nodes):
        raise ScoreModError("a score_mod's result is no float32 tensor of no dimensions")
    return tuple(made)


__all__ = ["traced"]
