"""The text of a TTGIR module up to what says nothing of the code: source lines, and the names of values and functions.

    normalised('tt.func @f(%x: i32 loc("x"(#loc1))) {')        'tt.func @f0(%v0: i32) {'

Input: a module as Triton prints it. Output: the same text without locations, its functions and values numbered in the order in
which they appear. Two texts that are equal up to names become one and the same; all else stays, so that a diff is readable.
"""

from __future__ import annotations

import re

_TOKENS = re.compile(r'(?P<string>"(?:[^"\\]|\\.)*")|(?P<loc>\s*\bloc\()|(?P<value>%[\w$.-]+)|(?P<function>@(?:[\w$.-]+|"[^"]*"))'
                     r'|(?P<other>[^"%@l\s]+|\s+|.)', re.DOTALL)
_DEFINED_FUNCTIONS = re.compile(r'\btt\.func\s+(?:public |private |nested )?(@(?:[\w$.-]+|"[^"]*"))')
_RESULTS = re.compile(r"\s*%[\w$.-]+(?::\d+)?(?:, %[\w$.-]+(?::\d+)?)* = ")
_CONSTANTS = re.compile(r"^\s*(%v\d+) = arith\.constant (.*)$", re.MULTILINE)
_NUMBERED = re.compile(r"%v\d+\b")
_LAYOUTS = re.compile(r"^(#\w+) = (.*)$", re.MULTILINE)
_NAMED_LAYOUT = re.compile(r"#\w+\b(?!\.)")
_INNER = re.compile(r"(%[\w$.-]+)(?= = |: )")        # of a loop, a partition, a block or a function: what its head names


def without_locations(text: str) -> str:
    """The text without `loc(...)`, however they are nested, and without the lines that give them names."""
    kept = []
    for line in text.splitlines():
        if not line.startswith("#loc"):
            kept.append(_without(line) if "loc(" in line else line)
    return "\n".join(kept)


def _without(line: str) -> str:
    out, at = [], 0
    while at < len(line):
        token = _TOKENS.match(line, at)
        if token.lastgroup == "loc":
            at = _closing(line, token.end())
        else:
            out.append(token.group())
            at = token.end()
    return "".join(out).rstrip()


def _closing(line: str, at: int) -> int:
    """Where the parenthesis ends that is open at `at`; those in strings count for nothing."""
    depth = 1
    for token in re.compile(r'"(?:[^"\\]|\\.)*"|[()]').finditer(line, at):
        depth += {"(": 1, ")": -1}.get(token.group(), 0)
        if depth == 0:
            return token.end()
    return len(line)


class _Names:
    """Numbers in place of names. A name in a region is another than the same name behind it: MLIR gives names anew there."""

    def __init__(self, functions: dict[str, str]) -> None:
        self.functions, self.values, self.outer, self.count = functions, {}, [], 0

    def define(self, name: str) -> None:
        self.values[name] = f"%v{self.count}"
        self.count += 1

    def line(self, line: str) -> str:
        if line.lstrip().startswith("}") and self.outer:
            self.values = self.outer.pop()
        results = _RESULTS.match(line)
        before, rest = (results.group(), line[results.end():]) if results else ("", line)
        inside = dict(self.values)      # operands of a line that gives a name anew are the old ones
        for name in re.findall(r"%[\w$.-]+", before):
            self.define(name)
        shown = self._replaced(before, self.values)
        if opens := line.endswith("{"):
            self.outer.append(self.values)
            self.values = dict(self.values)
        heads = set()
        if opens or line.lstrip().startswith("^"):
            heads = {match.start() for match in _INNER.finditer(rest)}
        return shown + self._replaced(rest, inside, heads)

    def _replaced(self, text: str, values: dict[str, str], heads: set[int] = frozenset()) -> str:
        def name(token: re.Match) -> str:
            if token.lastgroup == "value":
                if token.start() in heads:
                    self.define(token.group())
                    return self.values[token.group()]
                return values.get(token.group(), token.group())
            if token.lastgroup == "function":
                return self.functions.get(token.group(), token.group())
            return token.group()

        return _TOKENS.sub(name, text)


def normalised(text: str) -> str:
    """TTGIR without locations, with numbers for names."""
    text = without_locations(text)
    defined = set(_DEFINED_FUNCTIONS.findall(text))
    order = dict.fromkeys(name for name in re.findall(r'@(?:[\w$.-]+|"[^"]*")', text) if name in defined)
    names = _Names({name: f"@f{number}" for number, name in enumerate(order)})
    return "\n".join(names.line(line) for line in text.splitlines())


def with_constants_inside(text: str) -> str:
    """A normalised text with each constant in place of its name, and layouts numbered as they are used: in which order a block's
    constants stand says nothing of the code."""
    constants = dict(_CONSTANTS.findall(text))
    kept = "\n".join(line for line in text.splitlines() if not _CONSTANTS.match(line))
    numbers: dict[str, str] = {}

    def name(match: re.Match) -> str:
        found = constants.get(match.group())
        return f"<{found}>" if found else numbers.setdefault(match.group(), f"%v{len(numbers)}")

    return _with_layouts_numbered(_NUMBERED.sub(name, kept))


def _with_layouts_numbered(text: str) -> str:
    """The text with its layouts' names, `#blocked1` and the like, and their lines in the order in which the code names them."""
    layouts = dict(_LAYOUTS.findall(text))
    code = _LAYOUTS.sub("", text).lstrip("\n")
    known: dict[str, str] = {}

    def name(match: re.Match) -> str:
        given = match.group()
        return known.setdefault(given, f"#{len(known)}") if given in layouts else given

    code, lines = _NAMED_LAYOUT.sub(name, code), []
    while len(lines) < len(known):      # a layout may be made of another, which is numbered then
        lines.append(f"#{len(lines)} = {_NAMED_LAYOUT.sub(name, layouts[list(known)[len(lines)]])}")
    return "\n".join([*lines, code])
