"""Reads one argument of an op from IR text: a value, a constant, or a list of them; the inverse of `printer.print_constant`.

Input: a `Line` that stands before an argument. Output: the argument; the line stands behind it. An example:

    reader = ArgumentReader({"%x": x}.__getitem__, enumerations)
    reader.read(Line("[%x, Slice(axis=0, parent=none), 'cg', 1e-05, fp32[8]]", ...))
        (x, Slice(0, None), "cg", 1e-05, Tensor(FP32, (8, )))
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from typing import Any

from . import layouts
from .core import Value
from .lexer import Line
from .operands import Operand
from .place import Place
from .type_parser import begins_type, parse_type
from .wait_table import WaitTable

Enumerations = Callable[[str, str], Any]

_WORDS = {"none": None, "True": True, "False": False, "nan": float("nan"), "inf": float("inf")}
_CLASSES = {class_.__name__: class_ for class_ in (
    *(one for one in vars(layouts).values() if isinstance(one, type) and one.__module__ == layouts.__name__), Place, WaitTable)}


class ArgumentReader:
    """`used` reads the value that stands next on a line; `enumerations(class, member)` finds a member of one of Triton's."""

    def __init__(self, used: Callable[[Line], Value], enumerations: Enumerations):
        self.used, self.enumerations = used, enumerations

    def read(self, line: Line, operand: Operand | None = None) -> Any:
        """The next argument. `operand` is the declared operand, where that decides how a word is read."""
        if line.kind == "value":
            return self.used(line)
        if line.skip("["):
            return tuple(separated(line, "]", lambda: self.read(line, operand)))
        if line.kind == "text":
            return ast.literal_eval(line.take("text"))
        if line.text in _WORDS:
            return _WORDS[line.take(line.kind)]
        if line.kind == "number":
            return _number(line.take("number"))
        if line.kind == "word" and line.after() == "(":
            return self._built(line)
        if operand is not None and operand.enumeration and line.kind == "word":
            return self._member(line, operand.enumeration)
        if begins_type(line):
            return parse_type(line)
        line.fail(f"{line.shown()} is no value, type or constant")

    def _built(self, line: Line) -> Any:
        """A layout, a place or a table: `Blocked(order=[1, 0], ...)`."""
        column, name = line.column, line.take("word")
        line.expect("(")

        def field() -> tuple[str, Any]:
            key = line.take("word", "a field's name")
            line.expect("=")
            return key, self.read(line)

        given = dict(separated(line, ")", field))
        class_ = _CLASSES.get(name) or line.fail(f"no constant is called {name}{closest(name, _CLASSES)}", column)
        try:
            return class_(**given)
        except TypeError as error:
            line.fail(f"{name}: {str(error).partition('() ')[2]}", column)

    def _member(self, line: Line, enumeration: str) -> Any:
        column, member = line.column, line.take("word")
        found = self.enumerations(enumeration, member)
        return line.fail(f"{enumeration} has no member {member!r}", column) if found is None else found


def separated(line: Line, closing: str, read: Callable[[], Any]) -> Iterator[Any]:
    """Yield the result of `read` for each item up to the closing mark."""
    first = True
    while not line.skip(closing):
        if not first:
            line.expect(",")
        yield read()
        first = False


def closest(name: str, names: Iterable[str]) -> str:
    """", did you mean 'x'?", or what there is if that is short."""
    names = list(names)
    if close := get_close_matches(name, names, n=1):
        return f", did you mean {close[0]!r}?"
    listed = ", ".join(names)
    return f"; there are {listed}" if len(listed) < 160 else ""


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)
