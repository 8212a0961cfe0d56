"""What the reference says of a name, as data, read from the code.

Input: a module of the package and a name of its `__all__`. Output: an `Entry`, with the entries of a class's members. For example:

    entry("mimw.tlx", "barrier_wait")
    Entry("mimw.tlx", "barrier_wait", "function", (Parameter("bar"), Parameter("phase"), Parameter("pred", default="None")), ...)

Modules are imported; where that takes torch, `entry(..., source=PATH)` reads the text of the module instead.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from triton.runtime.jit import JITFunction

HIDDEN = ("_semantic", "_generator", "_builder", "self", "cls")
EMPTY = inspect.Parameter.empty


@dataclass(frozen=True)
class Parameter:
    """One parameter, its name with the stars before it; texts as they stand in the code, "" where there is none."""
    name: str
    annotation: str = ""
    default: str = ""


@dataclass(frozen=True)
class Entry:
    """A name: `kind` is function, class, exception, method, property, attribute or data; `call` None where it is no function."""
    module: str
    name: str
    kind: str
    call: tuple[Parameter, ...] | None
    result: str
    doc: str
    members: tuple[Entry, ...] = ()
    file: Path | None = None
    bases: tuple[str, ...] = ()         # of an exception

    @property
    def full(self) -> str:
        return f"{self.module}.{self.name}"


def entry(module: str, name: str, source: Path | None = None) -> Entry:
    """The entry of a name of `module`; by its text alone where the module's file is given as `source`."""
    if source:
        return _read(module, name, source)
    value = getattr(import_module(module), name)
    if isinstance(value, type):
        return _class(module, name, value)
    function = value.fn if isinstance(value, JITFunction) else value
    if inspect.isroutine(function):
        return _function(module, name, "function", function)
    return Entry(module, name, "data", None, "", inspect.getdoc(value) or "" if inspect.ismodule(value) else _doc_of(value))


def result_of(module: str, name: str) -> type | None:
    """The class of what a function of ours gives, where its annotation names one of ours."""
    function = inspect.unwrap(getattr(import_module(module), name))
    text = getattr(function, "__annotations__", {}).get("return")
    found = getattr(function, "__globals__", {}).get(text) if isinstance(text, str) else text
    return found if isinstance(found, type) and found.__module__.startswith("mimw.") else None


def _doc_of(value: Any) -> str:
    """Of an object what its class says, if the class is ours."""
    return (inspect.getdoc(type(value)) or "") if type(value).__module__.startswith("mimw.") else ""


def _file(value: Any) -> Path | None:
    found = inspect.getsourcefile(inspect.unwrap(value))
    return Path(found) if found else None


def _function(module: str, name: str, kind: str, function: Any) -> Entry:
    parameters = inspect.signature(function).parameters.values()
    result = getattr(function, "__annotations__", {}).get("return", "")
    return Entry(module, name, kind, tuple(_parameters(parameters)), "" if result in ("", None, "None") else _annotation(result),
                 inspect.getdoc(function) or "", file=_file(function))


def _parameters(parameters) -> list[Parameter]:
    found, named_only = [], False
    for one in parameters:
        if one.name in HIDDEN:
            continue
        if one.kind is one.VAR_POSITIONAL:
            named_only = True
        elif one.kind is one.KEYWORD_ONLY and not named_only:
            found.append(Parameter("*"))
            named_only = True
        star = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        found.append(Parameter(star + one.name, "" if one.annotation is EMPTY else _annotation(one.annotation),
                               "" if one.default is EMPTY else _value(one.default)))
    return found


def _annotation(value: Any) -> str:
    """An annotation in the code's words. `| Any` says that a kernel may have a parameter of the name, which is the kernel's affair;
    what is only Any says nothing."""
    text = value if isinstance(value, str) else getattr(value, "__name__", str(value))
    text = text.replace(" | Any", "").removeprefix("typing.")
    return "" if text in ("Any", "inspect._empty") else text


