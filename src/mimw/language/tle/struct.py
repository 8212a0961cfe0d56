"""`tle.struct`: values of a kernel by name, in one value.

Input: a class whose annotations are the fields. Output: the class as kernels call it, one of Triton's aggregates. For example:

    @tle.struct
    class Ring:
        tiles: tle.gpu.buffered_tensor
        size: tl.constexpr = 2

    ring = Ring(tiles)      in a kernel: `ring.tiles` is the buffer, `ring.size` the constant 2; the IR has the buffer alone

How such values travel through helpers, tasks, loops and branches is Triton's own code: as their fields do, one after the other.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from difflib import get_close_matches
from typing import Any, NoReturn

import triton.language.core as tl
from triton import aggregate

from ...errors import StructError
from ...ir import Recording
from ..composite import CompositeType
from ..refuse import inside, refuse
from .struct_fields import FIELDS, Field, declared_fields, is_known

_SEMANTIC = inspect.Parameter("_semantic", inspect.Parameter.KEYWORD_ONLY, default=None)


def struct(cls: type) -> Any:
    """A class of values of a kernel, with a field for each annotation.

    args:      cls  - a class of annotated names, with or without defaults, and of methods of `@mimw.jit` or
                      `@triton.constexpr_function`; its bases are structs. An annotation says what the field takes:
                      `tl.tensor` a tile, a scalar or a pointer; `tl.constexpr` what is known when compiling, which stays so; any
                      class of values, as `tle.gpu.buffered_tensor`, `tlx.mbarrier`, `tle.pipe_reader` or another struct;
                      `A | B` and `A | None`; `Any` what an argument of a helper may be, as it is given
    returns:   the class. Calls take the fields in their order or by name; `value.replace(name=..)` is a copy with other fields
    errors:    StructError for a class, a call or a name that cannot be; LaunchError for a value as argument of a launch
    not:       fields are never assigned; a number given for a field of tl.tensor is a value of the run, as in an assignment
    example:   @tle.struct
               class Ring:
                   tiles: tle.gpu.buffered_tensor
                   size: tl.constexpr = 2
    """
    fields = declared_fields(cls, sys._getframe(1))
    cls.__annotations__ = dict.fromkeys(inspect.get_annotations(cls), tl.base_value)    # which `Field` distinguishes
    cls.__init__ = _initialiser(cls.__name__, fields)
    made = aggregate(cls)
    made.hash_attrs = list(methods_of(made).values())       # what a kernel of `triton.jit` looks at
    made.replace, made.type, made.__str__, made.__repr__ = _replace, property(_type), _text, _text
    made.__reduce__ = _pickled
    if "__eq__" not in vars(cls):
        made.__eq__, made.__hash__ = _equal, _hash
    setattr(made, FIELDS, fields)
    made.__signature__ = inspect.Signature([field.parameter for field in fields.values()])
    made.signature = made.__signature__.replace(parameters=[*made.__signature__.parameters.values(), _SEMANTIC])
    return made


def struct_fields(cls: type) -> Mapping[str, Field] | None:
    """The fields of a struct's class; None for any other class."""
    return getattr(cls, FIELDS, None)


def fields_of(value: Any) -> Mapping[str, Field] | None:
    """The fields of a value that is a struct; None for any other value."""
    return struct_fields(type(value))


def field_values(value: Any) -> dict[str, tl.base_value]:
    """The values of the fields of a struct's value."""
    return {name: getattr(value, name) for name in fields_of(value) or ()}


def methods_of(cls: type) -> dict[str, Any]:
    """The jit functions of a struct's class, those of its bases among them."""
    return {name: one for name, one in vars(cls).items() if hasattr(one, "get_capture_scope")}


def no_such_field(value: Any, name: str) -> NoReturn:
    """Refuse a name that a struct's value does not have."""
    names = [*fields_of(value), *methods_of(type(value))]
    close = get_close_matches(name, names, n=1)
    refuse(StructError, f"{type(value).__name__} has no field or method {name!r}; it has {', '.join(names)}",
           mend=f"write .{close[0]}" if close else "name one of these, or declare the field in the class")


def no_assignment(value: Any, name: str) -> NoReturn:
    """Refuse to assign to a field."""
    if name not in fields_of(value):
        no_such_field(value, name)
    refuse(StructError, f"field {name!r} of {type(value).__name__} is assigned; a value has the fields that it was made with",
           mend=f"make a copy, `name = name.replace({name}=..)`, and assign that")


def check_same_type(name: str, before: Any, after: Any, where: str) -> None:
    """Refuse to carry a struct's value of one type on as one of another type: of other constants, for instance."""
    if fields_of(before) is None or type(before) is not type(after) or before.type == after.type:
        return
    field, held, given = next(one for one in zip(before.type.names, before.type.parts, after.type.parts) if one[1] != one[2])
    refuse(StructError, f"{where} gives {name!r} another type: field {field!r} of {type(before).__name__} is {_shown(held)} "
                        f"before, and {_shown(given)} behind",
           mend=f"annotate `{field}: tl.tensor` if the field is to change at run time, and keep its type")


