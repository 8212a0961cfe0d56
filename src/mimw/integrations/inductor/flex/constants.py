"""Tensors of a graph that depend on none of its inputs, computed while it is compiled.

Input: nodes, and a node that reads them. Output: real tensors, or None where an input, or anything that is not known here, has a
part in one. For example, where the compiled function itself calls create_block_mask:

    constants([kv_num_blocks, kv_indices], flex)        [tensor([[[1, 2, 3]]]), tensor(...)]

`create_block_mask` is recorded as some hundred nodes, with torch.vmap's levels between them; `_NAMES` has all that it calls.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from torch.fx import Node
from torch.fx.node import map_arg

from ..torch_versions import FLEX, VMAP_LEVELS, recorded_functions, with_real_tensors

_VIEWS = frozenset("unsqueeze squeeze transpose permute view reshape expand contiguous broadcast_to broadcast_tensors to float int "
                   "long bool getitem _add_batch_dim _remove_batch_dim".split())
_NAMES = _VIEWS | frozenset(
    "ones zeros full new_ones new_zeros new_full arange tensor pad sum all any argsort sort where ge gt le lt eq ne add sub mul "
    "neg abs and_ or_ invert logical_and logical_or logical_not bitwise_and bitwise_or bitwise_not size dim numel clone full_like "
    "ones_like zeros_like scalar_tensor max min truediv floordiv mod".split())
_NAMES |= {f"__{name}__" for name in "and or invert ge gt le lt eq ne add sub mul neg abs truediv floordiv mod".split()}
_FUNCTIONS = frozenset(recorded_functions(_NAMES))


def constants(wanted: Sequence[Node], reader: Node) -> list[Any] | None:
    """The values of `wanted` as `reader`, a later node of the graph, sees them."""
    before = _before(reader)
    free: set[Node] = set()
    for node in before:
        if node.op in ("call_function", "call_method") and all(one in free for one in node.all_input_nodes):
            free.add(node)
    needed = _needed(wanted, before, free)
    if needed is None:
        return None
    values: dict[Node, Any] = {}
    with with_real_tensors():
        for node in before:
            if node in needed or _name(node) in VMAP_LEVELS:
                given, options = (map_arg(part, values.__getitem__) for part in (node.args, node.kwargs))
                values[node] = getattr(given[0], node.target)(*given[1:], **options) if node.op == "call_method" \
                    else node.target(*given, **options)
        return [values[node] for node in wanted]


def _before(reader: Node) -> list[Node]:
    found = []
    for node in reader.graph.nodes:
        if node is reader:
            break
        found.append(node)
    return found


def _needed(wanted: Sequence[Node], before: list[Node], free: set[Node]) -> set[Node] | None:
    """All nodes that `wanted` are made of, and what writes into them; None if one is not free, or of no known effect."""
    needed, found = set(), list(wanted)
    places = set(before)
    while found:
        node = found.pop()
        if node in needed:
            continue
        if node not in free or not _is_pure(node) and node.target is not operator.setitem:
            return None
        needed.add(node)
        found.extend(node.all_input_nodes)
        for user in node.users:
            if user in places and user not in needed and not _only_reads(user):
                found.append(user)      # it may write, now or through a view
    return needed


def _only_reads(node: Node) -> bool:
    """True if nothing is written by the node, nor through what it gives."""
    return node.target is FLEX or _is_pure(node) and _name(node) not in _VIEWS


def _is_pure(node: Node) -> bool:
    known = node.target in _NAMES if node.op == "call_method" else node.target in _FUNCTIONS
    return known and "out" not in node.kwargs


def _name(node: Node) -> str:
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")


__all__ = ["constants"]
