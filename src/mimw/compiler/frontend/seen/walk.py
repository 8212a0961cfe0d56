"""Walk from a kernel to everything that recording it may read: by names, attributes, closures, defaults, helpers and their
callees.

Input: the kernel's JIT function and its compile-time arguments. Output: `Seen`. For example:

    look([kernel, helper_given_as_an_argument]).digest      equal in every process in which all that is reached is equal
"""

from __future__ import annotations

import builtins
import dataclasses
import enum
import inspect
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

from ....language.tle.body.function import BodyFunction
from ....language.tle.body.walker import text_of
from ....language.tle.raw.function import RawFunction
from ....language.tle.struct import methods_of, struct_fields
from ....language.tle.struct_fields import Field
from ...triton_port.codegen import JITCallable, constexpr, parse
from ...triton_port.runtime import knobs
from .contents import ADDRESS, MOST, Contents
from .found import PLAIN, Seen
from .names import Named, named_in_code, named_in_tree
from .settled import asks_outside, version
from .still import ABSENT, CELL, ITEM, OF

_NOT_CONTENT = frozenset((
    "__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__firstlineno__", "__static_attributes__",
    "__abstractmethods__", "_abc_impl", "__dataclass_params__", "__dataclass_fields__"))
_WRITTEN = frozenset((
    "__init__", "__repr__", "__eq__", "__hash__", "__lt__", "__le__", "__gt__", "__ge__", "__setattr__", "__delattr__",
    "__replace__"))
_MISSING = object()


def look(roots: list[Any], own_kernels: bool = False) -> Seen:
    """Everything that the first of `roots`, a JIT function, and its compile-time arguments reach; with `own_kernels` also what
    kernels of this package do."""
    walk = _Walk(getattr(roots[0], "__module__", None) or "", own_kernels)
    for index, root in enumerate(roots):
        walk.todo.append((walk.root, root, f"argument {index}" if index else ""))
    walk.finish()
    return walk.seen


