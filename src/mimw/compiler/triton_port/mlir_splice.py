"""The bodies of an author's MLIR functions in the place of their calls.

Input: a module with calls of functions that are only declared, and a `Splice` for each of them. Output: the module with the ops of
each body where its call stood, and without the declarations. An example:

    %5 = tt.call @raw.12(%3) : (tensor<128xf32, #blocked>) -> tensor<128xf32, #blocked> loc(#loc9)
    %raw12_0 = arith.addf %3, %3 : tensor<128xf32, #raw12_blocked> loc(#raw12_loc4)         what stands there instead

Every op carries the number of the recorded call (`numbers`), with its line in the author's text as its position. What is spliced
is what MLIR's printer makes of a function that was parsed alone, so nothing of a text can reach what is outside of it; and no pass
runs, so that the order of effects is the author's when the guard first looks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .text import module_of

_CALL = re.compile(r"(\s*)(?:(%[\w$.-]+)(?::\d+)? = )?tt\.call @([\w.]+)\((.*?)\) : .*")
_DECLARED = re.compile(r"\s*tt\.func private @([\w.]+)\(")
_FUNCTION = re.compile(r"  tt\.func public @[\w$.]+\((.*?)\)(?: -> .*)? \{")
_PARAMETER = re.compile(r"%[\w$.-]+(?=: )")
_RETURN = re.compile(r"\s*tt\.return(?: (.*?) : (.*?))?( loc\(.*\))?")
_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"(?::\d+:\d+)?|[%#][A-Za-z_0-9$.-]+')
_POSITION = re.compile(r'"[^"\n]*":(\d+):(\d+)')
_DEFINED = re.compile(r"#(\w+) = ")


@dataclass(frozen=True)
class Splice:
    """The text of a module with one function, the number of the recorded op that calls it, and where in the author's files a
    line and column of that text's locations stand."""

    text: str
    number: int
    position: Callable[[int, int], tuple[str, int, int]]


def spliced(module, splices: Mapping[str, Splice]):
    """The module with the bodies of these functions, by their names."""
    lines, aliases, locations = [], [], []
    bodies = {name: _Body(splice) for name, splice in splices.items()}
    for line in str(module).splitlines():
        if (found := _DECLARED.match(line)) and found[1] in bodies:
            continue
        if (found := _CALL.match(line)) and found[3] in bodies:
            lines += bodies[found[3]].inline(found[1], found[2], [part.strip() for part in found[4].split(",") if part.strip()])
        else:
            lines.append(line)
    for one in bodies.values():
        aliases += one.aliases
        locations += one.locations
    return module_of("\n".join([*aliases, *lines, *locations]) + "\n", module.context)


class _Body:
    """One function's text, taken apart: its parameters, the lines between, and its aliases under names of its own."""

    def __init__(self, splice: Splice):
        self.splice, self.prefix = splice, f"raw{splice.number}_"
        self.aliases: list[str] = []
        self.locations: list[str] = []
        self.parameters: list[str] = []
        self.lines: list[str] = []
        inside = False
        for line in splice.text.splitlines():
            if found := _DEFINED.match(line):
                self._alias(found[1], line)
            elif found := _FUNCTION.match(line):
                self.parameters, inside = _PARAMETER.findall(found[1]), True
            elif inside and line.startswith("  }"):
                inside = False
            elif inside:
                self.lines.append(line)

    def inline(self, indent: str, result: str | None, operands: list[str]) -> list[str]:
        """The lines in the place of a call."""
        names = dict(zip(self.parameters, operands, strict=True))
        lines = [indent + self._renamed(line, names).lstrip() for line in self.lines]
        found = _RETURN.fullmatch(lines.pop())
        if result is not None:
            values, types, place = found.groups()
            given = f"{result}:{count}" if (count := values.count(", ") + 1) > 1 else result
            lines.append(f"{indent}{given} = builtin.unrealized_conversion_cast {values} : {types} to {types}{place}")
        return lines

    def _alias(self, name: str, line: str) -> None:
        value = self._renamed(line, {}).partition(" = ")[2]
        if not name.startswith("loc"):
            self.aliases.append(f"#{self.prefix}{name} = {value}")
            return
        self.locations += [f"#{self.prefix}at_{name} = {value}",
                           f'#{self.prefix}{name} = loc("mlir.{self.splice.number}"(#{self.prefix}at_{name}))']

    def _renamed(self, line: str, names: Mapping[str, str]) -> str:
        def token(found: re.Match[str]) -> str:
            text = found[0]
            if text[0] == '"':
                place = _POSITION.fullmatch(text)
                return self._at(int(place[1]), int(place[2])) if place else text
            if text[0] == "#":
                return f"#{self.prefix}{text[1:]}" if text[1:] in self._known else text
            return names.get(text, f"%{self.prefix}{text[1:]}")

        return _TOKEN.sub(token, line)

    @property
    def _known(self) -> frozenset[str]:
        """The names of the text's aliases."""
        if not hasattr(self, "_names"):
            self._names = frozenset(_DEFINED.match(line)[1] for line in self.splice.text.splitlines() if _DEFINED.match(line))
        return self._names

    def _at(self, line: int, column: int) -> str:
        file, line, column = self.splice.position(line, column)
        return f'"{file}":{line}:{column}'
