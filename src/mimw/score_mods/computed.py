"""A score_mod computed by torch, for what no kernel of ours takes, and for whoever compares.

Input: expressions, scores and indices. Output: tensors. For example:

    value, slope = computed([root, derivative(root)], scores, (batches, heads, queries, keys), tables)

As in kernels, whole numbers have 64 bits, and a score is NaN where an index is beyond its table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .nodes import BOOL, FLOAT, INT, NARROW, Node, in_order

_FUNCTIONS: dict[str, Callable] = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "neg": torch.neg, "abs": torch.abs,
    "min": torch.minimum, "max": torch.maximum, "floordiv": torch.floor_divide, "mod": torch.remainder, "and": torch.bitwise_and,
    "or": torch.bitwise_or, "xor": torch.bitwise_xor, "not": torch.bitwise_not, "lt": torch.lt, "le": torch.le, "eq": torch.eq,
    "ne": torch.ne, "where": torch.where,
    **{name: getattr(torch, name) for name in ("tanh", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sigmoid", "sin", "cos")}}


def computed(roots: Sequence[Node], score: Tensor, indices: Sequence[Tensor], tables: Sequence[Tensor],
             checked: bool = True) -> list[Tensor]:
    """The values of expressions, of which the first is a score's or a truth value, floats in the scores' type.

    args:      score     any float type
               indices   of batch, head, query and key: int64 on the scores' device, shapes that broadcast to the scores'
               checked   whether indices may be beyond tables; else they are torch's matter
    """
    types = {FLOAT: score.dtype, INT: torch.int64, BOOL: torch.bool}
    given, beyond = dict(zip("sbhqk", (score, *indices))), []
    found: dict[Node, Tensor] = {}
    for node in in_order(*roots):
        parts = [found[part] for part in node.parts]
        if node.op == "number":
            found[node] = score.new_full((), node.value, dtype=types[node.kind])
        elif node.op == "look":
            table = tables[node.value]
            found[node] = (_read(table, parts, beyond) if checked and parts else table[tuple(parts)]).to(types[node.kind])
        elif node.op in ("float", "int"):
            found[node] = parts[0].to(types[node.kind])
        elif node.op in NARROW:
            found[node] = parts[0].to(getattr(torch, node.op)).to(torch.int64)
        else:
            found[node] = given[node.op] if node.op in given else _FUNCTIONS[node.op](*parts)
    first, *more = (found[root] for root in roots)
    for one in beyond if first.is_floating_point() else ():
        first = torch.where(one, float("nan"), first)
    return [first, *more]


def _read(table: Tensor, indices: list[Tensor], beyond: list[Tensor]) -> Tensor:
    placed = []
    for index, extent in zip(indices, table.shape):
        index = torch.where(index < 0, index + extent, index)
        beyond.append((index < 0) | (index >= extent))
        placed.append(index.clamp(0, extent - 1))
    return table[tuple(placed)]


__all__ = ["computed"]
