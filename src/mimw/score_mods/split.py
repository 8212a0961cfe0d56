"""A mask as a window, and what no window says.

Input: an expression of a truth value. Output: bounds of q - k, and the rest. For example:

    split(parsed("(k <= q) & (i0[q] == i0[k])"), box)           (0, None, "i0[q] == i0[k]"): least <= q - k <= most
    hidden(SCORE, parsed("i0[q] == i0[k]"))                     "where(i0[q] == i0[k], s, -inf)"

Kernels leave out blocks of keys that a window hides, and compute what other conditions hide.
"""

from __future__ import annotations

from math import inf

from .nodes import BOOL, Node, make, number
from .ranges import Box

Linear = dict[str, int]         # of b, h, q, k and "1": factors of a sum


def hidden(score: Node, seen: Node) -> Node:
    """The score, -inf where it is not seen."""
    return make("where", seen, score, number(-inf))


def split(mask: Node, box: Box) -> tuple[int | None, int | None, Node]:
    """(least, most, rest): a mask is least <= q - k <= most, None for no bound, and the rest. `box` is that of a call."""
    least, most, rest = [], [], number(True)
    for part in _joined(mask):
        bounds = _bounds(part)
        if bounds is None:
            rest = make("and", rest, part)
        else:
            least += [bounds[0]] * (bounds[0] is not None)
            most += [bounds[1]] * (bounds[1] is not None)
    lowest, highest = max(least, default=1 - box.keys), min(most, default=box.queries - 1)
    return lowest if lowest > 1 - box.keys else None, highest if highest < box.queries - 1 else None, rest


def _joined(mask: Node) -> list[Node]:
    """Conditions that all hold where the mask does."""
    found, todo = [], [mask]
    while todo:
        node = todo.pop()
        inner = node.parts[0] if node.op == "not" and node.kind == BOOL else None
        if node.op == "and" and node.kind == BOOL:
            todo += reversed(node.parts)
        elif inner is not None and inner.op == "or":
            todo += [make("not", part) for part in reversed(inner.parts)]
        elif node.op in ("lt", "le") and node.parts[0].op == "abs":
            (inside, ), limit = node.parts[0].parts, node.parts[1]
            todo += [make(node.op, make("neg", inside), limit), make(node.op, inside, limit)]
        else:
            found.append(node)
    return found


def _bounds(condition: Node) -> tuple[int | None, int | None] | None:
    """(least, most) of q - k where a condition is that, and nothing else."""
    if condition.op not in ("lt", "le"):
        return None
    low, high = (linear(part) for part in condition.parts)
    if low is None or high is None:
        return None
    apart = {name: high[name] - low[name] for name in high}
    step, constant = apart["q"], apart["1"] - (condition.op == "lt")        # step (q - k) + constant >= 0
    if apart["b"] or apart["h"] or step != -apart["k"] or not step:
        return None
    return (-(constant // step), None) if step > 0 else (None, constant // -step)


def linear(node: Node) -> Linear | None:
    """A whole number as a sum of indices times constants, or None."""
    parts = [linear(part) for part in node.parts]
    if None in parts:
        return None
    match node.op, parts:
        case ("b" | "h" | "q" | "k"), _:
            return {name: int(name == node.op) for name in "bhqk1"}
        case "number", _ if type(node.value) is int:
            return {name: node.value * (name == "1") for name in "bhqk1"}
        case "add", [x, y]:
            return {name: x[name] + y[name] for name in x}
        case "sub", [x, y]:
            return {name: x[name] - y[name] for name in x}
        case "neg", [x]:
            return {name: -x[name] for name in x}
        case "mul", [x, y]:
            for factor, other in ((x, y), (y, x)):
                if not any(factor[name] for name in "bhqk"):
                    return {name: factor["1"] * other[name] for name in other}
    return None


__all__ = ["hidden", "linear", "split"]
