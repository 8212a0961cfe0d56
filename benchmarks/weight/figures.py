"""The figures, each with its goal and the limit above which it may not grow.

    for figure in FIGURES:
        figure.name, figure.goal, figure.limit, figure.value()      "raises", 120, 406, 406

Input: the sources (sources.py). Output: figures that count places, so that they can be listed, or that are one number. A limit is
what the figure was when somebody last brought it down: lower it with the figure.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from . import imports
from .clones import clone_pairs
from .docstrings import clauses
from .sources import PACKAGE, Function, files, functions, statements, struct_lines

HOST = ("kernels", "ops")
MANY = 12       # parameters of a function
Listed = list[str]


@dataclass(frozen=True)
class Figure:
    """`count()` gives the places, or a number and the lines that explain it."""

    name: str
    title: str
    goal: float
    limit: float
    count: Callable[[], Listed | tuple[float, Listed]]

    def value(self) -> float:
        found = self.count()
        return found[0] if isinstance(found, tuple) else len(found)

    def places(self) -> Listed:
        found = self.count()
        return found[1] if isinstance(found, tuple) else found


@cache
def _functions(*folders: str) -> tuple[Function, ...]:
    return tuple(functions(files(*folders)))


def _jit() -> list[Function]:
    return [function for function in _functions(*HOST) if function.is_jit]


def host_lines() -> tuple[int, Listed]:
    """Lines of code outside jit functions and structs of kernels; comments, blank lines and docstrings do not count."""
    inside: dict = {file.path: struct_lines(file) for file in files(*HOST)}
    for function in _jit():
        inside[function.file.path].update(function.lines())
    found = [(len(file.code_lines() - inside[file.path]), file) for file in files(*HOST)]
    found.sort(key=lambda one: (-one[0], one[1].path))
    return sum(lines for lines, _ in found), [f"{file.place(file.tree)} {lines} lines" for lines, file in found]


def raises() -> Listed:
    return [f"{file.place(node)} {ast.unparse(node).splitlines()[0][:90]}"
            for file in files(*HOST) for node in statements(file.tree) if isinstance(node, ast.Raise)]


def wide() -> Listed:
    """The widest first."""
    found = sorted((one for one in _jit() if len(one.parameters) > MANY), key=lambda one: -len(one.parameters))
    return [f"{one.place} {len(one.parameters)} parameters" for one in found]


def mean_width() -> tuple[float, Listed]:
    found = sorted(_jit(), key=lambda one: -len(one.parameters))
    mean = sum(len(one.parameters) for one in found) / len(found)
    return round(mean, 2), [f"{one.place} {len(one.parameters)} parameters" for one in found]


def reads_by_number(function: Function) -> list[tuple[int, ast.Subscript]]:
    """(number, `shape[5]`) of each item that a function reads of a parameter by a constant."""
    found = []
    for node in ast.walk(function.node):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in function.parameters:
            number = node.slice.value if isinstance(node.slice, ast.Constant) else None
            if type(number) is int:
                found.append((number, node))
    return found


def reads_of_records() -> Listed:
    """Items 2 and later, by jit functions and host code: a parameter with three items and more that are told apart by number is a
    record without names."""
    return [f"{one.file.place(node)} {ast.unparse(node)}"
            for one in _functions(*HOST) for number, node in reads_by_number(one) if number >= 2]


def reads_in_kernels() -> Listed:
    """Any item, by jit functions: also of pairs, and of lists of equal things."""
    return [f"{one.file.place(node)} {ast.unparse(node)}" for one in _jit() for _, node in reads_by_number(one)]


def kernel_file(family: str) -> Callable[[], tuple[int, Listed]]:
    def count() -> tuple[int, Listed]:
        (file, ) = [file for file in files(f"kernels/{family}") if file.path.name == "kernel.py"]
        lines = len(file.text.splitlines())
        return lines, [f"{file.place(file.tree)} {lines} lines"]

    return count


def clones() -> Listed:
    return [f"{one.place} = {other.place}" for one, other in clone_pairs(_functions("kernels"))]


def entries() -> Listed:
    return [f"{path.relative_to(PACKAGE.parents[1])}" for path in sorted(PACKAGE.iterdir()) if path.name != "__pycache__"]


@cache
def _imports() -> imports.Graph:
    return imports.imports(PACKAGE)


@cache
def _rooms() -> imports.Graph:
    return imports.rooms(_imports())


def arrows() -> Listed:
    return [f"{room} -> {other}" for room, others in sorted(_rooms().items()) for other in sorted(others)]


def arrows_up() -> Listed:
    return [f"{room} -> {other}" for room, other in imports.arrows_up(_rooms())]


def circles() -> Listed:
    """Files of one room that all reach each other, by imports inside functions and for annotations as well."""
    return [f"{room}: {', '.join(circle)}"
            for room in sorted(_rooms()) for circle in imports.circles(imports.inside(_imports(), room))]


def floors() -> tuple[int, Listed]:
    heights = imports.heights(_rooms())
    return max(heights.values()), [f"{height} {room}" for room, height in sorted(heights.items(), key=lambda one: (one[1], one[0]))]


FIGURES = (
    Figure("host", "host lines of kernels and ops", 6000, 12908, host_lines),
    Figure("raises", "raises in kernels and ops", 120, 103, raises),
    Figure("wide", f"jit functions over {MANY} parameters", 20, 21, wide),
    Figure("width", "mean number of their parameters", 6, 5.3, mean_width),
    Figure("records", "items of parameters read by number, 2 and later", 0, 0, reads_of_records),
    Figure("reads", "items of parameters read by number, in jit functions", 0, 8, reads_in_kernels),
    Figure("batched", "lines of kernels/batched_gemm/kernel.py", 40, 29, kernel_file("batched_gemm")),
    Figure("grouped", "lines of kernels/grouped_gemm/kernel.py", 60, 37, kernel_file("grouped_gemm")),
    Figure("clones", "clone pairs in kernels", 15, 7, clones),
    Figure("clauses", "docstrings that open with a clause", 150, 46, lambda: clauses(files())),
    Figure("entries", "entries of src/mimw", 20, 24, entries),
    Figure("rooms", "rooms of src/mimw", 21, 23, lambda: sorted(_rooms())),
    Figure("arrows", "imports of a room by a room", 101, 82, arrows),
    Figure("floors", "floors of rooms", 13, 11, floors),
    Figure("up", "imports that run up", 0, 0, arrows_up),
    Figure("circles", "circles of files inside a room", 0, 0, circles),
)
