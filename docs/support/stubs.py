"""Write src/mimw/tlx/__init__.pyi, src/mimw/tle/__init__.pyi and more there: what type checkers and editors know of the words.

Input: the words themselves. Output: stub files, also of the modules that `mimw.tle.raw` and its kin are; `python
docs/support/stubs.py` writes them, and tests/docs/test_stubs.py compares. For example:

    def barrier_wait(bar: Any, phase: Any, pred: Any = None) -> None: ...

Any argument of a word may be a tile, a scalar of the kernel or a number that is known when compiling, so parameters are `Any`.
What the code generator hands to words (`_semantic`) is no parameter of theirs. A value has what its class has, and the fields of
pipes and records besides, which only the kernel knows.
"""

from __future__ import annotations

import ast
import enum
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT / "src")]

import mimw.tle as tle  # noqa: E402
import mimw.tlx as tlx  # noqa: E402

HIDDEN = ("_semantic", "_generator")
# Of a class what Python calls by itself and every object has.
_OBJECT = ("__repr__", "__str__", "__hash__", "__eq__", "__setattr__", "__getattr__", "__init_subclass__", "__post_init__",
           "__reduce__", "__getstate__", "__setstate__", "__del__", "__delattr__", "__replace__", "__new__")
_HEAD = '''"""Written by docs/support/stubs.py: the {family} words for type checkers and editors."""

{enum}from typing import Any

'''
_WIDTH = 120
# A room of which the stub knows no names: whatever is asked of it may be there.
_OPEN = '''"""Written by docs/support/stubs.py: the room tle.{what} for type checkers."""

from typing import Any

{names}def __getattr__(name: str) -> Any: ...
'''
_DSA = "from ..language.tle.dsa import *  # noqa: F403\n\n"
_RAW = '''"""Written by docs/support/stubs.py: the room tle.raw for type checkers. `Input[L["i32"]]` is an annotation there."""

from typing import Any, Generic, TypeVar

'''
_ANNOTATIONS = """
Type = TypeVar("Type")

class Input(Generic[Type]):
    def __getattr__(self, name: str) -> Any: ...

class InOut(Generic[Type]):
    def __getattr__(self, name: str) -> Any: ...

class Output(Generic[Type]):
    def __getattr__(self, name: str) -> Any: ...

def __getattr__(name: str) -> Any: ...
"""


def stubs() -> dict[Path, str]:
    """The text of each file."""
    rooms = ROOT / "src" / "mimw"
    modules = [name for name, value in sorted(vars(tlx).items())
               if isinstance(value, ModuleType) and value.__name__ == f"mimw.tlx.{name}"]
    submodules = "".join(f"from . import {name} as {name}\n" for name in modules)
    outside = "".join(f"from . import {name} as {name}\n" for name in ("dsa", "gpu", "raw"))
    inner = {rooms / "tle" / "raw" / f"{name}.pyi": _OPEN.format(what=f"raw.{name}", names="") for name in tle.raw.MODULES}
    return {
        rooms / "tlx" / "__init__.pyi": stub("TLX", tlx, submodules),
        rooms / "tle" / "__init__.pyi": stub("TLE", tle, outside, ("dsa", "raw", "gpu")),
        rooms / "tle" / "gpu.pyi": stub("TLE's GPU", tle.gpu, ""),
        rooms / "tle" / "dsa.pyi": _OPEN.format(what="dsa", names=_DSA),
        rooms / "tle" / "raw" / "__init__.pyi": _RAW + "".join(f"from . import {name} as {name}\n" for name in sorted(
            tle.raw.MODULES)) + _ANNOTATIONS,
        **inner,
    }


