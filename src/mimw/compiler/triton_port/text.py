"""The one entry to MLIR through its text, for changes and questions that Triton's binding does not offer.

Input: a module, or the text of one. Output: another module, or what the text says of locations and layouts. An example:

    renames = (Rewrite(re.compile(r"(.*)@old\b(.*)"), lambda line: f"{line[1]}@new{line[2]}", times=1), )
    module = rewritten(module, renames)
    ModuleText(module).numbers["#loc12"]        17, the number of the recorded op at that location

A rewrite looks at one line, since the printer of MLIR writes one op a line (the regions of an op stand on the lines behind it).
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from triton._C.libtriton import amd, nvidia
from triton._C.libtriton import ir as mlir

from .numbers import NUMBER

_ALIAS = re.compile(r"^(#loc\d*) = loc\((.*)\)$")
_REFERENCE = re.compile(r"#loc\d*\b")
_POSITION = re.compile(r'"(.*)":(\d+):(\d+)')
_NAMED = re.compile(r'".*"\((#loc\d*)\)')
_LAYOUT = re.compile(r"^(#\w+) = (#ttg\..*)$")
_AT = re.compile(r" loc\((#loc\d*|.*)\)$")
_WMMA = re.compile(r"(#ttg\.amd_wmma<\{(?!.*\brank\b).*warp = \[\[\d+, \d+, \d+\].*)\}>$", re.MULTILINE)   # of batches

Position = tuple[str, int, int]


def module_of(text: str, context):
    """The module that a text describes. The binding parses files only; and of a layout of WMMA with three dimensions Triton prints
    no rank, for want of which its parser ends the process."""
    with text_file(_WMMA.sub(r"\1, rank = 3}>", text), ".mlir") as path:
        return parsed_file(path, context)


@contextmanager
def text_file(text: str, suffix: str) -> Iterator[str]:
    """The path of a file with the text, for as long as it is read."""
    file, path = tempfile.mkstemp(suffix=suffix)
    try:
        with os.fdopen(file, "w") as handle:
            handle.write(text)
        yield path
    finally:
        os.unlink(path)


def parsed_file(path: str, context):
    """The module that a file describes."""
    parsed = mlir.parse_mlir_module(path, context)
    parsed.context = context
    return parsed


def any_context():
    """A context with the dialects of Triton for every vendor."""
    context = mlir.context()
    mlir.load_dialects(context)
    nvidia.load_dialects(context)
    amd.load_dialects(context)
    return context


def finished_module(ttgir: str):
    """The module of a text that has been through a compilation for any chip: its ops may be those of one vendor."""
    return module_of(ttgir, any_context())


def copied(module):
    """Another module with the same text, for passes that the module itself must not go through."""
    return module_of(str(module), module.context)


@dataclass(frozen=True)
class Rewrite:
    """A row of a table of rewrites: a line that matches the whole `pattern` becomes `line(match)`, one or several. With `times`
    a module with another number of such lines is an error."""

    pattern: re.Pattern[str]
    line: Callable[[re.Match[str]], str]
    times: int | None = None


def rewritten(module, table: Sequence[Rewrite], text: str | None = None):
    """The module with each line replaced by the first rewrite of the table that matches it; `text` is its text, if it is known."""
    lines, found = (text or str(module)).splitlines(), [0] * len(table)
    for place, line in enumerate(lines):
        for row, rewrite in enumerate(table):
            if match := rewrite.pattern.fullmatch(line):
                lines[place] = rewrite.line(match)
                found[row] += 1
                break
    for rewrite, times in zip(table, found, strict=True):
        if rewrite.times not in (None, times):
            raise RuntimeError(f"expected {rewrite.times} lines like {rewrite.pattern.pattern!r} in the module, found {times}")
    return module_of("\n".join(lines) + "\n", module.context)


class ModuleText:
    """The text of a module, read: its lines, and the definitions of the names of locations and layouts in them."""

    def __init__(self, module):
        self.text = str(module)
        self.lines = self.text.splitlines()

    @cached_property
    def locations(self) -> dict[str, str]:
        """The definition of each alias of a location: "#loc3" -> '"kernel.py":9:13'."""
        return {found[1]: found[2] for line in self.lines if (found := _ALIAS.match(line))}

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of the recorded op in each alias; of a fusion, the first of its numbers; -1 where there is none."""
        numbers: dict[str, int] = {}

        def look(alias: str) -> int:
            if alias not in numbers:
                text = self.locations.get(alias, "")
                found = NUMBER.search(text)
                numbers[alias] = int(found[1]) if found else -1
                if not found and text.startswith("fused"):
                    numbers[alias] = next((inner for part in _REFERENCE.findall(text) if (inner := look(part)) >= 0), -1)
            return numbers[alias]

        for alias in self.locations:
            look(alias)
        return numbers

    @cached_property
    def positions(self) -> dict[str, Position]:
        """(file, line, column) of each alias of a position, or of a name around the alias of one."""
        found = {alias: (match[1], int(match[2]), int(match[3])) for alias, text in self.locations.items()
                 if (match := _POSITION.fullmatch(text))}
        named = {alias: match[1] for alias, text in self.locations.items() if (match := _NAMED.fullmatch(text))}
        return found | {alias: found[inside] for alias, inside in named.items() if inside in found}

    @cached_property
    def layouts(self) -> dict[str, str]:
        """The definition of each alias of a layout: "#blocked" -> "#ttg.blocked<...>"."""
        return {found[1]: found[2] for line in self.lines if (found := _LAYOUT.match(line))}

    def number(self, location: str) -> int:
        """The number of the recorded op in a location as it stands behind an op, alias or not; -1 if there is none."""
        if location in self.numbers:
            return self.numbers[location]
        found = NUMBER.search(location)
        return int(found[1]) if found else -1


def located(line: str) -> tuple[str, str]:
    """(code, location) of a line; the location is "" if the line has none."""
    found = _AT.search(line)
    return (line[:found.start()], found[1]) if found else (line, "")
