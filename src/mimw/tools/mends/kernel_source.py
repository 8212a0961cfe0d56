"""The source file of a kernel, and the same kernel made of a changed text of that file.

Input: a kernel of `mimw.jit`. Output: its file's text and the functions that it reaches there; a kernel of another text:

    source = source_of(row_sums)
    source.functions                    {"row_sums": <ast.FunctionDef>}: the jitted functions of the file that the kernel calls
    source.remade(changed_text)         the kernel `row_sums` as the changed file would define it

Nothing but these functions is executed again: what else the file does when it is imported has happened, and stays as it was.
"""

from __future__ import annotations

import ast
import linecache
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType
from typing import Any


@dataclass
class KernelSource:
    """The file `path` with its `text`; `scope` are the globals of the kernel's module, `functions` the jitted functions that the
    kernel reaches in this file, by name; `folder` is where changed texts are written, since Python reads a function's source from
    a file."""

    path: str
    text: str
    name: str
    scope: dict[str, Any]
    functions: dict[str, ast.FunctionDef]
    folder: str
    made: int = field(default=0)

    def remade(self, text: str) -> Any:
        """The kernel of a changed text. Errors are Python's: a SyntaxError, or what a decorator raises."""
        self.made += 1
        file = Path(self.folder) / f"{Path(self.path).stem}_{self.made}.py"
        file.write_text(text, encoding="utf-8")
        tree = ast.parse(text, str(file))
        body = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in self.functions]
        scope = dict(self.scope)
        exec(compile(ast.Module(body, []), str(file), "exec"), scope)  # noqa: S102  the user's own file
        return scope[self.name]


@contextmanager
def source_of(kernel: Any) -> Iterator[KernelSource | None]:
    """The source of a kernel; None where a changed text would not define it: a kernel that a function returns, one of a notebook
    or of a library that is installed, one whose file has changed since."""
    found = _read(kernel)
    if found is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="mimw_mends_") as folder:
        yield KernelSource(*found, folder)
        for file in Path(folder).iterdir():
            linecache.cache.pop(str(file), None)


def _read(kernel: Any) -> tuple | None:
    function = getattr(kernel, "fn", None)
    while function is not None and not isinstance(function, FunctionType):
        function = getattr(function, "fn", None)
    if function is None or function.__qualname__ != function.__name__:
        return None
    path = Path(function.__code__.co_filename)
    if "site-packages" in path.parts or not path.is_file():
        return None
    text, scope = path.read_text(encoding="utf-8"), function.__globals__
    if "".join(linecache.getlines(str(path))) not in (text, text + "\n"):
        return None
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None
    defined = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)
               and getattr(scope.get(node.name), "fn", None) is not None}
    if function.__name__ not in defined or sys.modules.get(function.__module__) is None and "__file__" not in scope:
        return None
    return str(path), text, function.__name__, scope, _reached(function.__name__, defined)


def _reached(name: str, defined: dict[str, ast.FunctionDef]) -> dict[str, ast.FunctionDef]:
    """The functions of the file whose names stand in the kernel, in these, and so on."""
    reached, waiting = {}, [name]
    while waiting:
        one = waiting.pop()
        if one in reached:
            continue
        reached[one] = defined[one]
        waiting += [node.id for node in ast.walk(defined[one]) if isinstance(node, ast.Name) and node.id in defined]
    return {one: node for one, node in defined.items() if one in reached}