class _Walk(Contents):

    def __init__(self, home: str, own_kernels: bool):
        super().__init__(own_kernels=own_kernels)
        self.home = home
        self.attributes: set[str] = set()       # what modules may be asked for that are handed on as values

    def root(self, value: Any, where: str) -> None:
        self.note(where or "kernel", self.content(value, where))

    def note(self, where: str, content: str) -> None:
        self.seen.lines.append(f"{where}: {content}")

    def read(self, kind: int, holder: Any, name: str, value: Any, where: str) -> str:
        """The content of a value that a name stands for; `still` will ask for the name again."""
        self.seen.reads.setdefault((kind, id(holder), name), (kind, holder, name, value))
        content = self.content(value, where)
        inner = value.value if isinstance(value, constexpr) else value
        if isinstance(inner, PLAIN):
            self.seen.shown.setdefault(where, str(inner))
        return content

    def finish(self) -> None:
        """Follow everything found, then read from modules that are passed on as values every attribute that the code names."""
        asked: set[tuple[int, str]] = set()
        while True:
            while self.todo:
                follow, thing, where = self.todo.pop(0)
                try:
                    follow(thing, where)
                except Exception as error:      # an attribute of the user's that raises, containers too deep
                    self.cannot_follow(where, f"{type(error).__name__}: {error}")
                if len(self.alive) >= MOST:
                    self.cannot_follow(where, f"more than {MOST} things are reached")
                    return
            more = [(module, where, name) for at, (module, where) in self.loose.items() for name in sorted(self.attributes)
                    if (at, name) not in asked and name in vars(module)]
            if not more:
                return
            for module, where, name in more:
                asked.add((id(module), name))
                self.note(f"{where}.{name}", self.read(ITEM, vars(module), name, vars(module)[name], f"{where}.{name}"))

    def jit_function(self, function: JITCallable, where: str) -> None:
        self.seen.functions.append(function)
        self._text(where, function.src, function.starting_line_number)
        self.note(where, f"noinline={getattr(function, 'noinline', None)}")
        self._defaults(function.fn, where)
        self._names(named_in_tree(parse(function)), function.fn, where)

    def compile_time_function(self, function: JITCallable, where: str) -> None:
        self.note(where, f"compile-time {self.content(function.fn, where)}")

    def raw_function(self, function: RawFunction, where: str) -> None:
        self.note(where, f"{function.dialect} {function.name}")
        if not isinstance(function, BodyFunction):
            self.seen.natives.append(function)
            return
        declared = (function.options, function.hardware, tuple(function.parameters.items()), function.result)
        self.note(where, ", ".join(self.content(one, where) for one in declared))
        self._body(function.fn, where)

    def _body(self, function: types.FunctionType, where: str) -> None:
        """A function that is read and not run; its text is that of the first read."""
        self._text(where, *text_of(function))
        self.note(where, self.content(function, where))

    def python_function(self, function: types.FunctionType, where: str) -> None:
        self.note(where, "\n".join(_code(function.__code__)))
        self.seen.reads[OF, id(function), "__code__"] = (OF, function, "__code__", function.__code__)
        self._defaults(function, where)
        self._names(named_in_code(function.__code__), function, where)

    def _text(self, where: str, text: str, line: int) -> None:
        self.note(where, text)
        self.seen.texts.append(f"{line}: {text}")

    def _defaults(self, function: types.FunctionType, where: str) -> None:
        for name in ("__defaults__", "__kwdefaults__"):
            if (given := getattr(function, name)) is not None:
                self.note(f"{where} {name}", self.read(OF, function, name, given, f"{where}: {name}"))

    def members(self, cls: type, where: str) -> None:
        """Note the members of a class of the user's, and its bases."""
        if (fields := struct_fields(cls)) is not None:
            self._struct(cls, fields, where)
            return
        self.note(where, ", ".join(self.content(base, where) for base in cls.__mro__[1:]))
        members = vars(cls)
        if issubclass(cls, enum.Enum):
            for name, member in cls.__members__.items():
                self.note(f"{where}.{name}", self.content(member.value, where))
        if "__dataclass_fields__" in members:
            fields = tuple((one.name, one.init, one.compare, one.kw_only, one.default_factory) for one in dataclasses.fields(cls))
            self.note(f"{where} fields", f"{members['__dataclass_params__']!r} {self.content(fields, where)}")
        for name, value in list(members.items()):
            if issubclass(cls, enum.Enum) and not isinstance(value, types.FunctionType) or _is_written(name, value):
                continue
            if name in _NOT_CONTENT or isinstance(value, (types.MemberDescriptorType, types.GetSetDescriptorType)):
                continue
            if name == "__annotations__":
                self.note(f"{where} annotations", ADDRESS.sub("", repr(value)))
                continue
            self.note(f"{where}.{name}", self.read(ITEM, members, name, value, f"{where}.{name}"))

    def _struct(self, cls: type, fields: Mapping[str, Field], where: str) -> None:
        """The fields of a struct with their defaults, and its methods; what else its class has is ours and Triton's."""
        for name, field in fields.items():
            self.note(f"{where}.{name}: {field.annotation}", self.content(field.accepts, where))
            if field.has_default:
                self.note(f"{where}.{name}", self.read(OF, field, "default", field.default, f"{where}.{name}"))
        for name, method in methods_of(cls).items():
            self.note(f"{where}.{name}", self.read(ITEM, vars(cls), name, method, f"{where}.{name}"))

    def _names(self, named: Named, function: types.FunctionType, where: str) -> None:
        """Follow the values of the chains of names in a function."""
        self.attributes |= named.attributes
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
        for chain in named.chains:
            name = chain[0]
            if name in cells:
                try:
                    value = cells[name].cell_contents
                except ValueError:      # not assigned yet: it may be at any time
                    self.seen.reads[CELL, id(cells[name]), name] = (CELL, cells[name], name, _MISSING)
                    continue
                self._chain((CELL, cells[name], name, value), chain, name, named.computed)
            elif name in function.__globals__:
                value = function.__globals__[name]
                if name in named.assigned and isinstance(value, PLAIN) and not knobs.compilation.allow_non_constexpr_globals:
                    continue        # the function's own variable, which a script has as well; kernels name no such global
                if name in named.assigned and named.is_text and isinstance(value, types.FunctionType):
                    continue        # likewise: no kernel calls a plain function
                home = function.__module__ == self.home
                self._chain((ITEM, function.__globals__, name, value), chain, name if home else f"{function.__module__}.{name}",
                            named.computed)
            elif name in named.assigned:
                continue
            elif not hasattr(builtins, name):
                self._absent(function.__globals__, name, where)
            elif not named.is_text:     # in kernels there are only those that Triton offers
                self._settled(getattr(builtins, name), f"builtins.{name}", where)
        for chain in named.imported:
            module = sys.modules.get(chain[0])
            if module is None:
                self.cannot_follow(where, f"imports {chain[0]} while it runs")
            else:
                self._chain((OF, sys, "modules", sys.modules), ("", *chain[1:]), chain[0], named.computed, module)

    def _chain(self, first: tuple, chain: tuple[str, ...], where: str, computed: bool, value: Any = _MISSING) -> None:
        """Follow a name and the attributes taken of it, through modules, to the first thing that is none."""
        kind, holder, name, held = first
        value = held if value is _MISSING else value
        for index, attribute in enumerate((*chain[1:], None)):
            if isinstance(value, types.ModuleType) and self.is_settled(value):
                self._settled(value, ".".join((value.__name__, *chain[1 + index:])), where)
                return
            if attribute is None or not isinstance(value, types.ModuleType):
                break
            if attribute not in vars(value):
                if "__getattr__" in vars(value):
                    self.cannot_follow(where, f"{value.__name__} works {attribute} out")
                self._absent(vars(value), attribute, where)
                break
            self.seen.reads.setdefault((kind, id(holder), name), (kind, holder, name, value))
            kind, holder, name, value = ITEM, vars(value), attribute, vars(value)[attribute]
            where = f"{where}.{attribute}"
        if isinstance(value, types.ModuleType) and computed:
            self.cannot_follow(where, "is asked for attributes whose names are put together")
        if holder is sys:
            self.note(where, self.content(value, where))
        else:
            self.note(where, self.read(kind, holder, name, value, where))

    def _absent(self, holder: dict, name: str, where: str) -> None:
        """A name that stands for nothing yet."""
        self.note(name, "nothing, in " + where)
        self.seen.reads[ABSENT, id(holder), name] = (ABSENT, holder, name, None)

    def _settled(self, value: Any, path: str, where: str) -> None:
        self.note(where, f"{path} {version(path)}")
        if asks_outside(path):
            self.cannot_follow(where, f"asks {path}")


def _is_written(name: str, member: Any) -> bool:
    """True if `dataclasses` generated a method, whose behaviour follows from the fields."""
    code = getattr(inspect.unwrap(member), "__code__", None) if isinstance(member, types.FunctionType) else None
    return name in _WRITTEN and code is not None and code.co_filename == "<string>"


def _code(code: types.CodeType) -> Iterator[str]:
    """A code object without its place."""
    yield f"{code.co_name} {code.co_argcount} {code.co_posonlyargcount} {code.co_kwonlyargcount} {code.co_flags}"
    yield f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {code.co_freevars} {code.co_cellvars}"
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code(constant)
        else:
            yield f"{type(constant).__name__} {sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant!r}"
