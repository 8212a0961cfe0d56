"""A kernel's source as candidates of mends see it: each statement with its block and the names that it may use.

Input: a `KernelSource`. Output: a `Listing`. For example:

    listing = Listing(source)
    [spot.text for spot in listing.spots if spot.word == "barrier_wait"]        ["tlx.barrier_wait(full[slot], phase)", ...]
    listing.instead(node, "phase ^ 1")                                          the Edit that writes it for an expression

A statement's *word* is the word of TLX or TLE, or the method of a pipe, that it calls.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from ...errors import Edit
from .kernel_source import KernelSource

WAITS = ("barrier_wait", "wait", "acquire")
ARRIVES = ("barrier_arrive", "commit", "release")
GROUPS = ("async_load_commit_group", "async_load_wait_group", "async_dot_wait", "async_descriptor_store_wait")
FENCES = ("fence", "fence_async_shared")
PIPES = ("acquire", "commit", "release", "wait")
ASYNC = ("async_load", "async_dot", "async_descriptor_store")
MASKED = ("load", "store", "async_load")
COUNTED = ("alloc_barriers", "barrier_arrive")      # by a number of arrivals
SYNC = {*WAITS, *ARRIVES, *GROUPS, *FENCES, "barrier_expect_bytes"}
DATA = {"local_load", "local_store", "async_load", "async_descriptor_load", "async_descriptor_store", "async_dot", "load", "store",
        "copy"}


@dataclass(frozen=True, eq=False)
class Spot:
    """A simple statement: `block[index]` of `function`, inside of `loops`; `names` are those assigned in front of it, `task` is the
    innermost `with` around it."""

    function: str
    task: ast.With | None
    block: list[ast.stmt]
    index: int
    loops: tuple[ast.For, ...]
    names: frozenset[str]
    text: str

    @property
    def stmt(self) -> ast.stmt:
        return self.block[self.index]

    @property
    def call(self) -> ast.Call | None:
        """The call of a word, if the statement is one or assigns one's result."""
        value = self.stmt.value if isinstance(self.stmt, (ast.Expr, ast.Assign, ast.AugAssign)) else None
        value = value.value if isinstance(value, ast.Attribute) else value        # `reader.wait(i).slot`
        return value if isinstance(value, ast.Call) else None

    @property
    def word(self) -> str:
        return word_of(self.call)

    @property
    def bare(self) -> bool:
        """True if nothing uses a result of the statement."""
        return isinstance(self.stmt, ast.Expr)


def word_of(call: ast.AST | None) -> str:
    """The last name of what is called; "" of anything else."""
    function = getattr(call, "func", None)
    return function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""


def given(call: ast.Call) -> list[ast.expr]:
    """The arguments of a call by position."""
    return call.args


