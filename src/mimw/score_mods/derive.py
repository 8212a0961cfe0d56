"""The derivative of a score_mod with respect to the score.

Input: an expression (nodes.py). Output: the expression of its derivative. For example:

    derivative(parsed("tanh(s / 30.0) * 30.0"))         1 - tanh(s / 30)^2, as it is written below
    derivative(parsed("where(k <= q, s, -inf)"))        where(k <= q, 1.0, 0.0)

At a kink it is what torch's autograd has: 0 of abs at 0, the mean of both of equal numbers under min and max, that of x at the
bound of a clamp. Where `where` chooses a value, it chooses that value's derivative, so what the other one has, a division by 0
perhaps, counts nowhere.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log

from .nodes import FLOAT, SCORE, Node, in_order, make, number

ZERO, ONE, HALF = number(0.0), number(1.0), number(0.5)


def derivative(root: Node) -> Node:
    """The derivative."""
    found: dict[Node, Node] = {}
    for node in in_order(root):
        inner = [found.get(part, ZERO) for part in node.parts]
        if node is SCORE:
            found[node] = ONE
        elif node.kind == FLOAT and any(one is not ZERO for one in inner):
            found[node] = _RULES[node.op](node, *node.parts, *inner)
    return found.get(root, ZERO)


def _plus(x: Node, y: Node) -> Node:
    return y if x is ZERO else x if y is ZERO else make("add", x, y)


def _minus(x: Node, y: Node) -> Node:
    return x if y is ZERO else make("neg", y) if x is ZERO else make("sub", x, y)


def _times(x: Node, y: Node) -> Node:
    """The product of a factor, first, and a derivative."""
    return ZERO if y is ZERO else x if y is ONE else y if x is ONE else make("mul", x, y)


def _divided(node: Node, x: Node, y: Node, dx: Node, dy: Node) -> Node:
    first = ZERO if dx is ZERO else make("div", dx, y)
    return first if dy is ZERO else _minus(first, _times(make("div", node, y), dy))


def _chosen(smaller: str) -> Callable:
    """Of `min` and `max`: the derivative of the one that is taken, of equal ones the mean."""
    def rule(node: Node, x: Node, y: Node, dx: Node, dy: Node) -> Node:
        is_first = make("lt", x, y) if smaller == "first" else make("lt", y, x)
        return make("where", make("eq", x, y), _times(HALF, _plus(dx, dy)), make("where", is_first, dx, dy))

    return rule


def _of(factor: Callable[[Node, Node], Node]) -> Callable:
    """The rule of a function whose derivative is `factor(its value, its argument)`."""
    return lambda node, x, dx: _times(factor(node, x), dx)


def _square(x: Node) -> Node:
    return make("mul", x, x)


_RULES: dict[str, Callable] = {
    "add": lambda node, x, y, dx, dy: _plus(dx, dy),
    "sub": lambda node, x, y, dx, dy: _minus(dx, dy),
    "mul": lambda node, x, y, dx, dy: _plus(_times(y, dx), _times(x, dy)),
    "div": _divided,
    "neg": lambda node, x, dx: make("neg", dx),
    "abs": lambda node, x, dx: make("where", make("lt", ZERO, x), dx, make("where", make("lt", x, ZERO), make("neg", dx), ZERO)),
    "min": _chosen("first"), "max": _chosen("second"),
    "where": lambda node, condition, x, y, _, dx, dy: make("where", condition, dx, dy),
    "tanh": _of(lambda y, x: make("sub", ONE, _square(y))),
    "sigmoid": _of(lambda y, x: make("mul", y, make("sub", ONE, y))),
    "exp": _of(lambda y, x: y),
    "exp2": _of(lambda y, x: make("mul", y, number(log(2)))),
    "log": _of(lambda y, x: make("div", ONE, x)),
    "log2": _of(lambda y, x: make("div", number(1 / log(2)), x)),
    "sqrt": _of(lambda y, x: make("div", HALF, y)),
    "rsqrt": _of(lambda y, x: make("mul", number(-0.5), make("div", y, x))),
    "sin": _of(lambda y, x: make("cos", x)),
    "cos": _of(lambda y, x: make("neg", make("sin", x))),
}


__all__ = ["derivative"]
