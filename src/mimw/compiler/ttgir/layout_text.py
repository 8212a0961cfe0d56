"""The text of a layout in TTGIR, read into plain data.

Input: a layout as the printer of MLIR writes it, aliases (`#blocked`) resolved by the caller. Output: its kind, and its fields by
their names; a layout inside, such as the parent of a slice, is read as well. For example:

    read_layout("#ttg.slice<{dim = 1, parent = #ttg.blocked<{sizePerThread = [1, 8], ..}>}>")
    Spelled("slice", {"dim": 1, "parent": Spelled("blocked", {"sizePerThread": [1, 8], ..})})

Triton's own parser ends the process over a layout that it does not take; this one raises `LayoutProblem`, and needs no Triton.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

_NAME = re.compile(r"#ttg\.(\w+)<\s*")
_PAIRS = re.compile(r"\[((?:\s*\d+\s*:\s*\+\s*\d+\s*,?)*)\]\s*")
_PAIR = re.compile(r"(\d+)\s*:\s*\+\s*(\d+)")
_FIELD = re.compile(r"\s*(\w+)\s*=\s*")
_AFTER = re.compile(r"\s*([,}>])\s*")


class LayoutProblem(ValueError):
    """A layout that cannot be read, that Triton does not have, or that no tile or buffer of that shape has."""


@dataclass(frozen=True)
class Spelled:
    """A layout by its fields. `pairs`: after how many elements how many unused ones, of padded shared memory."""

    kind: str
    fields: dict[str, Any]
    pairs: tuple[tuple[int, int], ...] = ()

    def get(self, name: str, default: Any = None) -> Any:
        return self.fields.get(name, default)

    def __getitem__(self, name: str) -> Any:
        """A field that every layout of the kind has; LayoutProblem if this one lacks it."""
        if name not in self.fields:
            raise LayoutProblem(f"#ttg.{self.kind} has no field {name!r}, only {', '.join(self.fields) or 'none at all'}")
        return self.fields[name]


@contextmanager
def of_known_fields(text: str) -> Iterator[None]:
    """Inside, a field of another kind than Triton prints, a number for a list, is a LayoutProblem."""
    try:
        yield
    except (TypeError, AttributeError, IndexError) as error:
        raise LayoutProblem(f"the layout {text} has a field of another kind than Triton's: {error}") from error


@lru_cache(maxsize=1024)
def read_layout(text: str) -> Spelled:
    """The layout that a text spells; LayoutProblem, with the place in the text, if it spells none."""
    layout, end = _layout(text.strip(), 0)
    if end != len(text.strip()):
        raise _problem(text, end, "the layout's end")
    return layout


def _layout(text: str, at: int) -> tuple[Spelled, int]:
    name = _NAME.match(text, at)
    if name is None:
        alias = re.compile(r"#\w+").match(text, at)
        raise _problem(text, at, "#ttg.NAME<..>" + (f", not the alias {alias[0]}, defined on top" if alias else ""))
    at, pairs = name.end(), ()
    if found := _PAIRS.match(text, at):
        pairs = tuple((int(interval), int(unused)) for interval, unused in _PAIR.findall(found[1]))
        at = found.end()
    fields, at = _fields(text, at)
    mark, at = _mark(text, at, ",>")
    while mark == ",":      # as the alignment of linear shared memory
        key, value, at = _field(text, at)
        fields[key] = value
        mark, at = _mark(text, at, ",>")
    return Spelled(name[1], fields, pairs), at


def _fields(text: str, at: int) -> tuple[dict[str, Any], int]:
    if not text.startswith("{", at):
        raise _problem(text, at, "{")
    fields, mark, at = {}, ",", at + 1
    if empty := re.compile(r"\s*\}").match(text, at):
        return fields, empty.end()
    while mark == ",":
        key, value, at = _field(text, at)
        fields[key] = value
        mark, at = _mark(text, at, ",}")
    return fields, at


def _field(text: str, at: int) -> tuple[str, Any, int]:
    key = _FIELD.match(text, at)
    if key is None:
        raise _problem(text, at, "NAME = VALUE")
    return key[1], *_value(text, key.end())


def _value(text: str, at: int) -> tuple[Any, int]:
    if text.startswith("#", at):
        return _layout(text, at)
    if text.startswith("{", at):
        return _fields(text, at)
    try:
        return json.JSONDecoder().raw_decode(text, at)
    except json.JSONDecodeError:
        raise _problem(text, at, "a number, true, false, a list or a layout") from None


def _mark(text: str, at: int, marks: str) -> tuple[str, int]:
    found = _AFTER.match(text, at)
    if found is None or found[1] not in marks:
        raise _problem(text, at, " or ".join(marks))
    # What follows the last mark of the text, or of a layout inside another one, is looked at by the caller.
    return found[1], found.end()


def _problem(text: str, at: int, wanted: str) -> LayoutProblem:
    return LayoutProblem(f"expected {wanted} at column {at + 1} of the layout {text.strip()!r}")
