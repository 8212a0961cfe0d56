"""The content of values, so that two processes can compare them: never an address, never a number that differs between runs.

Input: a value that a kernel, or a function that it calls, names. Output: a text. For example:

    3.0                             float 3.0
    tl.constexpr((128, 64))         constexpr(tuple [int 128, int 64])
    SimpleNamespace(held=[3])       class types.SimpleNamespace(held=list [int 3])
    helper                          @4: the fourth thing that was met, whose text and names are followed later

A second visit of an object gives the number of its first place, so rings end. An object whose content cannot be read is noted
as unknown.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import re
import types
from collections.abc import Callable
from typing import Any

from ....language.tle.raw.function import RawFunction
from ....language.tle.struct import field_values, struct_fields
from ...triton_port.codegen import JITCallable, constexpr
from .found import PLAIN, Seen
from .settled import asks_outside, is_settled, is_settled_module, is_settled_thing, version
from .still import CONTENT, ITEMS, OF, items_of

ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_NUMBERS = (int, float, complex, str, bytes)
_CALLABLES = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial, classmethod, staticmethod,
              property, functools.cached_property)
_OWN_KERNELS = "mimw.kernels."
# Kinds of settled modules: those compared by their `repr`, by their name, by their content, some of them for good.
_BY_REPR = ("torch.dtype", "torch.device", "numpy.dtype", "typing.", "types.GenericAlias", "types.UnionType", "re.Pattern", "ast.",
            "inspect.Signature")
_BY_NAME = ("builtins.wrapper_descriptor", "builtins.method_descriptor", "builtins.classmethod_descriptor",
            "builtins.method-wrapper", "builtins.getset_descriptor", "builtins.member_descriptor", "_collections._tuplegetter")
_CONSTANT = ("triton.language.", "mimw.", "fractions.Fraction", "decimal.Decimal", "dataclasses.", "builtins.object")
_BY_ATTRIBUTES = (*_CONSTANT, "types.SimpleNamespace")
MOST = 1000     # things; a walk that reaches more most likely reaches into a package that is no part of the kernel


class Contents:
    """The state of a walk, and the content of values. A subclass follows functions and classes: `jit_function`,
    `compile_time_function`, `python_function`, `raw_function`, `members`."""

    def __init__(self, follow: bool = True, own_kernels: bool = False):
        self.follow, self.own_kernels, self.seen = follow, own_kernels, Seen(held_now=held_now)
        self.number: dict[int, int] = {}        # of each thing that was met
        self.alive: list[Any] = []              # or its number would be another thing's
        self.todo: list[tuple[Callable, Any, str]] = []
        self.loose: dict[int, tuple[types.ModuleType, str]] = {}    # modules that are handed on as values

    def cannot_follow(self, where: str, why: str) -> str:
        self.seen.unknown = self.seen.unknown or f"{where}: {why}"
        return "?"

    def is_settled(self, thing: Any) -> bool:
        """True if versions determine the content of a module or a function, so that the walk need not follow it."""
        if isinstance(thing, types.ModuleType):
            return is_settled_module(thing) and not (self.own_kernels and thing.__name__.startswith(_OWN_KERNELS))
        return is_settled_thing(thing) and not (self.own_kernels and thing.__module__.startswith(_OWN_KERNELS))

    def jit_function(self, function: JITCallable, where: str) -> None:
        """Follow a kernel or helper."""

    def compile_time_function(self, function: JITCallable, where: str) -> None:
        """Follow a `triton.constexpr_function`."""

    def python_function(self, function: types.FunctionType, where: str) -> None:
        """Follow what runs while a kernel is recorded."""

    def raw_function(self, function: RawFunction, where: str) -> None:
        """Follow native code, or a raw body."""

    def members(self, cls: type, where: str) -> None:
        """Follow a class of the user's."""

    def content(self, value: Any, where: str) -> str:
        """A text that differs for values that differ. Functions, classes and modules are followed later."""
        kind = type(value)
        if kind in PLAIN:
            return f"{kind.__name__} {value!r}"
        if id(value) in self.number:
            return f"@{self.number[id(value)]}"
        if len(self.number) >= MOST:
            return self.cannot_follow(where, f"more than {MOST} things are reached")
        self.number[id(value)] = len(self.number)
        self.alive.append(value)
        if isinstance(value, constexpr):
            self.seen.reads[OF, id(value), "value"] = (OF, value, "value", value.value)
            return f"constexpr({self.content(value.value, where)})"
        if isinstance(value, types.ModuleType):
            return self._module(value, where)
        if isinstance(value, type):
            return self._class(value, where)
        if isinstance(value, RawFunction):
            return self._later(self.raw_function, value, where)
        if isinstance(value, JITCallable):
            return self._jit(value, where)
        if isinstance(value, _CALLABLES) or hasattr(value, "__wrapped__"):
            return self._callable(value, where)
        return self._object(value, kind, where)

    def _later(self, follow: Callable, value: Any, where: str) -> str:
        self.todo.append((follow, value, where))
        return f"@{self.number[id(value)]}" if self.follow else f"at {id(value)}"

    def _module(self, module: types.ModuleType, where: str) -> str:
        if not self.is_settled(module):
            self.loose[id(module)] = module, module.__name__
            if "__getattr__" in vars(module):
                self.cannot_follow(where, f"{module.__name__} works its attributes out")
        return f"module {module.__name__} {version(module.__name__)}"

    def _class(self, cls: type, where: str) -> str:
        path = f"{cls.__module__}.{cls.__qualname__}"
        if is_settled_thing(cls):
            return self.cannot_follow(where, f"names {path}") if asks_outside(path) else f"class {path} {version(cls.__module__)}"
        return self._later(self.members, cls, where or path)

    def _jit(self, function: JITCallable, where: str) -> str:
        if not hasattr(function, "fn"):      # bound to an object
            return f"bound({self.content(function.__self__, where)}, {self.content(function.__func__, where)})"
        python = function.fn
        if self.is_settled(python) and python.__closure__ is None:
            return f"{python.__module__}.{python.__qualname__}"
        follow = self.jit_function if hasattr(function, "params") else self.compile_time_function
        return self._later(follow, function, where or function.__name__)

    def _callable(self, value: Any, where: str) -> str:
        if isinstance(value, types.MethodType):
            return f"method({self.content(value.__self__, where)}, {self.content(value.__func__, where)})"
        if isinstance(value, functools.partial):
            return f"partial({self.content((value.func, value.args, value.keywords), where)})"
        if isinstance(value, (property, functools.cached_property)):
            return f"property({self.content(getattr(value, 'func', None) or value.fget, where)})"
        if isinstance(value, types.FunctionType):
            path = f"{value.__module__}.{value.__qualname__}"
            if self.is_settled(value) and value.__closure__ is None:
                return self.cannot_follow(where, f"calls {path}") if asks_outside(path) else path
            return self._later(self.python_function, value, where or path)
        if isinstance(value, types.BuiltinFunctionType):
            of = value.__self__
            if of is None or isinstance(of, types.ModuleType):
                module = value.__module__ or "builtins"
                path = f"{module}.{value.__qualname__}"
                outside = asks_outside(path) or not is_settled(module)
                return self.cannot_follow(where, f"calls {path}") if outside else path
            return f"method({self.content(of, where)}, {value.__name__})"
        return f"{type(value).__name__}({self.content(value.__wrapped__, where)})"

    def _object(self, value: Any, kind: type, where: str) -> str:
        path = f"{kind.__module__}.{kind.__qualname__}"
        if isinstance(value, enum.Enum):
            return f"{self.content(kind, where)}.{value.name}"
        if isinstance(value, (tuple, list, frozenset, set, dict)):
            return self._container(value, kind, where)
        if struct_fields(kind) is not None:
            return self._struct_value(value, kind, where)
        if path.startswith("mimw.") and isinstance(getattr(value, "cache_key", None), str):
            return f"{path} {value.cache_key}"
        if isinstance(value, _NUMBERS):
            base = next(one for one in _NUMBERS if isinstance(value, one))
            return f"{self.content(kind, where)} {base.__repr__(value)}"
        if path.startswith("numpy") and hasattr(value, "tobytes"):
            if path == "numpy.ndarray":
                self._may_change(value)
            return f"{path} {value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
        if path.startswith(_BY_REPR):
            return f"{path} {ADDRESS.sub('', repr(value))}"
        if path in _BY_NAME:
            return f"{path} {getattr(value, '__qualname__', '')}"
        if is_settled_thing(kind) and not path.startswith(_BY_ATTRIBUTES):
            return self.cannot_follow(where, f"is a {path}")
        held = _held(value)
        if held is None:
            return self.cannot_follow(where, f"is a {path}, whose content is unknown")
        if not path.startswith(_CONSTANT) and not _is_frozen(kind):
            self._may_change(value)
        items = ", ".join(f"{name}={self.content(item, f'{where}.{name}')}" for name, item in held.items())
        return f"{self.content(kind, where)}({items})"

    def _struct_value(self, value: Any, kind: type, where: str) -> str:
        """A struct given to a launch. Nobody can assign its fields, so numbers among them are not asked for again."""
        items = []
        for name, held in field_values(value).items():
            inner = held.value if isinstance(held, constexpr) and type(held.value) in PLAIN else held
            items.append(f"{name}={self.content(inner, f'{where}.{name}')}")
        return f"{self.content(kind, where)}({', '.join(items)})"

    def _container(self, value: Any, kind: type, where: str) -> str:
        if isinstance(value, (list, set, dict)):
            self._may_change(value)
        if isinstance(value, dict):
            items = [f"{self.content(key, where)}: {self.content(item, f'{where}[{key!r}]')}" for key, item in value.items()]
        else:
            items = [self.content(item, f"{where}[{index}]") for index, item in enumerate(value)]
        if isinstance(value, (set, frozenset)):
            items.sort()
        own = f"{self.content(kind, where)} " if not is_settled_thing(kind) else f"{kind.__name__} "
        if getattr(value, "__dict__", None):
            own += self.content(vars(value), where)
        return f"{own}[{', '.join(items)}]"

    def _may_change(self, value: Any) -> None:
        if not self.follow:
            return
        if (items := items_of(value)) is None:
            self.seen.reads[CONTENT, id(value), ""] = (CONTENT, value, "", held_now(value))
        else:       # each of which is asked for what it holds by itself
            self.seen.reads[ITEMS, id(value), ""] = (ITEMS, value, "", items)


def _is_frozen(kind: type) -> bool:
    """True of a dataclass whose attributes stay what they are; a list among them is asked for its own content."""
    return dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen


def _held(value: Any) -> dict[str, Any] | None:
    """The attributes of an object; None if it keeps them where Python does not see them."""
    slots = [name for cls in type(value).__mro__ for name in _listed(vars(cls).get("__slots__", ()))]
    if not hasattr(value, "__dict__") and not slots and type(value) is not object:
        return None
    found = {name: getattr(value, name) for name in slots if hasattr(value, name) and name not in ("__dict__", "__weakref__")}
    return {**found, **getattr(value, "__dict__", {})}


def _listed(slots) -> tuple:
    return (slots, ) if isinstance(slots, str) else tuple(slots)


def content_of(value: Any) -> str:
    """The content of one value, the same in every process; of functions in it only their order counts."""
    return Contents().content(value, "")


def held_now(value: Any) -> str:
    """The content of one value in this process, functions and classes by which they are."""
    return Contents(follow=False).content(value, "")
