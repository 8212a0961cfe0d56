"""The fields of a `tle.struct`: the declarations of its class, and the values that each field takes.

Input: a class, and the values of a call. Output: `Field`s by name, values that fit, or a StructError at the line. For example:

    declared_fields(Ring, frame)["size"]        Field("size", "tl.constexpr", (tl.constexpr, ), default=2)
    fields["size"].value_of("Ring", 3)          tl.constexpr(3)
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from dataclasses import dataclass
from typing import Any, NoReturn

import triton.language.core as tl

from ...errors import StructError
from ...ir import Site
from ..refuse import refuse

FIELDS = "_struct_fields"       # of a struct's class: its fields by name
_MISSING = inspect.Parameter.empty
_NUMBERS = (bool, int, float)
_RESERVED = frozenset((*dir(tl.base_value), "hash_attrs", "replace", "signature", "type"))
_ANNOTATE = ("annotate it with tl.tensor (a tile, a scalar or a pointer), tl.constexpr (known when compiling), a class of values "
             "such as tle.gpu.buffered_tensor or tlx.mbarrier, another struct, `A | None`, or typing.Any")


@dataclass(frozen=True)
class Field:
    """A field: the classes of values that it takes, none of them for any value, and its default."""

    name: str
    annotation: str
    accepts: tuple[type, ...]
    default: Any = _MISSING

    @property
    def has_default(self) -> bool:
        return self.default is not _MISSING

    @property
    def parameter(self) -> inspect.Parameter:
        """The field as a parameter of the struct's calls."""
        return inspect.Parameter(self.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=self.default)

    def value_of(self, struct: str, value: Any, semantic: Any = None) -> tl.base_value:
        """The value that the field holds when it is given `value`. StructError for one that does not fit."""
        value = _as_value(value)
        if not self.accepts or self._takes(value):
            return value
        inner = value.value if isinstance(value, tl.constexpr) else None
        if isinstance(inner, tl.base_value) and self._takes(inner):
            return inner
        if tl.tensor in self.accepts and isinstance(inner, _NUMBERS):
            return self._at_run_time(struct, value, semantic)
        self._refuse(struct, value)

    def _takes(self, value: tl.base_value) -> bool:
        if tl.constexpr in self.accepts and is_known(value):
            return True
        if isinstance(value, tl.constexpr):
            return value.value is None and types.NoneType in self.accepts
        return isinstance(value, self.accepts)

    def _at_run_time(self, struct: str, number: tl.constexpr, semantic: Any) -> tl.tensor:
        """A number that is known when compiling, as a value of the kernel: so it is when a name is assigned one."""
        if semantic is None:
            refuse(StructError, f"field {self.name!r} of {struct} is {self.annotation}, a value of a kernel, and {number.value} is "
                                "given outside of one, or by a function that works on constants",
                   mend=f"call {struct}(..) in the kernel, or annotate `{self.name}: tl.constexpr`; copies with other fields are "
                        "made by value.replace(..)")
        return semantic.to_tensor(number)

    def _refuse(self, struct: str, value: tl.base_value) -> NoReturn:
        mend = f"give a value of {self.annotation}, or annotate the field with what it is to hold"
        if tl.constexpr in self.accepts:
            mend = ("write the literal, or annotate the name where it is assigned (`n: tl.constexpr = 2`): a plain assignment "
                    f"makes a run-time scalar; a field that takes either is annotated `{self.name}: tl.tensor | tl.constexpr`")
        elif isinstance(value, tl.constexpr) and value.value is None:
            mend = f"give a value, or annotate the field `{self.name}: {self.annotation} | None`"
        refuse(StructError, f"field {self.name!r} of {struct} is {self.annotation}, got {_described(value)}", mend=mend)


def is_known(value: tl.base_value) -> bool:
    """True of a value of which the IR holds nothing: a constant, a tuple or a struct of constants, a mesh."""
    handles: list = []
    value._flatten_ir(handles)
    return not handles


def _as_value(value: Any) -> tl.base_value:
    """An argument of a kernel's call as a value of Triton's: constants in their wrappers, tuples as Triton's."""
    if isinstance(value, tuple):
        return tl.tuple([_as_value(item) for item in value])
    return value if isinstance(value, tl.base_value) else tl.constexpr(value)


def _described(value: tl.base_value) -> str:
    if isinstance(value, tl.constexpr):
        return f"the constant {value.value!r}"
    if hasattr(type(value), FIELDS):
        return f"a {type(value).__name__}"
    return f"a {type(value).__name__}, {value}"


