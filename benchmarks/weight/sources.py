"""The sources of the package, read once: each file with its tree, each function with its place.

    for function in functions(files("kernels", "ops")):
        function.is_jit, function.parameters, function.place        True, ("a", "b"), "src/mimw/kernels/gemm/kernel.py:45"

Input: names of folders under src/mimw. Output: frozen records of files and functions.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "mimw"
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class File:
    path: Path
    text: str
    tree: ast.Module

    def place(self, node: ast.AST) -> str:
        path = self.path.relative_to(ROOT) if self.path.is_relative_to(ROOT) else self.path
        return f"{path}:{getattr(node, 'lineno', 1)}"

    def code_lines(self) -> set[int]:
        """Lines that hold more than comments and docstrings; of a string over several lines all. (Asked of the tree, as `tokenize`
        takes ten times as long.)"""
        lines = {number for number, line in enumerate(self.text.split("\n"), 1) if line.strip() and line.lstrip()[0] != "#"}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.JoinedStr) or isinstance(node, ast.Constant) and isinstance(node.value, str):
                lines |= _lines(node)
        for node in (self.tree, *statements(self.tree)):
            if isinstance(node, Definition | ast.Module) and ast.get_docstring(node, clean=False) is not None:
                lines -= _lines(node.body[0])
        return lines


@dataclass(frozen=True)
class Function:
    file: File
    node: ast.FunctionDef

    @property
    def place(self) -> str:
        return f"{self.file.place(self.node)} {self.node.name}"

    @property
    def is_jit(self) -> bool:
        """True of `@mimw.jit` and `@triton.jit`, with or without arguments."""
        heads = (one.func if isinstance(one, ast.Call) else one for one in self.node.decorator_list)
        return any(getattr(head, "attr", getattr(head, "id", "")) == "jit" for head in heads)

    @property
    def parameters(self) -> tuple[str, ...]:
        args = self.node.args
        return tuple(one.arg for one in (*args.posonlyargs, *args.args, *args.kwonlyargs))

    def lines(self) -> set[int]:
        """Of the function with its decorators."""
        return _lines(self.node).union(*map(_lines, self.node.decorator_list))


def _lines(node: ast.AST) -> set[int]:
    return set(range(node.lineno, node.end_lineno + 1))


@functools.cache
def read(path: Path) -> File:
    text = path.read_text()
    return File(path, text, ast.parse(text))


def files(*folders: str, package: Path = PACKAGE) -> list[File]:
    """Of these folders of the package, or of all of it."""
    return [read(path) for folder in folders or (".", ) for path in sorted((package / folder).rglob("*.py"))]


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """All that stand below `node`, however deep: definitions among them. Of the nodes of a file five in six are expressions, which
    hold none, and nobody need look through them."""
    for field in ("body", "handlers", "orelse", "finalbody", "cases"):
        for inner in getattr(node, field, ()):
            if isinstance(inner, ast.stmt):
                yield inner
            yield from statements(inner)


def functions(sources: Iterable[File]) -> Iterator[Function]:
    for file in sources:
        for node in statements(file.tree):
            if isinstance(node, ast.FunctionDef):
                yield Function(file, node)


def struct_lines(file: File) -> set[int]:
    """Of the classes that kernels read: `tle.struct`s, with their decorators, and the named tuples of a kernel's nouns.py, which
    are parameters of its launches."""
    classes = [node for node in statements(file.tree) if isinstance(node, ast.ClassDef)]
    nouns = [node for node in classes if any(ast.unparse(one) == "tle.struct" for one in node.decorator_list)
             or file.path.name == "nouns.py" and any(ast.unparse(base) == "NamedTuple" for base in node.bases)]
    return set().union(*(_lines(node) | _lines(one) for node in nouns for one in (node, *node.decorator_list)))
