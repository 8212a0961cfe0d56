"""Functions in MLIR text, read as far as their border goes: names, parameters, results, and what else stands beside them.

Input: the text of an author. Output: an `MlirText`, or `MlirError` with the line and column of what cannot be taken. An example:

    text = MlirText("tt.func @twice(%x: tensor<128xf32>) -> tensor<128xf32> {\\n ... }")
    text.function("").parameters        (MlirParameter("x", "tensor<128xf32>", Tensor(fp32, (128,))), )

Only functions and aliases of types and attributes may stand in a text; a `module { }` around them is left out. `source` is the text
as MLIR has it: functions of the dialect `func` are those of `tt`. What is inside a function only MLIR's own parser reads
(`triton_port/mlir_functions.py`); a position that it names is one of the author's by `position`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property

from .mlir_types import CLOSING, OPENING, parts_of, quiet, short_buffers, spelled, type_of, with_buffer_aliases
from .types import Barrier, Buffer, Type

_ALIAS = re.compile(r"[#!][A-Za-z_][\w.$]*\s*=")
_MODULE = re.compile(r"(?:builtin\.)?module\b[^{]*\{")
_FUNCTION = re.compile(r"(?:tt|func)\.func\b\s*(?:(?:public|private)\b\s*)?@([A-Za-z_][\w$.]*)\s*(?=\()")
_WORD = re.compile(r"\S+")
# The dialect `func` is not among Triton's; its functions are `tt`'s under other names.
_SPELLINGS = ((re.compile(r"\bfunc\.func\b"), "tt.func"), (re.compile(r"\bfunc\.return\b"), "tt.return"),
              (re.compile(r"\bfunc\.call\b"), "tt.call"), (re.compile(r"(?<![\w.\"%@])return\b"), "tt.return"),
              (re.compile(r"(?<![\w.\"%@])call(?=\s+@)"), "tt.call"))


class MlirError(Exception):
    """A fault in a text, with its line and column, both from 1 on."""

    def __init__(self, what: str, line: int = 1, column: int = 1):
        self.what, self.line, self.column = what, line, column
        super().__init__(f"{line}:{column}: {what}")


@dataclass(frozen=True)
class MlirParameter:
    """A parameter: its type as it is written, aliases resolved, and as the IR has it."""

    name: str
    written: str
    type: Type


@dataclass(frozen=True)
class MlirFunction:
    """The border of one function; `line` is where it begins."""

    name: str
    line: int
    parameters: tuple[MlirParameter, ...]
    results: tuple[Type, ...]

    @property
    def signature(self) -> str:
        """The types that go in and out, as MLIR writes them."""
        given = ", ".join(f"%{one.name}: {spelled(one.type)}" for one in self.parameters)
        return f"({given}) -> ({', '.join(map(spelled, self.results))})"


@dataclass(frozen=True)
class MlirText:
    """A text of functions. Equal texts are equal."""

    text: str
    functions: tuple[MlirFunction, ...] = field(init=False, compare=False)

    def __post_init__(self):
        reader = _Reader(self.text)
        object.__setattr__(self, "_reader", reader)
        object.__setattr__(self, "functions", tuple(reader.functions))

    def function(self, name: str) -> MlirFunction:
        """The function of that name; of a text with only one, also without a name."""
        if not name and len(self.functions) == 1:
            return self.functions[0]
        found = next((one for one in self.functions if one.name == name), None)
        if found is None:
            there = ", ".join(one.name for one in self.functions)
            raise MlirError(f"there is no function {name!r} in the text, which has {there}" if name else
                            f"the text has the functions {there}: extern_func_name= says which one is called")
        return found

    def called(self, symbol: str, name: str) -> MlirFunction:
        """The function that `symbol` names; without one, that of the declaration's name, or the only one."""
        return self.function(symbol or (name if any(one.name == name for one in self.functions) else ""))

    @cached_property
    def source(self) -> str:
        """The text with one spelling of functions, and no module around them; lines stay lines."""
        return "\n".join(line for line, _ in self._lines)

    @cached_property
    def aliases(self) -> str:
        """`source` with nothing but the aliases, as many lines; a short buffer type is its alias (`buffer_alias`)."""
        return self._only(inside=True)

    @cached_property
    def bodies(self) -> str:
        """`source` without the aliases, as many lines; a short buffer type is its alias."""
        return self._only(inside=False)

    @cached_property
    def buffers(self) -> tuple[Buffer | Barrier, ...]:
        """The buffers whose layout the text leaves to the compiler."""
        return tuple(short_buffers(self.source))

    def position(self, line: int, column: int) -> tuple[int, int]:
        """(line, column) of the author's text for a position in `source`."""
        lines = self._lines
        if not 1 <= line <= len(lines):
            return max(1, min(line, len(lines))), 1
        for place, longer in reversed(lines[line - 1][1]):
            if column > place:
                column = max(place, column - longer)
        return line, column

    @cached_property
    def _lines(self) -> list[tuple[str, list[tuple[int, int]]]]:
        """Each line of `source`, and (column of the author's from which on, how many columns further right) of its changes."""
        reader, made = self._reader, []
        start = 0
        for line in self.text.split("\n"):
            kept = "".join(" " if start + at in reader.dropped else char for at, char in enumerate(line))
            code, changes = quiet(line), []
            for pattern, spelling in _SPELLINGS:
                for found in pattern.finditer(code):
                    changes.append((found.start(), found.end(), spelling))
            shifts, moved = [], 0
            for begin, end, spelling in sorted(changes):
                kept = kept[:begin + moved] + spelling + kept[end + moved:]
                moved += len(spelling) - (end - begin)
                shifts.append((begin + 1, len(spelling) - (end - begin)))
            made.append((kept, shifts))
            start += len(line) + 1
        return made

    def _only(self, inside: bool) -> str:
        held, lines = self._reader.alias_lines, with_buffer_aliases(self.source).split("\n")
        return "\n".join(line if (number in held) == inside else "" for number, line in enumerate(lines, start=1))


