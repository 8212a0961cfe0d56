"""Shapes with names in contracts: what they bind, and what they expect.

Input: a shape's text, "(batch, 2 * heads, *rows)", and the extents that are known. Output: those of an array, or what was expected:

    shape = Shape("(batch, heads, dim)")
    shape.fits(array.shape, extents)        whether the numbers of dimensions agree
    for place, extent, expected in shape.bound(array.shape, extents): ...       names that are new become known on the way

Extents may be symbols of torch.compile; nothing here asks for their values.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from math import prod
from types import CodeType, SimpleNamespace
from typing import Any

from . import types

BROADCAST = "..."


class Extents(SimpleNamespace):
    """The extents of a call by name, and the options it was checked with; `*rows` and `...` are tuples, the latter `front`."""

    def value(self, code: CodeType, **more: Any) -> Any:
        """The value of an expression; a name that no argument has is 1."""
        return eval(code, {"__builtins__": {}}, _Names(vars(self) | more))


class _Names(dict):
    def __missing__(self, name: str) -> Any:
        return _FUNCTIONS.get(name, 1)


def cdiv(a: int, b: int) -> int:
    """a / b, rounded up."""
    return -(-a // b)


_FUNCTIONS = dict(cdiv=cdiv, prod=prod, min=min, max=max, len=len, abs=abs, int=int, float=float, bool=bool,
                  fp8=lambda array: types.of(array) in types.FP8, whole=lambda one: hasattr(one, "__index__"))


def compiled(text: str) -> CodeType:
    """The code of an expression."""
    return compile(text.strip(), f"<{text}>", "eval")


def names_in(text: str) -> tuple[str, ...]:
    """The names in an expression, each once, in its order, without those of functions."""
    found = [node.id for node in ast.walk(ast.parse(text.strip(), mode="eval")) if isinstance(node, ast.Name)]
    return tuple(sorted({name for name in found if name not in _FUNCTIONS}, key=text.index))


class Extent:
    """One dimension of a shape: a name, a group of dimensions, or an expression; "b|1" is either."""

    def __init__(self, text: str):
        self.text = text.strip()
        self.group = self.text.startswith("*") or self.text == BROADCAST
        self.name, _, length = (self.text.lstrip("*") if self.text != BROADCAST else "front").partition("[")
        self.length = length.rstrip("]")        # the option that says how many dimensions a group has
        self.choices = [] if self.group else [one.strip() for one in self.text.split("|")]

    @property
    def is_name(self) -> bool:
        """True for a name alone, or one of several choices."""
        return not self.group and self.choices[0].isidentifier()

    @cached_property
    def codes(self) -> list[CodeType]:
        """The code of each choice."""
        return [compiled(one) for one in self.choices]

    @cached_property
    def solved(self) -> tuple[str, int, int] | None:
        """(name, factor, summand) of "2 * inner" or "sequences + 1", which bind a name that nothing else does."""
        tree = ast.parse(self.choices[0], mode="eval").body
        if not isinstance(tree, ast.BinOp):
            return None
        name = next((one.id for one in (tree.left, tree.right) if isinstance(one, ast.Name)), None)
        number = next((one.value for one in (tree.left, tree.right) if isinstance(one, ast.Constant)), None)
        if name is None or number is None or not isinstance(tree.op, (ast.Mult, ast.Add)):
            return None
        return (name, number, 0) if isinstance(tree.op, ast.Mult) else (name, 1, number)


class Shape:
    """One of the shapes that a tensor may have."""

    def __init__(self, text: str):
        self.text = text
        self.extents = [Extent(one) for one in _split(text.strip()[1:-1])]

    @cached_property
    def names(self) -> set[str]:
        """The names of its extents."""
        return {name for one in self.extents for name in ([one.name] if one.group else names_in(one.text))}

    def groups(self, rank: int, known: Extents) -> dict[int, int] | None:
        """Place of each group of dimensions -> how many it has; None where the rank does not fit."""
        places = [place for place, one in enumerate(self.extents) if one.group]
        free, rest = [], rank - (len(self.extents) - len(places))
        found = {}
        for place in places:
            one = self.extents[place]
            if one.length or one.text != BROADCAST and hasattr(known, one.name):
                found[place] = getattr(known, one.length) if one.length else len(getattr(known, one.name))
                rest -= found[place]
            else:
                free.append(place)
        if rest < 0 or rest and not free:
            return None
        return found | {place: rest if place == free[0] else 0 for place in free}

    def bound(self, shape: tuple, known: Extents) -> Iterator[tuple[Extent, Any, list | None]]:
        """(place, extent, choices of what it must be) of each dimension that is no new name; the new names become known."""
        at, groups = 0, self.groups(len(shape), known)
        for place, one in enumerate(self.extents):
            if not one.group:
                extent, at = shape[at], at + 1
                if one.is_name and not hasattr(known, one.choices[0]):
                    setattr(known, one.choices[0], extent)
                elif one.solved and not hasattr(known, one.solved[0]):
                    name, factor, summand = one.solved
                    setattr(known, name, (extent - summand) // factor)
                    yield one, extent, [getattr(known, name) * factor + summand]
                else:
                    yield one, extent, [known.value(code) for code in one.codes]
                continue
            found, at = tuple(shape[at:at + groups[place]]), at + groups[place]
            if one.text == BROADCAST:
                known.front = (*getattr(known, "front", ()), found)
            elif hasattr(known, one.name):
                yield one, found, [getattr(known, one.name)]
            else:
                setattr(known, one.name, found)

    def of(self, known: Extents, absent: tuple[str, ...] = ()) -> tuple:
        """The shape of a result; a name that no argument has is left out. `absent` are arguments that are None."""
        found = []
        for one in self.extents:
            if one.group:
                found.extend(getattr(known, one.name, ()))
            elif not one.is_name or hasattr(known, one.choices[0]):
                found.append(known.value(one.codes[0], **dict.fromkeys(absent)))
        return tuple(found)

    def expected(self, known: Extents, rank: int) -> str:
        """The extents as numbers where they are known, as names where they are not, of an array with so many dimensions."""
        found, fixed = [], sum(not one.group for one in self.extents)
        for one in self.extents:
            if one.text == BROADCAST:
                found.extend([one.text] if rank > fixed else [])
            elif one.group:
                value = getattr(known, one.name, None)
                found.extend([one.text] if value is None else map(str, value))
            else:
                is_known = all(hasattr(known, name) for name in names_in(one.choices[0]))
                found.append("|".join(dict.fromkeys(str(known.value(code)) for code in one.codes)) if is_known else one.text)
        return " x ".join(found) or "a number"


def _split(text: str) -> list[str]:
    """At commas outside of parentheses."""
    found, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return [one for one in found if one.strip()]


__all__ = ["BROADCAST", "Extent", "Extents", "Shape", "cdiv", "compiled", "names_in"]