def stub(family: str, module: Any, imports: str, elsewhere: tuple[str, ...] = ()) -> str:
    """The stub of the names of `module`, less those that `imports` brings."""
    names = [name for name in module.__all__ if name not in elsewhere]
    parts = [_of(name, getattr(module, name), set(names)) for name in sorted(names)]
    every = "__all__ = [\n" + "".join(f"    {name!r},\n".replace("'", '"') for name in sorted(module.__all__)) + "]\n"
    text = "\n".join(parts)
    head = _HEAD.format(family=family, enum="import enum\n" * ("(enum.Enum)" in text))
    return head + imports + "\n" * bool(imports) + every + "\n" + text


def _of(name: str, value: Any, known: set[str]) -> str:
    """One name: a class, a word, a helper that is a kernel's function itself, or a value."""
    if isinstance(value, type):
        return _class(name, value, known)
    function = getattr(value, "fn", value)
    if inspect.isroutine(function):
        return _function("", name, function, known)
    return f"{name}: {type(value).__name__ if type(value).__name__ in known else 'Any'}\n"


def _class(name: str, value: type, known: set[str]) -> str:
    if issubclass(value, enum.Enum):
        return f"class {name}(enum.Enum):\n" + "".join(f"    {member.name} = {member.value!r}\n" for member in value)
    bases = [base.__name__ for base in value.__bases__ if base.__name__ in known - {name}]
    found, fields = {}, {}
    for one in reversed([one for one in value.__mro__ if one.__module__.startswith("mimw.")]):
        fields |= getattr(one, "__annotations__", {})
        found |= {key: (one, member) for key, member in vars(one).items()
                  if key not in _OBJECT and (not key.startswith("_") or key.startswith("__"))}
    lines = [f"    {key}: Any\n" for key in fields if not key.startswith("_") and key not in found]
    for key, (_, member) in found.items():
        kind = "@staticmethod" if isinstance(member, staticmethod) else "@classmethod" if isinstance(member, classmethod) else ""
        function = getattr(member, "__func__", member)
        if isinstance(member, property):
            lines.append(f"    @property\n    def {key}(self) -> {_result(member.fget, known)}: ...\n")
        elif inspect.isfunction(function):
            lines.append(f"    {kind}\n" * bool(kind) + _function("    ", key, function, known))
    lines.append("    def __getattr__(self, name: str) -> Any: ...\n")
    of = f"({', '.join(bases)})" if bases else ""
    return f"class {name}{of}:\n" + "".join(lines)


def _function(indent: str, name: str, function: Any, known: set[str]) -> str:
    """A function with the parameters that an author writes, one a line where they are many, and what the call gives."""
    empty = inspect.Parameter.empty
    shown = [one.replace(annotation=empty if one.name in ("self", "cls") else _Text("Any"),
                         default=empty if one.default is empty else _Text(_default(one.default)))
             for one in inspect.signature(function, follow_wrapped=True).parameters.values() if one.name not in HIDDEN]
    result = "None" if function.__name__ == "__init__" else _result(function, known)
    line = f"{indent}def {name}{inspect.Signature(shown, return_annotation=_Text(result))}: ...\n"
    if len(line) <= _WIDTH:
        return line
    head, _, rest = line.partition("(")
    inner, _, tail = rest.rpartition(") -> ")
    return f"{head}(\n" + "".join(f"{indent}    {part},\n" for part in inner.split(", ")) + f"{indent}) -> {tail}"


def _default(value: Any) -> str:
    """A default as it is, if it is a number, a text or nothing."""
    plain = value is None or isinstance(value, (bool, int, float, str)) and not isinstance(value, enum.Enum)
    return repr(value) if plain else "..."


def _result(function: Any, known: set[str]) -> str:
    """The annotation of the result, where all its names mean something in the stub."""
    text = inspect.get_annotations(function).get("return", "Any")
    text = text if isinstance(text, str) else "None" if text is None else getattr(text, "__name__", "Any")
    names = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    return text if names <= known | {"None", "bool", "int", "str", "tuple", "list"} else "Any"


class _Text:
    """An annotation or a default as it stands in the stub."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text


if __name__ == "__main__":
    for path, text in stubs().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        print(path.relative_to(ROOT))
