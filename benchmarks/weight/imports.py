"""The imports between files and rooms of the package: arrows, floors, and circles.

    graph = imports(package)                    {"mimw.runtime.jit": {"mimw.runtime.host", ...}, ...}
    rooms(graph)                                {"jit": {"host", ...}, ...}: a room imports another

Input: the folder of the package; a room is an entry of it, a folder or a file, so nothing here knows rooms by name. Output: what
imports what, wherever the import stands: at the top, inside a function or for annotations alone.
"""

from __future__ import annotations

import ast
from pathlib import Path

from .sources import read, statements

Graph = dict[str, set[str]]


def modules(package: Path) -> dict[str, Path]:
    """Module -> its file."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(package: Path) -> Graph:
    """Module -> the modules of the package that it imports. `from .a import b` means the file a/b.py where there is one."""
    known = modules(package)
    graph: Graph = {}
    for module, path in known.items():
        here = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
        named = {name for node in statements(read(path).tree) if isinstance(node, ast.Import | ast.ImportFrom)
                 for name in _named(node, here)}
        graph[module] = {inner if inner in known else outer for outer, inner in named if {outer, inner} & known.keys()} - {module}
    return graph


def _named(node: ast.Import | ast.ImportFrom, here: list[str]) -> set[tuple[str, str]]:
    """{(module, module.name)} of each name that is taken."""
    if isinstance(node, ast.Import):
        return {(alias.name, alias.name) for alias in node.names}
    base = here[:len(here) - node.level + 1] if node.level else []
    outer = ".".join([*base, *([node.module] if node.module else [])])
    return {(outer, f"{outer}.{alias.name}") for alias in node.names}


FACE = "__init__"


def room_of(module: str) -> str:
    """The entry of the package that a module is in; `__init__` for the package itself."""
    return (module.split(".") + ["__init__"])[1]


def rooms(graph: Graph) -> Graph:
    """Room -> the rooms that it imports. `import mimw`, as kernels have it, takes public names as users do and is no arrow."""
    found: Graph = {}
    for module, targets in graph.items():
        room = room_of(module)
        found.setdefault(room, set()).update({room_of(target) for target in targets} - {room, FACE})
    return found


def inside(graph: Graph, room: str) -> Graph:
    """The part of the graph among the files of a room."""
    within = {module for module in graph if room_of(module) == room}
    return {module: graph[module] & within for module in within}


def circles(graph: Graph) -> list[tuple[str, ...]]:
    """The largest sets of two and more that all reach each other (Tarjan's components)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(one: str) -> None:
        order[one] = low[one] = len(order)
        stack.append(one)
        for other in sorted(graph.get(one, ())):
            if other not in order:
                visit(other)
            if other in stack:
                low[one] = min(low[one], low[other])
        if low[one] == order[one]:
            members = stack[stack.index(one):]
            del stack[stack.index(one):]
            if len(members) > 1:
                found.append(tuple(sorted(members)))

    for one in sorted(graph):
        if one not in order:
            visit(one)
    return sorted(found)


def arrows_up(graph: Graph) -> list[tuple[str, str]]:
    """The arrows that keep rooms from standing on floors: of each circle, as few as a greedy order of its rooms leaves, those first
    that import least of the others and are imported most."""
    found = []
    for circle in circles(graph):
        left = set(circle)
        while left:
            lowest = min(sorted(left), key=lambda room: len(graph[room] & left) - sum(room in graph[other] for other in left))
            left.discard(lowest)
            found += [(lowest, other) for other in sorted(graph[lowest] & left)]
    return sorted(found)


def heights(graph: Graph) -> dict[str, int]:
    """Room -> its floor: 1 for one that imports none, else one above the highest that it imports, arrows up left out."""
    up = set(arrows_up(graph))
    found: dict[str, int] = {}

    def height(room: str) -> int:
        if room not in found:
            found[room] = 1 + max((height(other) for other in graph[room] if (room, other) not in up), default=0)
        return found[room]

    for room in graph:
        height(room)
    return found
