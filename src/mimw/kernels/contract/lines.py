"""The lines of a contract, parsed.

Input: a line. Output: a `Tensor`, an `Option` or a `Rule`. For example:

    parsed("q: bf16|fp16 (batch, heads, dim) tma")      Tensor(name="q", types=("bfloat16", "float16"), ...)
    parsed("-> o: =q (batch, heads, dim)")              the same, is_result
    parsed("out_dtype?: bf16|fp32")                     Option: an argument that is a type
    parsed("scale > 0 -- or None for 1 / sqrt(dim)")    Rule
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import CodeType

from .extents import Shape, compiled, names_in
from .types import FP8, are_named, named

OFFERED = "offered: "
_LINE = re.compile(r"(?P<arrow>-> )?(?P<name>\w+)(?P<optional>\?)?: (?P<types>\S+)(?: (?P<rest>.*))?$")


@dataclass(frozen=True)
class Tensor:
    """A tensor: its types, or whose type it has, its shapes, and how it lies in memory."""

    name: str
    text: str
    is_result: bool
    optional: bool
    words: str
    types: tuple[str, ...]
    like: str | None
    fp8_too: bool
    shapes: tuple[Shape, ...]
    memory: str


@dataclass(frozen=True)
class Option:
    """An argument that is a type of a result."""

    name: str
    text: str
    optional: bool
    words: str
    types: tuple[str, ...]


@dataclass(frozen=True)
class Rule:
    """An expression that must be true, and what to do where it is not; `offered` says that others are not offered at all."""

    text: str
    mend: str
    code: CodeType
    names: tuple[str, ...]
    offered: bool = False


Line = Tensor | Option | Rule


def parsed(line: str) -> Line:
    """The line as what it is. ValueError for one that is nothing."""
    offered, found = line.startswith(OFFERED), _LINE.match(line)
    if found is None or offered:
        text, _, mend = line.removeprefix(OFFERED).partition(" -- ")
        return Rule(text, mend.strip(), compiled(text), names_in(text), offered)
    words, rest = found["types"], (found["rest"] or "").strip()
    if not rest.startswith("("):
        return Option(found["name"], line, bool(found["optional"]), words, named(words))
    shapes, memory = _shapes(rest)
    is_result = bool(found["arrow"])
    like, _, other = words.removeprefix("=").partition("|") if words.startswith("=") and not is_result else (None, "", "")
    if not is_result and like is None and not are_named(words):
        raise ValueError(f"the line {line!r} of a contract names types that there are not: {words}")
    types = () if is_result else named(other) if other else () if like else named(words)
    return Tensor(found["name"], line, is_result, bool(found["optional"]), words, types, like, types == FP8 and like is not None,
                  shapes, memory)


def _shapes(text: str) -> tuple[tuple[Shape, ...], str]:
    """The shapes at the beginning of a text, and what is behind them."""
    shapes = []
    while text.startswith("("):
        depth = end = 0
        for end, letter in enumerate(text):
            depth += (letter == "(") - (letter == ")")
            if depth == 0:
                break
        shapes.append(Shape(text[:end + 1]))
        text = text[end + 1:].strip()
        if text.startswith("or "):
            text = text.removeprefix("or ").strip()
    return tuple(shapes), text


__all__ = ["Line", "Option", "Rule", "Tensor", "parsed"]