class Listing:

    def __init__(self, source: KernelSource):
        self.source, self.lines = source, source.text.splitlines()
        self.jitted = set(source.functions)
        self.spots: list[Spot] = []
        for name, node in source.functions.items():
            names = {arg.arg for arg in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
            self._walk(name, None, node.body, (), names)
        self.prefix = self._prefix()

    def _walk(self, function: str, task: ast.With | None, block: list[ast.stmt], loops: tuple, names: set[str]) -> None:
        for index, stmt in enumerate(block):
            self.spots.append(Spot(function, task, block, index, loops, frozenset(names), self.text(stmt)))
            inner = loops
            if isinstance(stmt, ast.For):
                names |= _bound(stmt.target)
                inner = (*loops, stmt)
            for body in (getattr(stmt, "body", None), getattr(stmt, "orelse", None)):
                if body:
                    own = set(names)
                    self._walk(function, stmt if isinstance(stmt, ast.With) else task, body, inner, own)
                    names |= set() if isinstance(stmt, ast.With) else own
            names |= {name for target in _targets(stmt) for name in _bound(target)}

    def _prefix(self) -> str:
        """The name under which the file has the words of TLX, with its dot: "tlx."."""
        for name, value in self.source.scope.items():
            if isinstance(value, ModuleType) and hasattr(value, "barrier_wait"):
                return f"{name}."
        return "" if "barrier_wait" in self.source.scope else "mimw.tlx."

    # ---- what there is ----------------------------------------------------------------------------------------------

    def text(self, node: ast.AST) -> str:
        """The source of a node, of one line."""
        if not isinstance(node, (ast.expr, ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign)):
            return ""
        return " ".join(self.whole(node).split())

    def at(self, line: int) -> str:
        """A line as reports name it."""
        return f"{self.source.path}:{line}"

    def words(self, *words: str) -> Iterator[Spot]:
        return (spot for spot in self.spots if spot.word in words)

    def interesting(self, stmt: ast.stmt) -> bool:
        """True if a statement synchronises, moves data or calls a function that may: a word may be missing in front of it."""
        if isinstance(stmt, (ast.For, ast.While, ast.If, ast.With)):
            return not isinstance(stmt, ast.With)
        return any(word_of(node) in SYNC | DATA | self.jitted for node in ast.walk(stmt))

    def arrays(self, function: str) -> list[str]:
        """The arrays of barriers that a function makes or uses, in order."""
        found = []
        for spot in self.spots:
            if spot.function != function:
                continue
            for call in (node for node in ast.walk(spot.stmt) if not spot.stmt.__dict__.get("body") and isinstance(node, ast.Call)):
                if word_of(call) == "alloc_barriers":
                    found += _assigned(spot.stmt, call)
                elif word_of(call).startswith("barrier_") and call.args:
                    found += [given(call)[0].value.id] if _is_indexed(given(call)[0]) else []
        return list(dict.fromkeys(found))

    def indices(self, spot: Spot, array: str = "") -> list[str]:
        """Indices by which the statements around take buffers and barriers: those of `array` in the task first, then those of the
        same block, the others, and the numbers of the loops around."""
        own, near, far = [], [], []
        for other in self.spots:
            if other.function == spot.function and not other.stmt.__dict__.get("body"):
                for node in ast.walk(other.stmt):
                    if _is_indexed(node) and isinstance(node.slice, (ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp)):
                        same = node.value.id == array and other.task is spot.task
                        (own if same else near if other.block is spot.block else far).append(self.text(node.slice))
        loops = [loop.target.id for loop in spot.loops if isinstance(loop.target, ast.Name)]
        return list(dict.fromkeys([*own, *near, *far, *loops]))

    def phases(self, spot: Spot) -> list[str]:
        """The parities that a wait at `spot` may name: those of other waits, and the second of a pair such as `slot, phase`."""
        found = []
        for other in self.spots:
            if other.function != spot.function:
                continue
            if other.word == "barrier_wait" and len(given(other.call)) > 1:
                found.append(plain_parity(self.text(given(other.call)[1])))
            for target in _targets(other.stmt):
                pair = target.elts if isinstance(target, ast.Tuple) else []
                if len(pair) == 2 and isinstance(pair[1], ast.Name) and other.block is spot.block:
                    found.insert(0, pair[1].id)
        return [*dict.fromkeys(one for one in found if one not in ("0", "1")), "0"]

    def copied(self, spot: Spot, barrier: str) -> str:
        """The bytes of the copies in a block that complete on a barrier, as a sum over their buffers; "" if it is not known."""
        sizes = []
        for stmt in spot.block:
            call = stmt.value if isinstance(stmt, ast.Expr) else None
            if word_of(call) == "async_descriptor_load" and len(given(call)) > 3 and self.text(given(call)[3]) == barrier:
                sizes.append(self._size(spot.function, given(call)[1]))
        return " + ".join(sizes) if all(sizes) else ""

    def _size(self, function: str, buffer: ast.expr) -> str:
        """The bytes of one buffer of an array that the function allocates, in the terms of its allocation."""
        name = buffer.value.id if _is_indexed(buffer) else ""
        for spot in self.spots:
            for call in ast.walk(spot.stmt) if spot.function == function and not spot.stmt.__dict__.get("body") else ():
                if word_of(call) == "local_alloc" and name in _assigned(spot.stmt, call) and isinstance(given(call)[0], ast.Tuple):
                    extents = [text for text in map(self.text, given(call)[0].elts) if text != "1"]
                    bits = re.fullmatch(r"tl\.\D+(\d+)", self.text(given(call)[1]))
                    item = str(int(bits[1]) // 8) if bits else f"{self.prefix}size_of({self.text(given(call)[1])})"
                    return " * ".join([item, *extents])
        return ""

    # ---- edits ------------------------------------------------------------------------------------------------------

    def instead(self, node: ast.AST, text: str) -> Edit:
        """The edit that writes `text` where an expression stands."""
        first, last = self.lines[node.lineno - 1].encode(), self.lines[node.end_lineno - 1].encode()
        line = first[:node.col_offset].decode() + text + last[node.end_col_offset:].decode()
        return Edit(self.source.path, node.lineno, node.end_lineno, "replace", line)

    def without(self, stmt: ast.stmt) -> Edit:
        """The edit that deletes a statement; `pass` stands for one that is alone in its block."""
        if any(spot.stmt is stmt and len(spot.block) == 1 for spot in self.spots):
            return Edit(self.source.path, stmt.lineno, stmt.end_lineno, "replace", " " * stmt.col_offset + "pass")
        return Edit(self.source.path, stmt.lineno, stmt.end_lineno, "delete")

    def before(self, stmt: ast.stmt, text: str) -> Edit:
        return Edit(self.source.path, stmt.lineno, stmt.lineno, "insert", " " * stmt.col_offset + text)

    def behind(self, stmt: ast.stmt, text: str) -> Edit:
        line = stmt.end_lineno + 1
        return Edit(self.source.path, line, line, "insert", " " * stmt.col_offset + text)

    def whole(self, node: ast.AST) -> str:
        """The lines of a node, less the indentation of the first and what is said behind the last."""
        lines = [line.encode() for line in self.lines[node.lineno - 1:node.end_lineno]]
        lines[-1] = lines[-1][:node.end_col_offset]
        lines[0] = lines[0][node.col_offset:]
        return b"\n".join(lines).decode()


def toggled(parity: str) -> str:
    """The other parity, as one writes it."""
    if parity in ("0", "1"):
        return "1" if parity == "0" else "0"
    plain = plain_parity(parity)
    return plain if plain != parity else f"{parity} ^ 1" if parity.isidentifier() else f"({parity}) ^ 1"


def plain_parity(parity: str) -> str:
    return parity.removesuffix("^ 1").removesuffix("^1").strip() if parity.endswith(("^ 1", "^1")) else parity


def _is_indexed(node: Any) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)


def _targets(stmt: ast.stmt) -> list[ast.expr]:
    if isinstance(stmt, ast.Assign):
        return stmt.targets
    return [stmt.target] if isinstance(stmt, (ast.AugAssign, ast.AnnAssign)) else []


def _bound(target: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}


def _assigned(stmt: ast.stmt, call: ast.Call) -> list[str]:
    """The name to which a call is assigned, in `a = call` or `a, b = call, call`."""
    if not isinstance(stmt, ast.Assign):
        return []
    target = stmt.targets[0]
    if isinstance(target, ast.Tuple) and isinstance(stmt.value, ast.Tuple):
        return [one.id for one, value in zip(target.elts, stmt.value.elts) if value is call and isinstance(one, ast.Name)]
    return [target.id] if isinstance(target, ast.Name) and stmt.value is call else []