class _Reader:
    """One pass over a text: its functions, the lines with aliases, and the places of a module around them all."""

    def __init__(self, text: str):
        self.text, self.code = text, quiet(text)
        self.functions: list[MlirFunction] = []
        self.aliases: dict[str, str] = {}
        self.alias_lines: set[int] = set()
        self.dropped: set[int] = set()
        self._top(0, len(text), False)
        if not self.functions:
            raise MlirError("there is no function in the text: write `tt.func @name(%x: tensor<128xf32>) { .. tt.return }`")

    def _top(self, at: int, end: int, inside: bool) -> None:
        while (found := _WORD.search(self.code, at, end)) is not None:
            at = found.start()
            if found := _ALIAS.match(self.code, at, end):
                at = self._alias(at, found.end(), end)
            elif found := _FUNCTION.match(self.code, at, end):
                at = self._function(found[1], at, found.end())
            elif (found := _MODULE.match(self.code, at, end)) and not inside:
                if found[0].rstrip("{").strip() not in ("module", "builtin.module"):
                    raise self.error("a module in the text has no name and no attributes: they would be the kernel's", at)
                close = self._closing(found.end() - 1)
                self._top(found.end(), close, True)
                self.dropped.update((*range(at, found.end()), close))
                at = close + 1
            else:
                raise self.error(f"{self.text[at:end].split()[0]!r} may not stand here: beside functions (`tt.func @name() {{ }}`) "
                                 "and aliases (`#name = ..`, `!name = ..`) a text changes nothing", at)

    def _alias(self, at: int, value: int, end: int) -> int:
        """An alias goes on to the end of a line on which all brackets are closed."""
        depth, stop = 0, value
        while stop < end and (self.code[stop] != "\n" or depth or not self.code[value:stop].strip()):
            depth += self._step(stop)
            stop += 1
        name = self.text[at:value].rstrip("= \t\n")
        self.aliases[name] = self.text[value:stop].strip()
        self.alias_lines.update(range(self._line(at), self._line(stop) + 1))
        return stop

    def _function(self, name: str, at: int, opening: int) -> int:
        closing = self._closing(opening)
        body, arrow = closing + 1, self.code.find("->", closing)
        while body < len(self.code) and self.code[body].isspace():
            body += 1
        results: tuple[Type, ...] = ()
        if arrow == body:
            body = self._body(arrow + 2)
            written = self.text[arrow + 2:body].strip()
            inside = written[1:-1] if written.startswith("(") else written
            results = tuple(self._type(part, arrow) for part in parts_of(inside))
        if body >= len(self.code) or self.code[body] != "{":
            what = ("attributes of a function are not taken" if self.code.startswith("attributes", body) else
                    f"the function @{name} has no body: a text calls nothing that is outside of it")
            raise self.error(what, min(body, len(self.code) - 1))
        if any(one.name == name for one in self.functions):
            raise self.error(f"there are two functions @{name}", at)
        parameters = tuple(self._parameter(part, opening) for part in parts_of(self.text[opening + 1:closing]))
        self.functions.append(MlirFunction(name, self._line(at), parameters, results))
        return self._closing(body) + 1

    def _body(self, at: int) -> int:
        """The index of the `{` or `attributes` behind the result types."""
        depth = 0
        while at < len(self.code) and not (depth == 0 and (self.code[at] == "{" or self.code.startswith("attributes", at))):
            depth += self._step(at)
            at += 1
        return at

    def _parameter(self, part: str, at: int) -> MlirParameter:
        name, colon, rest = part.partition(":")
        if not colon or not name.strip().startswith("%"):
            raise self.error(f"{part.strip()!r} is no parameter: write %name: type", at)
        written = _without_attributes(rest.strip())
        return MlirParameter(name.strip()[1:], self._resolved(written), self._type(written, at))

    def _resolved(self, written: str) -> str:
        return self.aliases.get(written, written)

    def _type(self, written: str, at: int) -> Type:
        written = self._resolved(written.strip())
        found = type_of(written)
        if found is None:
            raise self.error(f"{written} cannot cross the border of a function: numbers, !tt.ptr<f32>, tensor<128xf32> of these, "
                             "and !ttg.memdesc<128xf32> can", at)
        return found

    def _closing(self, at: int) -> int:
        """The bracket that closes the one at `at`."""
        depth, place = 0, at
        while place < len(self.code):
            depth += self._step(place)
            if depth == 0:
                return place
            place += 1
        raise self.error(f"the {self.code[at]!r} here is never closed", at)

    def _step(self, place: int) -> int:
        char = self.code[place]
        if char == ">" and self.code[place - 1] == "-":
            return 0
        return (char in OPENING) - (char in CLOSING)

    def _line(self, at: int) -> int:
        return self.text.count("\n", 0, at) + 1

    def error(self, what: str, at: int) -> MlirError:
        return MlirError(what, self._line(at), at - (self.text.rfind("\n", 0, at) + 1) + 1)


def _without_attributes(written: str) -> str:
    """A parameter's type without the attributes behind it, which are hints."""
    depth = 0
    for at, char in enumerate(written):
        if char == "{" and depth == 0:
            return written[:at].strip()
        depth += (char in OPENING) - (char in CLOSING)
    return written
