"""The values and texts that recording a kernel reads, as data.

Input: the findings of a walk (`walk.look`). Output: a digest, a test for changes, and a description of what has changed. An
example:

    before.changed(now)         "consts.C = 3.0, which is 5.0 now"
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ....language.tle.raw.function import RawFunction
from ...triton_port.codegen import JITCallable, constexpr
from .still import ITEM, asks

PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented), range, slice)


@dataclass
class Seen:
    """The findings of a walk.

    lines      paths with contents, in order
    texts      positions of functions, with their source
    shown      values as a message names them
    natives    functions in other languages, whose files may change
    functions  Triton's functions, except settled ones
    unknown    the first thing that could not be followed, "" if everything was
    reads      the reads that `still` repeats
    held_now   a function that gives the content of something that can change in place
    """

    lines: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    shown: dict[str, str] = field(default_factory=dict)
    natives: list[RawFunction] = field(default_factory=list)
    functions: list[JITCallable] = field(default_factory=list)
    reads: dict[tuple, tuple] = field(default_factory=dict)
    held_now: Callable[[Any], str] = repr
    unknown: str = ""

    @cached_property
    def digest(self) -> str:
        """A digest of everything but the places of functions in their files."""
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()

    @cached_property
    def places(self) -> str:
        """The digest of the texts and lines of all functions: the source of the locations in a binary."""
        return hashlib.sha256("\n".join(self.texts).encode()).hexdigest()

    @cached_property
    def still(self) -> Callable[[], bool] | None:
        """A function that returns True while nothing has changed; None if nothing of it can change."""
        return asks(list(self.reads.values()), self.held_now) if self.reads else None

    def kept(self) -> Seen:
        """The part that a compiled kernel keeps: texts, and none of the objects, which would keep all of their modules alive."""
        return replace(self, natives=[], functions=[], reads={})

    def native_key(self) -> str:
        """The functions in other languages by their content now; "" without any."""
        return "".join(f"{function.name}={function.cache_key}" for function in self.natives)

    def globals(self) -> dict[tuple[str, int], tuple[Any, dict]]:
        """The constants among the globals that are named, as Triton keeps them: (name, id of the globals) -> (value, globals)."""
        return {(name, id(holder)): (value, holder) for kind, holder, name, value in self.reads.values()
                if kind == ITEM and isinstance(holder, dict) and isinstance(value, (constexpr, *PLAIN))}

    def changed(self, other: Seen) -> str:
        """The first difference from `other`, in words; "" if there is none."""
        for where in self.shown.keys() & other.shown.keys():
            if self.shown[where] != other.shown[where]:
                return f"{where} = {self.shown[where]}, which is {other.shown[where]} now"
        lines = itertools.zip_longest(self.lines, other.lines, fillvalue="")
        where = next((one.partition(":")[0] or "less" for one, two in lines if one != two), "")
        return where and f"{where}, which is another one now"
