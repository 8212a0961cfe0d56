"""Matrix products of a graph that inductor lowers, forward or backward, become `mimw::matmul`, `addmm` and `grouped_matmul`.

Input: a graph of ATen operators, after autograd. Output: the same graph with calls of ours. For example:

    aten.mm.default(a, b)                           mimw.matmul.default(a, b)
    aten.addmm.default(bias, a, b, beta=2)          mimw.addmm.default(bias, a, b, 2, 1)
    aten._grouped_mm.default(a, b, ends)            mimw.grouped_matmul.default(a, b, ends)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node

from mimw import ops  # noqa: F401
from mimw.nn.fallback import TYPES

from .candidates import are_left
from .epilogue import replace_epilogues
from .graphs import arguments, replace
from .measured import is_quicker
from .settings import Settings
from .torch_versions import GraphPass, at_hints, is_autotuned
from .wholes import is_quicker_whole

_ATEN, _OURS = torch.ops.aten, torch.ops.mimw


class Products(GraphPass):
    """The pass behind autograd. `uuid` names the settings, so that inductor's caches keep graphs apart."""

    def __init__(self, settings: Settings):
        self.settings = settings

    def uuid(self) -> Any:
        return "mimw.integrations.inductor.products 2", self.settings.key()

    def __call__(self, graph: Graph) -> None:
        left = frozenset(_CHOSEN) if are_left(self.settings) else frozenset()
        if "epilogue" in self.settings.allow:
            replace_epilogues(graph, self.settings)
        for node in list(graph.nodes):
            rule = _RULES.get(node.target) if node.op == "call_function" else None
            if rule is None or node.target in left or rule[0] not in self.settings.allow or not _is_taken(node, self.settings):
                continue
            call = rule[1](**arguments(node))
            if call is not None and (self.settings.force or _wins(node, *call)):
                replace(graph, node, *call)


def _is_taken(node: Node, settings: Settings) -> bool:
    """True if the floating tensors have one type that ours take, on one device that the settings allow."""
    found = [one.meta.get("val") for one in node.all_input_nodes]
    if not all(isinstance(one, Tensor) for one in found):
        return False
    floats = {one.dtype for one in found if one.dtype.is_floating_point}
    devices = {one.device for one in found}
    others = {one.dtype for one in found if not one.dtype.is_floating_point} - {torch.int32}
    return (len(floats) == len(devices) == 1 and floats <= TYPES and not others and next(iter(devices)).type in settings.devices)


def _matmul(this: Node, mat2: Node, out_dtype: torch.dtype | None = None) -> tuple | None:
    if out_dtype is not None and out_dtype not in TYPES:
        return None
    return _OURS.matmul.default, (this, mat2, out_dtype)


def _addmm(this: Node, mat1: Node, mat2: Node, beta: Any, alpha: Any) -> tuple | None:
    if not isinstance(beta, (int, float)) or not isinstance(alpha, (int, float)):
        return None
    return _OURS.addmm.default, (this, mat1, mat2, float(beta), float(alpha))


def _grouped(this: Node, mat2: Node, offs: Node | None, bias: Node | None, out_dtype: torch.dtype | None) -> tuple | None:
    """Rows in groups times a matrix for each; torch's other forms, as that of the gradient of the matrices, stay."""
    of_rows = this.meta["val"].dim() == 2 and mat2.meta["val"].dim() == 3
    if not of_rows or offs is None or bias is not None or out_dtype is not None and out_dtype not in TYPES:
        return None
    return _OURS.grouped_matmul.default, (this, mat2, offs, out_dtype)


_RULES: dict[Any, tuple[str, Callable]] = {
    _ATEN.mm.default: ("mm", _matmul), _ATEN.bmm.default: ("bmm", _matmul), _ATEN.addmm.default: ("addmm", _addmm)}
_CHOSEN = tuple(_RULES)     # by inductor, where it times what there is
for _name, _rule in (("mm", ("mm", _matmul)), ("bmm", ("bmm", _matmul))):
    if "dtype" in getattr(_ATEN, _name).overloads():
        _RULES[getattr(_ATEN, _name).dtype] = _rule
if hasattr(_ATEN, "_grouped_mm"):
    _RULES[_ATEN._grouped_mm.default] = ("grouped_mm", _grouped)


def _wins(node: Node, ours: Callable, given: tuple) -> bool:
    """Both timed, with tensors in place of nodes."""
    if ours is _OURS.grouped_matmul.default:
        return _wins_grouped(node, ours, given)
    values = tuple(one.meta["val"] if isinstance(one, Node) else one for one in given)

    def theirs(*given: Any) -> Tensor:
        if ours is _OURS.addmm.default:
            return node.target(*given[:3], beta=given[3], alpha=given[4])
        return node.target(*given[:2], *(given[2:] if node.target._overloadname == "dtype" else ()))

    return is_quicker(str(node.target), ours, theirs, values)


def _wins_grouped(node: Node, ours: Callable, given: tuple) -> bool:
    """Both timed with equal groups, as inductor times its own choices, and where it does, under max-autotune: times depend on the
    sizes of groups."""
    if not is_autotuned():
        return False
    _, _, ends, _ = given

    def put(copy: Graph, of: dict[Node, Node]) -> None:
        replace(copy, of[node], ours, tuple(of.get(one, one) if isinstance(one, Node) else one for one in given))

    rows = at_hints(node.meta["val"]).shape[0]
    return is_quicker_whole(node, put, {ends: lambda empty: equal_groups(empty, rows)})


def equal_groups(ends: Tensor, rows: int) -> Tensor:
    """Ends of groups that are equal, but that they begin at multiples of eight rows, where there are so many."""
    count = ends.shape[0]
    found = [round(rows * (number + 1) / count / 8) * 8 for number in range(count - 1)]
    return torch.tensor([*found, rows], dtype=ends.dtype, device=ends.device)


__all__ = ["Products", "equal_groups"]
