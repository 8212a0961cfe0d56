"""A score_mod or a mask_mod, as torch.compile records it, is read for all queries and keys at once.

Input: the graph of the function, what it reads, and extents. Output: its value (values.py). For example:

    read(graph, (Score(), *INDICES), Box(1, 8, 512, 512))       Score(seen=Seen((Whole(query=1, key=-1),))): causal
    read(graph of q_idx % 2 == 0, INDICES, box)                 raises Unknown("it computes with mod, ...")

Each function that a graph may call has its meaning here. Any other one is an error, `Unknown`, and so is one that has no meaning
for the values that it is given. Functions that change a tensor in place are not among them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Graph, Node

from .arithmetic import absolute, add, as_float, compared, divide, multiply, negative, per_head, tanh
from .values import NEVER, Box, Buffer, Hidden, Masked, PerHead, Score, Seen, Slopes, Term, Unknown, Whole, condition

INDICES = Whole(batch=1), Whole(head=1), Whole(query=1), Whole(key=1)
_LOWEST = float("-inf")
_WHOLE_TYPES = (torch.int32, torch.int64)


def read(graph: Graph, given: tuple, box: Box) -> Any:
    """The value of a graph's result, or Unknown."""
    values: dict[Node, Any] = {}
    inputs = iter(given)
    for node in graph.nodes:
        if node.op == "placeholder":
            values[node] = next(inputs)
        elif node.op in ("call_function", "call_method"):
            values[node] = _called(node, values, box)
        elif node.op == "output":
            return next(iter(torch.fx.node.map_arg(node.args, values.get)))
        else:
            raise Unknown(f"it reads {node.target}")
    raise Unknown("it has no result")


def _called(node: Node, values: dict[Node, Any], box: Box) -> Any:
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
    meaning = _METHODS.get(name) if node.op == "call_method" else _FUNCTIONS.get(node.target)
    if meaning is None:
        raise Unknown(f"it computes with {name}, which no option of ops.attention has")
    given, options = (torch.fx.node.map_arg(part, values.get) for part in (node.args, node.kwargs))
    try:
        value = meaning(box, *given, **options)
    except TypeError as other:
        raise Unknown(f"it calls {name} in a form that is not known: {other}") from other
    inner = getattr(value, "of", value)
    for whole in inner.conditions if isinstance(inner, Seen) else (inner, ):
        if isinstance(whole, Whole) and max(map(abs, whole.ends(box))) >= 1 << 31:
            raise Unknown("its whole numbers may be more than 32 bits have")
    return value


def _not(box: Box, x: Any) -> Seen | Hidden:
    if isinstance(x, Hidden):
        return x.of
    x = condition(x)
    if x.constant is not None:
        return NEVER if x.constant else Seen()
    match x.conditions:
        case (one, ):
            return Seen((one.times(-1).plus(Whole(constant=-1)), ))
    return Hidden(x)


def _and(box: Box, x: Any, y: Any) -> Seen:
    return condition(x).both(condition(y))


def _or(box: Box, x: Any, y: Any) -> Seen | Hidden:
    for one, other in ((x, y), (y, x)):
        if isinstance(one, bool) or isinstance(one, Seen) and one.constant is not None:
            return Seen() if one is True or one is not False and one.constant else other
    return _not(box, _and(box, _not(box, x), _not(box, y)))


def _where(box: Box, seen: Any, x: Any, y: Any) -> Any:
    if _is(x, _LOWEST):
        seen, x, y = _not(box, seen), y, x
    seen = condition(seen)
    if seen.constant is not None:
        return x if seen.constant else y
    if not _is(y, _LOWEST):
        raise Unknown("it chooses between two scores; ops.attention knows a score or -inf")
    if isinstance(x, Score):
        return x.without(seen)
    if _is(x, 0):
        return Masked(seen)
    raise Unknown("it chooses between -inf and something that is no score")


def _masked_fill(box: Box, x: Any, mask: Any, value: Any) -> Any:
    return _where(box, mask, value, x)


def _is(x: Any, number: float) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool) and x == number


def _to(box: Box, x: Any, dtype: Any = None) -> Any:
    """A type that keeps each value of x."""
    if isinstance(x, PerHead) and dtype in (torch.float32, *_WHOLE_TYPES):
        return PerHead(x.values.to(dtype))
    if isinstance(x, Whole) and dtype in _WHOLE_TYPES:
        return x
    if isinstance(x, Whole) and dtype is torch.float32 and max(map(abs, x.ends(box))) <= 1 << 24:
        return as_float(box, x)
    if isinstance(x, (Score, Term, Slopes, Masked)) and dtype is torch.float32:
        return x
    raise Unknown(f"it converts something to {dtype}")


def _item(box: Box, x: Any, index: Any) -> Slopes:
    index = next(iter(index)) if isinstance(index, tuple) and len(index) == 1 else index
    if not isinstance(x, Buffer) or index != Whole(head=1):
        raise Unknown("it reads a tensor, other than a slope of each head")
    if x.example.shape != (box.heads,) or x.example.dtype is not torch.float32:
        raise Unknown(f"it reads a tensor of {x.example.dtype} {tuple(x.example.shape)}; slopes are float32 ({box.heads},)")
    if x.example.requires_grad:
        raise Unknown("a tensor that it reads requires a gradient, which ops.attention does not give")
    return Slopes(x.number)


def _new(value: bool) -> Callable:
    def made(box: Box, x: Any, size: tuple = (), *, dtype: Any = None, device: Any = None) -> Seen:
        if tuple(size) != () or dtype is not torch.bool:
            raise Unknown("it makes a tensor")
        return Seen() if value else NEVER

    return made


def _of_heads(function: Callable) -> Callable:
    """A function of numbers for heads alone: torch itself computes them, all heads at once."""
    return lambda box, *given: PerHead(function(*(per_head(box, one) for one in given)))


def _both(function: Callable, *names: str) -> None:
    for one in (getattr(torch, name, None) for name in names):
        if one is not None:
            _FUNCTIONS[one] = function
    for one in (getattr(operator, name, None) for name in names):
        if one is not None:
            _FUNCTIONS[one] = function
    _METHODS.update({form: function for name in names for form in (name, f"__{name.strip('_')}__")})


_FUNCTIONS: dict[Any, Callable] = {operator.getitem: _item, abs: absolute, pow: _of_heads(operator.pow)}
_METHODS: dict[str, Callable] = {
    "to": _to, "float": lambda box, x: _to(box, x, torch.float32), "int": lambda box, x: _to(box, x, torch.int32),
    "long": lambda box, x: _to(box, x, torch.int64), "new_ones": _new(True), "new_zeros": _new(False), "masked_fill": _masked_fill}
_both(add, "add")
_both(lambda box, x, y: add(box, x, negative(box, y)), "sub")
_both(multiply, "mul", "multiply")
_both(divide, "truediv", "div", "true_divide", "divide")
_both(negative, "neg", "negative")
_both(absolute, "abs")
_both(tanh, "tanh")
_both(_where, "where")
_both(_not, "logical_not", "bitwise_not", "invert", "inv")
_both(_and, "logical_and", "bitwise_and", "and_")
_both(_or, "logical_or", "bitwise_or", "or_")
for _name in ("ge", "gt", "le", "lt", "eq"):
    _both(compared(_name), _name)
for _name in ("exp", "exp2", "sqrt", "log", "log2", "reciprocal"):
    _both(_of_heads(getattr(torch, _name)), _name)
_both(_of_heads(operator.pow), "pow")


__all__ = ["INDICES", "read"]
