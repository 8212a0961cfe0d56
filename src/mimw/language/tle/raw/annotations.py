"""Declarations of the parameters of native code: annotations, and the MLIR types in them.

Input: a function with annotations as published programs write them. Output: a `Declared` for each parameter that has one. With
`L = typing.Literal`:

    def f(x: InOut[L["memref<?x64xf32, 3>"]], n: Input["i32"]) -> "f32"
    parameters_of(f)["x"]       Declared("inout", Declaration("memref", "fp32", (-1, 64), 3))

A string alone is an `Input`; so is `Annotated[Any, "tensor<1024xf32>"]`.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import Any

UNKNOWN_EXTENT = -1
_ELEMENTS = {"f16": "fp16", "bf16": "bf16", "f32": "fp32", "f64": "fp64", "index": "i64", "f8E4M3FN": "fp8e4nv", "f8E5M2": "fp8e5",
             **{f"i{bits}": f"i{bits}" for bits in (1, 8, 16, 32, 64)}, **{f"ui{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
             **{f"si{bits}": f"i{bits}" for bits in (8, 16, 32, 64)}}
_SHAPED = re.compile(r"(memref|tensor)<((?:(?:\?|\d+)x)*)(\w+)(?:,\s*(?:.*,\s*)?(\d+)(?:\s*:\s*\w+)?)?>")
_POINTER = re.compile(r"!llvm\.ptr(?:<(\d+)>)?")


@dataclass(frozen=True)
class Declaration:
    """An MLIR type: a "memref", "tensor", "pointer", "value" or "barrier". `space` is the address space, 0 where none is said."""

    kind: str
    element: str = ""
    shape: tuple[int, ...] = ()
    space: int = 0
    text: str = ""


@dataclass(frozen=True)
class Declared:
    """A parameter: `effect` is "in", "out" or "inout"; `what` the text of its type, or None if only the effect is said."""

    effect: str
    what: Any = None

    def __call__(self):
        """Refuse a call. The method exists because Python's typing module wants annotations that can be called."""
        raise TypeError("the declaration of a parameter of native code cannot be called")


class Input:
    """The annotation of a parameter that native code reads: `Input["memref<?xf32, 3>"]`, also with `typing.Literal`."""

    _effect = "in"

    def __class_getitem__(cls, item):
        return Declared(cls._effect, item)


class InOut(Input):
    """The annotation of a parameter that native code reads and may write: its new value is a result of the call."""

    _effect = "inout"


class Output(Input):
    """The annotation of a parameter that native code writes, without a look at what was there: all of it."""

    _effect = "out"


def parse_type(text: str) -> Declaration:
    """The type that a text says. ValueError for any other text."""
    text = text.strip()
    if text in _ELEMENTS:
        return Declaration("value", _ELEMENTS[text], text=text)
    if text in ("barrier", "mbarrier"):
        return Declaration("barrier", space=3, text=text)
    if match := _POINTER.fullmatch(text):
        return Declaration("pointer", space=int(match[1] or 0), text=text)
    match = _SHAPED.fullmatch(text)
    if match is None or match[3] not in _ELEMENTS:
        raise ValueError(f"{text!r} is no type of a parameter of native code; write memref<?x64xf32, 3> for a buffer or tile, "
                         "!llvm.ptr<1> for a pointer into global memory, barrier, or a number: i1, i8, i16, i32, i64, index, f16, "
                         "bf16, f32, f64")
    shape = tuple(UNKNOWN_EXTENT if one == "?" else int(one) for one in match[2].split("x")[:-1])
    return Declaration(match[1], _ELEMENTS[match[3]], shape, int(match[4] or 0), text)


def parameters_of(fn) -> dict[str, Declared | None]:
    """The parameters of a function in order; None for one without an annotation."""
    return {name: _declared(fn, parameter.annotation) for name, parameter in inspect.signature(fn).parameters.items()}


def result_of(fn) -> Declaration | None:
    """The declared result of a function, None if there is none."""
    declared = _declared(fn, inspect.signature(fn).return_annotation)
    return None if declared is None or declared.what is None else type_of(declared)


def type_of(declared: Declared) -> Declaration | None:
    """The type of a declared parameter; None if only its effect is said."""
    text = _text_in(declared.what)
    return None if text is None else parse_type(text)


def _declared(fn, annotation) -> Declared | None:
    if annotation is inspect.Parameter.empty or annotation is None:
        return None
    if isinstance(annotation, str):     # written so, or by `from __future__ import annotations`
        annotation = _evaluated(fn, annotation)
    if isinstance(annotation, Declared):
        return annotation
    if isinstance(annotation, type) and issubclass(annotation, Input):
        return Declared(annotation._effect)
    text = _text_in(annotation)
    return None if text is None else Declared("in", text)


def _evaluated(fn, text: str) -> Any:
    """The value of a text as an expression over the names of the function; the text itself if it is no such expression."""
    names = {**fn.__globals__, **inspect.getclosurevars(fn).nonlocals}
    try:
        return eval(text, names)
    except (NameError, SyntaxError, AttributeError, TypeError):
        return text


def _text_in(what: Any) -> str | None:
    """The text in a `Literal`, an `Annotated`, or a text itself."""
    if isinstance(what, str):
        return what.strip("\"'")
    texts = [one for one in (*getattr(what, "__args__", ()), *getattr(what, "__metadata__", ())) if isinstance(one, str)]
    return texts[0] if texts else None
