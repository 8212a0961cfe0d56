"""Expressions of a score_mod: numbers, truth values and whole numbers, each node once.

Input: an operation and its parts. Output: a `Node`, the same one for the same expression. For example:

    cap = make("mul", make("tanh", make("div", SCORE, number(30.0))), number(30.0))     30 tanh(score / 30)
    make("lt", INDICES["k"], INDICES["q"])      true for keys before a query
    lookup("f", 0, (INDICES["h"], ))            the float of table 0 of a head

A float is one of fp32, a whole number is exact in 64 bits. Kinds never change by themselves: `float(q)` is an operation.
"""

from __future__ import annotations

from weakref import WeakValueDictionary

import numpy as np

from ..errors import ScoreModError

FLOAT, INT, BOOL = "float", "int", "bool"
KINDS = {"f": FLOAT, "i": INT, "b": BOOL}       # of tables, by the letter in front of their number
UNARY = ("tanh", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sigmoid", "sin", "cos")
NARROW = {"int32": 32, "int16": 16, "int8": 8, "uint8": 8}      # what a whole number keeps of its bits, as torch's types have it
COMPARED = ("lt", "le", "eq", "ne")
# Operation -> (kinds that its parts may have, all the same one; how many parts). `where`, `look` and casts have rules of their own.
_RULES = {
    **{name: ((FLOAT, INT), 2) for name in ("add", "sub", "mul", "min", "max", *COMPARED)}, "div": ((FLOAT, ), 2),
    **{name: ((INT, ), 2) for name in ("floordiv", "mod")}, **{name: ((INT, BOOL), 2) for name in ("and", "or", "xor")},
    **{name: ((FLOAT, INT), 1) for name in ("neg", "abs")}, "not": ((INT, BOOL), 1),
    **{name: ((FLOAT, ), 1) for name in UNARY}, **{name: ((INT, ), 1) for name in NARROW},
    "float": ((INT, BOOL), 1), "int": ((BOOL, ), 1)}
_OPPOSITE = {"lt": "le", "le": "lt", "eq": "ne", "ne": "eq"}      # of whole numbers, among which there is no NaN
_RESULTS = {**dict.fromkeys(COMPARED, BOOL), "float": FLOAT, "int": INT}
_KNOWN: WeakValueDictionary[tuple, Node] = WeakValueDictionary()


class Node:
    """An operation `op` on `parts`, with a result of `kind`; of a number its `value`, of a look-up the table's number."""

    __slots__ = "op", "parts", "value", "kind", "__weakref__"

    def __init__(self, op: str, parts: tuple[Node, ...], value: float | None, kind: str):
        self.op, self.parts, self.value, self.kind = op, parts, value, kind

    def __repr__(self) -> str:
        return f"Node({self.op}, {self.kind})"


def _node(op: str, parts: tuple[Node, ...], value: float | None, kind: str) -> Node:
    key = op, kind, repr(value), *map(id, parts)        # a node holds its parts, so that no other one gets their ids
    found = _KNOWN.get(key)
    if found is None:
        found = _KNOWN[key] = Node(op, parts, value, kind)
    return found


SCORE = _node("s", (), None, FLOAT)
INDICES = {name: _node(name, (), None, INT) for name in "bhqk"}     # batch, head, query, key


def number(value: float | int | bool) -> Node:
    """A constant of the kind that Python's number has; a float is rounded to fp32.

    errors:    ScoreModError for a whole number of more than 64 bits
    """
    if isinstance(value, bool):
        return _node("number", (), value, BOOL)
    if isinstance(value, int):
        if not -1 << 63 <= value < 1 << 63:
            raise ScoreModError(f"a score_mod has the whole number {value}, which 64 bits do not hold")
        return _node("number", (), value, INT)
    with np.errstate(over="ignore"):
        return _node("number", (), float(np.float32(value)), FLOAT)


def lookup(letter: str, table: int, indices: tuple[Node, ...]) -> Node:
    """An element of a table of floats, whole numbers or truth values (`KINDS`), by a whole number for each of its dimensions."""
    if any(one.kind != INT for one in indices):
        raise ScoreModError("a score_mod reads a tensor at something that is no whole number")
    return _node("look", indices, table, KINDS[letter])


def make(op: str, *parts: Node) -> Node:
    """An operation.

    errors:    ScoreModError for an operation that there is not, or parts of other kinds than it takes
    """
    if op == "where":
        if len(parts) != 3 or parts[0].kind != BOOL or parts[1].kind != parts[2].kind:
            raise ScoreModError("a score_mod's where takes a truth value and two values of one kind, not " + _kinds(parts))
        condition, first, second = parts
        if condition.op == "number":
            return first if condition.value else second
        return first if first is second else _node(op, parts, None, first.kind)
    kinds, count = _RULES.get(op, ((), 0))
    if len(parts) != count or not kinds or {one.kind for one in parts} not in [{kind} for kind in kinds]:
        raise ScoreModError(f"a score_mod has {op!r} of {_kinds(parts)}, which there is not")
    return _folded(op, parts) or _node(op, parts, None, _RESULTS.get(op, parts[0].kind))


def _kinds(parts: tuple[Node, ...]) -> str:
    return ", ".join(one.kind for one in parts) or "nothing"


_OF_BOTH = {"add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "lt": lambda x, y: x < y,
            "le": lambda x, y: x <= y, "eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "neg": lambda x: -x, "abs": abs}
_OF_WHOLE = {**_OF_BOTH, "float": float, "int": int, "floordiv": lambda x, y: x // y, "mod": lambda x, y: x % y, "min": min,
             "max": max, "and": lambda x, y: x & y, "or": lambda x, y: x | y, "xor": lambda x, y: x ^ y, "not": lambda x: ~x}
_OF_FLOATS = {**_OF_BOTH, "div": lambda x, y: x / y, "min": np.minimum, "max": np.maximum, "rsqrt": lambda x: 1 / np.sqrt(x),
              "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
              **{name: getattr(np, name) for name in UNARY if name not in ("rsqrt", "sigmoid")}}


def _folded(op: str, parts: tuple[Node, ...]) -> Node | None:
    """A simpler expression, or None: operations on constants are computed, those on floats in fp32, as torch does."""
    if op in ("and", "or") and parts[0].kind == BOOL:
        for one, other in (parts, parts[::-1]):
            if one.op == "number":
                return other if one.value == (op == "and") else one
    if op == "not" and parts[0].op in _OPPOSITE and parts[0].parts[0].kind == INT:
        return make(_OPPOSITE[parts[0].op], *(parts[0].parts if parts[0].op in ("eq", "ne") else reversed(parts[0].parts)))
    if op == "not" and parts[0].op == "not":
        return parts[0].parts[0]
    if any(one.op != "number" for one in parts):
        return None
    values = [one.value for one in parts]
    if parts[0].kind == FLOAT:
        with np.errstate(all="ignore"):
            found = _OF_FLOATS[op](*map(np.float32, values))
        return number(bool(found) if op in COMPARED else float(found))
    if op == "not" and parts[0].kind == BOOL:
        return number(not values[0])
    if op not in _OF_WHOLE or op in ("floordiv", "mod") and not values[1]:
        return None
    found = _OF_WHOLE[op](*values)
    return number(found) if isinstance(found, bool | float) or -1 << 63 <= found < 1 << 63 else None


def in_order(*roots: Node) -> list[Node]:
    """All nodes of these expressions, parts before what is made of them."""
    found: dict[Node, None] = {}
    todo = [(root, False) for root in reversed(roots)]
    while todo:
        node, done = todo.pop()
        if node in found:
            continue
        if done:
            found[node] = None
        else:
            todo.append((node, True))
            todo.extend((part, False) for part in reversed(node.parts))
    return list(found)


__all__ = ["BOOL", "COMPARED", "FLOAT", "INDICES", "INT", "KINDS", "NARROW", "Node", "SCORE", "UNARY", "in_order", "lookup", "make",
           "number"]