def declared_fields(cls: type, frame: types.FrameType) -> dict[str, Field]:
    """The fields of a class and of its bases, those of the bases first. StructError for a class that is no struct."""
    if not isinstance(cls, type):
        raise StructError(f"tle.struct got {cls!r}, which is no class", hint="write @tle.struct above a `class`")
    fields: dict[str, Field] = {}
    for base in reversed(cls.__bases__):
        if base is not object:
            fields |= _of_base(cls, base)
    annotations = _annotations(cls, frame)
    _check_members(cls, annotations)
    for name, annotation in annotations.items():
        _check_name(cls, name)
        fields[name] = Field(name, _shown(annotation), _accepted(cls, name, annotation), vars(cls).get(name, _MISSING))
    if not fields:
        _wrong(cls, "", f"{cls.__name__} has no fields", f"a field is an annotated name: {_ANNOTATE}")
    _check_order(cls, fields)
    return fields


def _of_base(cls: type, base: type) -> dict[str, Field]:
    if not hasattr(base, FIELDS):
        _wrong(cls, "", f"{cls.__name__} is a struct and {base.__name__}, its base, is none",
               f"decorate {base.__name__} with @tle.struct, or leave it out")
    return getattr(base, FIELDS)


def _annotations(cls: type, frame: types.FrameType) -> dict[str, Any]:
    try:
        return inspect.get_annotations(cls, globals=frame.f_globals, locals=frame.f_locals, eval_str=True)
    except Exception as error:      # an annotation is a text that Python evaluates, so it may raise anything
        texts = {name: text for name, text in inspect.get_annotations(cls).items() if isinstance(text, str)}
        name = next((name for name, text in texts.items() if str(getattr(error, "name", None)) in text), "")
        _wrong(cls, name, f"an annotation of {cls.__name__} cannot be read: {error}",
               "import the name, or define it above the class")


def _check_members(cls: type, annotations: dict[str, Any]) -> None:
    for name, value in vars(cls).items():
        if name in annotations or hasattr(value, "get_capture_scope") or tl.is_builtin(value):     # a jit function, a word
            continue
        if name == "__init__":
            _wrong(cls, name, f"{cls.__name__} has an __init__; a struct is made of its fields, in their order or by name",
                   "leave it out; values that take some work are made by a jit function that returns the struct")
        if name.startswith("__") and name.endswith("__"):
            continue
        if isinstance(value, (types.FunctionType, property, staticmethod, classmethod)):
            _wrong(cls, name, f"{name!r} of {cls.__name__} is a plain Python method, which a kernel cannot call",
                   "decorate it with @mimw.jit, and leave @property and the like out; with @triton.constexpr_function if it "
                   "works on what is known when compiling")
        _wrong(cls, name, f"{name!r} of {cls.__name__} has a value and no annotation, so it is no field", _ANNOTATE)


def _check_name(cls: type, name: str) -> None:
    if name.startswith("_") or name in _RESERVED:
        why = "names with `_` in front are reserved" if name.startswith("_") else "values of kernels use that name"
        _wrong(cls, name, f"a field of {cls.__name__} cannot be called {name!r}: {why}", "take another name")


def _check_order(cls: type, fields: dict[str, Field]) -> None:
    before = ""
    for field in fields.values():
        if before and not field.has_default:
            _wrong(cls, field.name,
                   f"field {field.name!r} of {cls.__name__} has no default and stands behind {before!r}, which has one",
                   "put fields with defaults last, or give this one a default, too")
        before = field.name if field.has_default else before


def _accepted(cls: type, name: str, annotation: Any) -> tuple[type, ...]:
    """The classes of an annotation; none for `Any`."""
    if annotation is Any or annotation is tl.base_value:
        return ()
    of_several = typing.get_origin(annotation) in (types.UnionType, typing.Union)
    parts = typing.get_args(annotation) if of_several else (annotation, )
    parts = tuple(types.NoneType if part is None else part for part in parts)
    for part in parts:
        if not (isinstance(part, type) and issubclass(part, (tl.base_value, types.NoneType))):
            _wrong(cls, name, f"field {name!r} of {cls.__name__} is annotated {_shown(part)}, no class of a kernel's values",
                   _ANNOTATE)
    return parts


def _shown(annotation: Any) -> str:
    if isinstance(annotation, type):
        of_triton = issubclass(annotation, tl.base_value) and annotation.__module__.startswith("triton.language")
        return f"tl.{annotation.__name__}" if of_triton else annotation.__name__
    return str(annotation).replace("triton.language.core.", "tl.")


def _wrong(cls: type, name: str, message: str, mend: str) -> NoReturn:
    raise StructError(message, _site(cls, name), hint=mend)


def _site(cls: type, name: str) -> Site | None:
    """The line of a class that declares a name, else the class's first."""
    try:
        lines, first = inspect.getsourcelines(cls)
        file = inspect.getsourcefile(cls)
    except (OSError, TypeError):
        return None
    declares = re.compile(rf"\s*(def\s+|class\s+)?{re.escape(name)}\b") if name else re.compile(r"\s*class\b")
    at = next((index for index, line in enumerate(lines) if declares.match(line)), 0)
    return Site(file, first + at, len(lines[at]) - len(lines[at].lstrip()))
