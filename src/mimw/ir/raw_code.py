"""Native code that a kernel calls: the text as data, and how each operand of a call is handed to it.

Input: what the author declared. Output: a `RawCode`, which ops name by its `key`, and a `Form` for each operand. For example:

    key = keep(RawCode("scale", "cuda", text, "scale.cu", 1))       raw_call 'scale' [%x, %0] code=key ..
    Form("inout", "memref", "fp32", (3, 48), (64, 1)).text          'inout memref fp32 3x48 64x1'

The text stays out of ops, so that a printed program can be read; `code_of` finds it again in the process that recorded it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

READS, WRITES = frozenset(("in", "inout")), frozenset(("out", "inout"))
EFFECTS = READS | WRITES
_CODES: dict[str, RawCode] = {}


@dataclass(frozen=True)
class RawCode:
    """A function in another language. Line 1 of `text` is line `line` of `file`; `symbol` is the function's name in the text,
    "" for the only one there; `flags` go to the compiler of the dialect; `included` are files that the text includes, with
    digests of their contents; `reference` is the function that the simulator runs."""

    name: str
    dialect: str
    text: str
    file: str = ""
    line: int = 1
    symbol: str = ""
    flags: tuple[str, ...] = ()
    included: tuple[tuple[str, str], ...] = ()
    reference: Callable[..., Any] | None = field(default=None, compare=False, repr=False)

    @property
    def content(self) -> tuple:
        """The facts on which a compiled kernel depends."""
        return self.name, self.dialect, self.text, self.symbol, self.flags, self.included

    @cached_property
    def digest(self) -> str:
        """A digest of the content: part of the names that the code has in a kernel."""
        return hashlib.sha256(repr(self.content).encode()).hexdigest()[:16]

    @cached_property
    def key(self) -> str:
        """A digest that differs from that of any other code in this process; the code's place and its reference are part of
        it."""
        return hashlib.sha256(repr((self.content, self.file, self.line, id(self.reference))).encode()).hexdigest()[:16]


def keep(code: RawCode) -> str:
    """Remember the code in this process; gives its key."""
    _CODES[code.key] = code
    return code.key


def code_of(op) -> RawCode:
    """The code that a `raw_call` calls. KeyError for an op that came from text: its code is in another process."""
    return _CODES[op.attrs["code"]]


@dataclass(frozen=True)
class Form:
    """The form in which an operand of a call is handed over: a `value`, a `pointer` into global memory, a `memref` (a buffer
    of shared memory with extents and strides in elements) or a `barrier`. `effect` is the code's use of the memory: in, out,
    inout; or arrive1, arrive2, ..; "" for values."""

    effect: str
    kind: str
    element: str = ""
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """The form as an attribute of an op."""
        return " ".join((self.effect or "-", self.kind, self.element or "-", _extents(self.shape), _extents(self.strides)))

    @staticmethod
    def of(text: str) -> Form:
        """The form with that text."""
        effect, kind, element, shape, strides = text.split()
        return Form(effect.strip("-"), kind, element.strip("-"), _numbers(shape), _numbers(strides))

    @property
    def reads(self) -> bool:
        return self.effect in READS

    @property
    def writes(self) -> bool:
        return self.effect in WRITES

    @property
    def arrivals(self) -> int:
        """The number of times that the code arrives on the barrier."""
        return int(self.effect.removeprefix("arrive")) if self.effect.startswith("arrive") else 0


def forms_of(op) -> list[Form]:
    """The form of each operand of a `raw_call`, in order."""
    return [Form.of(text) for text in op.attrs["forms"]]


def _extents(numbers: tuple[int, ...]) -> str:
    return "x".join(map(str, numbers)) or "-"


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(one) for one in text.split("x")) if text != "-" else ()