def _value(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if callable(value) or type(value).__repr__ is object.__repr__:
        return getattr(value, "__name__", "...")
    return repr(value).replace("triton.language", "tl")


def _class(module: str, name: str, value: type) -> Entry:
    if issubclass(value, enum.Enum):
        members = tuple(Entry(module, f"{name}.{one.name}", "attribute", None, "", "") for one in value)
        return Entry(module, name, "class", None, "", inspect.getdoc(value) or "", members, _file(value))
    kind = "exception" if issubclass(value, BaseException) else "class"
    own = [one for one in value.__mro__ if one.__module__.startswith("mimw.")]
    made = dataclasses.is_dataclass(value) or any("__init__" in vars(one) for one in own)
    call = tuple(_parameters(inspect.signature(value).parameters.values())) if made and kind == "class" else None
    doc = vars(value).get("__doc__") or ""
    generated = dataclasses.is_dataclass(value) and doc.startswith(f"{value.__name__}(")
    bases = tuple(base.__name__ for base in value.__bases__) if kind == "exception" else ()
    members = _members(module, name, own[:1] if bases else own)
    return Entry(module, name, kind, call, "", "" if generated else inspect.cleandoc(doc), members, _file(value), bases)


def _members(module: str, name: str, own: list[type]) -> tuple[Entry, ...]:
    """What a class of ours has for its users: methods and properties that say what they do."""
    found: dict[str, Entry] = {}
    for one in own:
        for key, member in vars(one).items():
            function = getattr(member, "fget", None) or getattr(member, "func", None) or getattr(member, "__func__", member)
            if key.startswith("_") and key not in ("__getitem__", "__call__", "__enter__") or key in found:
                continue
            if not inspect.isfunction(function) or not function.__doc__:
                continue
            if isinstance(member, property) or hasattr(member, "func"):
                result = _annotation(function.__annotations__.get("return", ""))
                found[key] = Entry(module, f"{name}.{key}", "property", None, result, inspect.getdoc(function),
                                   file=_file(function))
            else:
                found[key] = _function(module, f"{name}.{key}", "method", function)
    return tuple(found.values())


def homes(package: Path) -> dict[str, Path]:
    """Where each name of the `__all__` of a package's text is defined: what its `from .module import name` says."""
    tree, found = _tree(package / "__init__.py"), {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
            place = package.joinpath(*node.module.split("."))
            found |= {alias.asname or alias.name: place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
                      for alias in node.names}
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            public = ast.literal_eval(node.value)
    return {name: found[name] for name in public}


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


def _read(module: str, name: str, source: Path) -> Entry:
    """The entry of a function or class of a module that is not imported."""
    node = next(one for one in _tree(source).body if getattr(one, "name", "") == name)
    doc = ast.get_docstring(node) or ""
    if isinstance(node, ast.ClassDef):
        bases = [ast.unparse(base) for base in node.bases]
        kind = "exception" if any(base.endswith(("Error", "Warning")) for base in bases) else "class"
        return Entry(module, name, kind, None, "", doc, file=source, bases=tuple(bases) if kind == "exception" else ())
    return Entry(module, name, "function", tuple(_read_parameters(node.args)), _annotation(ast.unparse(node.returns))
                 if node.returns else "", doc, file=source)


def _read_parameters(arguments: ast.arguments) -> list[Parameter]:
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + arguments.defaults
    found = [_read_parameter(one, default) for one, default in zip(positional, defaults)]
    if arguments.vararg:
        found.append(_read_parameter(arguments.vararg, None, "*"))
    elif arguments.kwonlyargs:
        found.append(Parameter("*"))
    found += [_read_parameter(one, default) for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults)]
    return found + ([_read_parameter(arguments.kwarg, None, "**")] if arguments.kwarg else [])


def _read_parameter(one: ast.arg, default: ast.expr | None, stars: str = "") -> Parameter:
    return Parameter(stars + one.arg, _annotation(ast.unparse(one.annotation)) if one.annotation else "",
                     ast.unparse(default) if default else "")