def _initialiser(struct: str, fields: dict[str, Field]) -> Callable[..., None]:
    def __init__(self, *args, _semantic=None, **kwargs):
        with _in_recording(_semantic):
            for name, value in _bound(struct, fields, args, kwargs):
                setattr(self, name, fields[name].value_of(struct, value, _semantic))

    return __init__


def _bound(struct: str, fields: dict[str, Field], args: tuple, kwargs: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The value that a call gives each field."""
    if len(args) > len(fields):
        refuse(StructError, f"{struct} has {len(fields)} fields, {', '.join(fields)}, and is given {len(args)} values",
               mend="leave the last ones out, or declare a field for each")
    given = dict(zip(fields, args))
    for name in kwargs:
        if name not in fields:
            close = get_close_matches(name, fields, n=1)
            refuse(StructError, f"{struct} has no field {name!r}; it has {', '.join(fields)}",
                   mend=f"write {close[0]}=.." if close else f"leave it out, or declare `{name}` in the class")
        if name in given:
            refuse(StructError, f"field {name!r} of {struct} is given twice, by its place and by its name", mend="give it once")
    given |= kwargs
    missing = [name for name, field in fields.items() if name not in given and not field.has_default]
    if missing:
        refuse(StructError, f"{struct} is made without {', '.join(missing)}",
               mend=f"write {', '.join(f'{name}=..' for name in missing)} in the call, or give defaults in the class")
    return ((name, given.get(name, field.default)) for name, field in fields.items())


class StructType(CompositeType):
    """The type of a struct's values whose fields have the types `parts`."""

    def __init__(self, cls: type, parts: tuple[tl.base_type, ...]):
        self.cls, self.names, self.parts = cls, tuple(struct_fields(cls)), parts

    def of(self, values: list) -> tl.base_value:
        made = self.cls._get_instance()
        for name, value in zip(self.names, values, strict=True):
            setattr(made, name, value)
        return made

    def mangle(self) -> str:
        return f"{self.cls.__module__}.{self.cls.__qualname__}<{', '.join(part.mangle() for part in self.parts)}>"

    def __eq__(self, other) -> bool:
        return type(other) is StructType and self.cls is other.cls and self.parts == other.parts

    __hash__ = CompositeType.__hash__

    def __str__(self) -> str:
        return f"{self.cls.__name__}({', '.join(f'{name}: {_shown(part)}' for name, part in zip(self.names, self.parts))})"

    __repr__ = __str__


def _shown(type_: tl.base_type) -> str:
    return f"the constant {type_.value!r}" if isinstance(type_, tl.constexpr_type) else str(type_)


def _type(self) -> StructType:
    return StructType(type(self), tuple(value.type for value in field_values(self).values()))


def _text(self) -> str:
    """A struct of constants as it was made, of which keys of launches are made, any other one as its type."""
    if not is_known(self):
        return str(self.type)
    held = ((name, value.value if isinstance(value, tl.constexpr) else value) for name, value in field_values(self).items())
    return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in held)})"


def _equal(self, other) -> bool:
    """Two structs of constants are equal if these are, as keys of launches want it; others only if they are one value."""
    return self is other or (type(self) is type(other) and _content(self) is not None and _content(self) == _content(other))


def _hash(self) -> int:
    content = _content(self)
    return id(self) if content is None else content[0]


def _content(self) -> tuple[int, StructType] | None:
    """(hash, type) of a struct of constants, by which it is compared; None for a value of a run. Each launch asks for it, and
    fields are never assigned, so it is kept."""
    held = vars(self)
    if "_kept_content" not in held:
        held["_kept_content"] = (hash(self.type), self.type) if is_known(self) else None
    return held["_kept_content"]


def _pickled(self) -> tuple:
    return type(self), tuple(map(_plain, field_values(self).values()))


def _plain(value: Any) -> Any:
    """Triton's tuples as Python's: theirs cannot be read back."""
    return tuple(map(_plain, value.values)) if isinstance(value, tl.tuple) else value


def _replace(self, *, _semantic=None, **changes):
    """A copy of a struct's value, with other values for the fields that are named."""
    return type(self)(**{**field_values(self), **changes}, _semantic=_semantic)


def _in_recording(semantic: Any) -> AbstractContextManager:
    """The context in which a refusal finds the user's line; Triton's own builder has no line."""
    builder = getattr(semantic, "builder", None)
    return inside(builder) if isinstance(builder, Recording) else nullcontext()


__all__ = ["struct"]
