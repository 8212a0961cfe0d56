"""Every import under src/mimw/ obeys the table of rooms in docs/ARCHITECTURE.md."""

import ast
import functools
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

_ROOT = Path(__file__).parent.parent
_PACKAGE = _ROOT / "src" / "mimw"

# Room -> the rooms and files of ours that it may import besides itself; ir.layouts is part of ir.
_ROOMS = {
    "errors": (),
    "spaces": (),
    "target": ("errors", "spaces"),
    "shown": (),
    "tensor_map": (),
    "depth": (),
    "lifeline": (),
    "collector": (),
    "ir": ("errors", "target"),
    "language": ("ir", "target", "tensor_map", "errors"),
    "tlx": ("language", "ir", "errors"),
    "tle": ("language", "jit", "ir", "errors"),
    "triton_port": ("ir.layouts", "errors"),
    "frontend": ("language", "ir", "triton_port", "tensor_map", "errors"),
    "analysis": ("ir", "target", "errors"),
    "constraints": ("ir", "target", "errors"),
    "storage": ("ir", "analysis", "target", "errors"),
    "passes": ("ir", "analysis", "constraints", "storage", "tensor_map", "target", "errors"),
    "native": ("ir", "target", "triton_port", "errors"),
    "lowering": ("ir", "constraints.solution", "native", "target", "triton_port", "errors"),
    "launch": ("ir", "target", "errors"),
    "guard": ("analysis", "passes", "triton_port", "ir", "errors"),
    "compile": ("analysis", "launch", "collector", "depth", "guard", "frontend", "passes", "constraints", "lowering", "native",
                "report", "shown", "storage", "triton_port", "ir", "tensor_map", "target", "errors"),
    "torch_cuda": (),
    "aliases": ("jit", "simulating", "target", "tle", "tlx", "torch_cuda", "triton_port"),
    "fits": ("launch", "compile", "passes", "triton_port", "ir", "target", "errors"),
    "host": ("triton_port", "tensor_map", "errors"),
    "simulating": ("triton_port",),
    "tool": ("errors",),
    "simulate": ("analysis", "launch", "compile", "depth", "fits", "host", "ir", "passes", "simulator", "report", "shown", "tool",
                 "triton_port", "target", "world", "errors"),
    "ahead": ("launch", "compile", "simulate", "target", "tool", "triton_port", "world"),
    "compile_ahead": ("compile", "jit", "search", "standing_still", "triton_port", "tuning"),
    "standing_still": (),
    "explain": ("ahead", "analysis", "compile", "constraints", "ir", "lowering", "report", "shown", "storage",
                "target", "tool", "triton_port"),
    "check": ("findings", "fits", "search", "simulate", "passes", "target", "tool", "errors"),
    "checking": ("check", "compile", "simulate", "simulating", "target", "tool", "triton_port", "errors"),
    "search": ("analysis", "findings", "lifeline", "memory_model", "simulate", "simulator", "trials", "ir", "target", "world",
               "errors"),
    "findings": ("analysis", "report", "shown", "errors"),
    "trials": ("analysis", "simulate", "ir", "world", "errors"),
    "watchdog": ("analysis", "compile", "host", "ir", "passes", "simulate", "simulator", "triton_port", "errors"),
    "autotune": ("compile", "launch", "simulating", "watchdog", "triton_port", "errors"),
    "decorated": ("triton_port", "errors"),
    "freeze": ("launch", "compile", "host", "simulating", "watchdog", "triton_port", "target", "errors"),
    "export": ("ahead", "analysis", "host", "in_place", "ir", "launch", "simulate", "tool", "triton_port", "errors"),
    "jit": ("checking", "decorated", "freeze", "launch", "compile", "host", "ir", "report", "shown", "simulate", "simulating",
            "standing_still", "tool", "watchdog", "triton_port", "target", "errors"),
    "costs": ("ir", "target", "errors"),
    "timing": ("analysis", "costs", "ir", "passes", "report", "shown", "simulate", "simulating", "simulator", "storage", "tool",
               "trace", "triton_port", "target", "errors"),
    "trace": ("ir", ),
    "memory_model": ("ir", "analysis", "errors"),
    "simulator": ("ir", "analysis", "collector", "costs", "memory_model", "target", "tensor_map", "trace", "triton_port", "world",
                  "errors"),
    "world": ("errors",),
    "report": ("ir", "analysis", "storage", "target", "trace", "errors"),
    "testing": ("check", "findings", "simulator", "triton_port"),
    "cli": ("*",),
    "__main__": ("cli",),
    "__init__": ("*",),
    "kernels": ("tlx", "tle"),
    "in_place": (),
    "ops": ("kernels", "distributed", "in_place", "errors"),
    "distributed": ("language", "triton_port", "watchdog", "world", "errors"),
    "tuning": ("analysis", "compile", "ir", "jit", "kernels", "lifeline", "report", "search", "simulate", "storage", "target",
               "testing", "timing", "triton_port", "errors"),
}
_PRIVATE_TRITON = ("triton._", "triton.runtime", "triton.compiler", "triton.experimental", "triton.backends")
_PLAIN_PYTHON = ("errors", "spaces", "target", "tensor_map", "ir", "analysis", "constraints", "storage", "passes", "report",
                 "costs")
# torch is only in an extra: these rooms may import it at their top, these five inside functions, all others never.
_TORCH, _TORCH_INSIDE_FUNCTIONS = ("kernels", "ops", "in_place"), ("distributed", "export", "testing", "tuning", "cli")


@dataclass(frozen=True)
class Import:
    """One import: `module` absolute, `names` what `from module import names` takes; `lazy` inside a function, `typing` if only a
    reader of types makes it (`if TYPE_CHECKING:`)."""

    room: str
    module: str
    names: tuple[str, ...] = ()
    lazy: bool = False
    typing: bool = False


def imports_of(source: str, module: str, is_package: bool = False) -> list[Import]:
    """All imports in the source of `module` (such as mimw.ir.core), relative ones resolved."""
    return facts(source, module, is_package)[0]


@functools.cache
def facts(source: str, module: str, is_package: bool) -> tuple[list[Import], str]:
    """The imports of a source, and its docstring."""
    room = room_of(module)
    package = module.split(".") if is_package else module.split(".")[:-1]
    found = []

    def visit(node: ast.AST, lazy: bool, typing: bool = False) -> None:
        lazy = lazy or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        if isinstance(node, ast.Import):
            found.extend(Import(room, alias.name, (), lazy, typing) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[:len(package) - node.level + 1] if node.level else []
            target = ".".join([*base, *([node.module] if node.module else [])])
            found.append(Import(room, target, tuple(alias.name for alias in node.names), lazy, typing))
        typing = typing or isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case)):    # no import stands in an expression
                visit(child, lazy, typing)

    visit(tree := ast.parse(source), False)
    return found, ast.get_docstring(tree) or ""


def room_of(module: str) -> str:
    """mimw.ir.core is in the room ir, mimw.jit is its own, mimw itself is `__init__`."""
    return (module.split(".") + ["__init__"])[1]


def complaint(one: Import, public: set[str]) -> str | None:
    """What is wrong with an import, or None. `public` are the names that `mimw` offers."""
    top = one.module.split(".")[0]
    if one.room not in _ROOMS:
        return f"the room {one.room!r} has no row in the table of rooms"
    if top == "mimw":
        return _ours(one, public)
    if top == "triton":
        return _triton(one)
    if top == "torch" and one.room not in _TORCH and not ((one.lazy or one.typing) and one.room in _TORCH_INSIDE_FUNCTIONS):
        return f"imports torch; only {', '.join(_TORCH)} may, and {', '.join(_TORCH_INSIDE_FUNCTIONS)} inside functions"
    if one.room in _PLAIN_PYTHON and top in ("numpy", "ml_dtypes"):
        return f"imports {top}; this room is plain Python"
    return None


def _ours(one: Import, public: set[str]) -> str | None:
    inside = [one.module.split(".")[1:]] if one.module != "mimw" else [[name] for name in one.names]
    for path in inside:
        target = ".".join(path)
        if path[:1] == [one.room] or "*" in _ROOMS[one.room]:
            continue
        if one.room in ("kernels", "ops", "testing") and path[0] in public:
            continue
        if one.room == "kernels" and path[0] == "testing":
            continue
        full = [target, *(f"{target}.{name}" for name in one.names)]
        if not any(name == room or name.startswith(room + ".") for room in _ROOMS[one.room] for name in full):
            return f"imports mimw.{target}; {one.room} may import {', '.join(_ROOMS[one.room]) or 'no room'}"
    return None


def _triton(one: Import) -> str | None:
    reached = [one.module, *(f"{one.module}.{name}" for name in one.names)]
    if one.room == "triton_port":
        return None
    if any((name + ".").startswith(private) for name in reached for private in _PRIVATE_TRITON):
        return f"imports {one.module}, which is private to Triton; only triton_port may"
    if one.room in _PLAIN_PYTHON:
        return f"imports {one.module}; this room does not know Triton"
    return None


@functools.cache
def _modules() -> list[tuple[str, Path]]:
    found = []
    for path in sorted(_PACKAGE.rglob("*.py")):
        parts = path.relative_to(_PACKAGE.parent).with_suffix("").parts
        found.append((".".join(parts[:-1] if parts[-1] == "__init__" else parts), path))
    return found


def circles(imports: dict[str, set[str]]) -> list[tuple[str, ...]]:
    """The import circles among modules: the sets of two and more that all reach each other, given what each imports."""
    reached = {module: set(names) for module, names in imports.items()}
    for through in imports:
        for names in reached.values():
            if through in names:
                names |= reached[through]
    groups = {tuple(sorted(other for other in names if module in reached.get(other, ()))) for module, names in reached.items()
              if module in names}
    return sorted(groups)


def _imports_inside(room: str) -> dict[str, set[str]]:
    """For each module of a room the modules of the room that it imports when it runs, at its top or inside functions."""
    paths = dict(_modules())
    found: dict[str, set[str]] = {}
    for module, path in paths.items():
        if room_of(module) != room:
            continue
        found[module] = set()
        for one in imports_of(path.read_text(), module, path.name == "__init__.py"):
            if one.typing:
                continue
            inner = [f"{one.module}.{name}" for name in one.names if f"{one.module}.{name}" in paths]
            found[module].update(name for name in inner or [one.module] if name in paths and room_of(name) == room)
    return found


@pytest.mark.parametrize("room", _ROOMS)
def test_no_circles_of_imports_inside_a_room(room):
    assert circles(_imports_inside(room)) == []


def test_circles_are_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}) == [("a", "b", "c")]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def _public_names() -> set[str]:
    import mimw
    return set(mimw.__all__)


def test_every_import_obeys_the_table():
    public = _public_names()
    broken = []
    for module, path in _modules():
        for one in imports_of(path.read_text(), module, path.name == "__init__.py"):
            if problem := complaint(one, public):
                broken.append(f"{path.relative_to(_ROOT)}: {problem}")
    assert not broken, "\n" + "\n".join(broken)


def test_every_room_of_the_table_is_in_the_architecture_page():
    page = (_ROOT / "docs" / "ARCHITECTURE.md").read_text()
    missing = [room for room in _ROOMS if not room.startswith("__") and f"`{room}`" not in page]
    assert missing == []


def test_the_table_of_the_page_is_this_one():
    """Its third column; names in it that are not ours are Triton's, torch's and the package's own."""
    page = (_ROOT / "docs" / "ARCHITECTURE.md").read_text()
    page = page[page.index("| Room | Holds | May import |"):].split("\n\n")[0]
    cells = dict(re.findall(r"^\| `(\w+)` \| .* \| (.*?) \|$", page, re.MULTILINE))
    theirs = {"mimw", "mimw.testing", "torch", "triton", "triton.language"}
    told = {room: set(re.findall(r"`([\w.]+)`", cell)) - theirs for room, cell in cells.items()}
    public = {"kernels": {"tlx", "tle"}}        # the page calls them public names
    assert told == {room: set(rooms) - {"*"} - public.get(room, set())
                    for room, rooms in _ROOMS.items() if not room.startswith("__")}


def test_files_that_the_page_names_are_there():
    """Paths from the root or from src/mimw/, and names of files; those with a word in capitals, as NAME, stand for many."""
    names = set(re.findall(r"`((?:[\w.]+/)*[\w.]+(?:/|\.py|\.md|\.toml))`", (_ROOT / "docs" / "ARCHITECTURE.md").read_text()))
    folders = [_ROOT / name for name in ("src/mimw", "tests", "docs", "benchmarks", "tutorials")]
    paths = [*_ROOT.glob("*.md"), *folders, *(path for folder in folders for path in folder.rglob("*"))]
    tree = [f"/{path.relative_to(_ROOT).as_posix()}{'/' if path.is_dir() else ''}" for path in paths]
    missing = [name for name in names if not re.search(r"[A-Z]{3,}", name.removesuffix("CHANGELOG.md"))
               and not any(path.endswith(f"/{name}") for path in tree)]
    assert len(names) > 60 and not missing


# The wings of a room in their order, lowest first: a wing may import itself and those before it. The files beside the
# wings (`run.py`, `__init__.py`) may import them all, and no wing imports such a file.
_WINGS = {"simulator": ("machine", "memory", "words", "search", "clock")}


def climbs(room: str, module: str, target: str) -> bool:
    """Whether a module of one of the room's wings imports a later wing, or a file beside the wings."""
    wings = _WINGS[room]
    here, there = ((name.split(".") + [""] * 3)[:3] for name in (module, target))
    if here[:2] != ["mimw", room] or here[2] not in wings or there[:2] != ["mimw", room]:
        return False
    return there[2] not in wings or wings.index(there[2]) > wings.index(here[2])


@pytest.mark.parametrize("room", _WINGS)
def test_wings_import_in_their_order(room):
    broken = []
    for module, path in _modules():
        for one in imports_of(path.read_text(), module, path.name == "__init__.py"):
            # `from .. import words` names the wing among the names.
            targets = [f"{one.module}.{name}" for name in one.names] if one.module == f"mimw.{room}" else [one.module]
            broken += [f"{path.relative_to(_ROOT)} imports {target}" for target in targets if climbs(room, module, target)]
    assert not broken, "\n" + "\n".join(broken)


@pytest.mark.parametrize("room", _WINGS)
def test_wings_are_those_of_the_page_and_of_the_folder(room):
    page = (_ROOT / "docs" / "ARCHITECTURE.md").read_text()
    assert {path.name for path in (_PACKAGE / room).iterdir() if (path / "__init__.py").exists()} == set(_WINGS[room])
    assert " < ".join(f"`{wing}`" for wing in _WINGS[room]) in page


# Rooms that go into wings of another room, past its face (the names of its `__init__.py`); the page says why.
_GUESTS = {"simulator": {"search": ("machine", "memory", "words"), "timing": ("clock", ), "watchdog": ("machine", "memory")}}


def wing_of(one: Import, room: str) -> str | None:
    """The wing, or the file beside the wings, of another room that an import reaches; None if it takes names of the face."""
    inside = f"mimw.{room}."
    names = [one.module] if one.module.startswith(inside) else [f"{one.module}.{name}" for name in one.names]
    wings = {path.stem for path in (_PACKAGE / room).iterdir()}
    found = [name.removeprefix(inside).split(".")[0] for name in names if name.startswith(inside)]
    if one.module == f"mimw.{room}":    # `from ..simulator import run` takes the function that the face names
        face = (_PACKAGE / room / "__init__.py").read_text()
        found = [name for name in found if f'"{name}"' not in face]
    return next((name for name in found if name in wings), None)


@pytest.mark.parametrize("room", _GUESTS)
def test_other_rooms_take_the_face_or_the_wings_that_they_are_granted(room):
    taken: dict[str, set[str]] = {}
    for module, path in _modules():
        if room_of(module) not in (room, "cli", "__init__"):
            for one in imports_of(path.read_text(), module, path.name == "__init__.py"):
                if (wing := wing_of(one, room)) is not None:
                    taken.setdefault(room_of(module), set()).add(wing)
    assert taken == {guest: set(wings) for guest, wings in _GUESTS[room].items()}
    page = (_ROOT / "docs" / "ARCHITECTURE.md").read_text()
    for guest, wings in _GUESTS[room].items():
        assert f"| `{guest}` | {', '.join(f'`{wing}`' for wing in wings)} |" in page


@pytest.mark.parametrize("source, expected", [
    ("from ..simulator import run, bind", None), ("from ..simulator.memory.arguments import bind", "memory"),
    ("from ..simulator.run import run", "run"), ("from ..simulator import words", "words"), ("from ..trace import Trace", None)])
def test_what_is_past_a_face(source, expected):
    (one,) = imports_of(source, "mimw.timing.predict")
    assert wing_of(one, "simulator") == expected


@pytest.mark.parametrize("target, expected", [
    ("mimw.simulator.words.copies", True), ("mimw.simulator.run", True), ("mimw.simulator", True),
    ("mimw.simulator.machine.tasks", False), ("mimw.simulator.memory.views", False), ("mimw.memory_model.order", False)])
def test_what_climbs(target, expected):
    assert climbs("simulator", "mimw.simulator.memory.views", target) is expected


# Rooms in which no file imports, by whatever way, a file that imports it; imports for annotations alone do not count.
_WITHOUT_CIRCLES = ("simulator", "memory_model", "costs", "search", "timing", "watchdog")


@pytest.mark.parametrize("room", _WITHOUT_CIRCLES)
def test_files_import_in_no_circle(room):
    modules = {module: path for module, path in _modules() if module.split(".")[1:2] == [room]}
    reached = {module: _imported(path, module) & modules.keys() for module, path in modules.items()}
    for _ in modules:
        reached = {module: found.union(*(reached[one] for one in found)) for module, found in reached.items()}
    assert not (circle := sorted(module for module, found in reached.items() if module in found)), circle


def _imported(path: Path, module: str) -> set[str]:
    """The modules that a file needs to be imported itself: `from . import a` needs `a`."""
    tree, known = ast.parse(path.read_text()), {name for name, _ in _modules()}
    tree.body = [node for node in tree.body if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")]
    found = [one for one in imports_of(ast.unparse(tree), module, path.name == "__init__.py") if not one.lazy]
    named = {(one.module, f"{one.module}.{name}") for one in found for name in one.names or ("", )}
    return {inner if inner in known else outer for outer, inner in named}


@pytest.mark.parametrize("module, source", [
    ("mimw.ir.core", "from .types import Type"),
    ("mimw.ir.core", "from ..errors import MimwError"),
    ("mimw.report.timeline", "from ..trace import Trace"),
    ("mimw.report.timeline", "from .. import trace"),
    ("mimw.triton_port.builder", "from triton._C.libtriton import ir"),
    ("mimw.language.core", "import triton.language as tl"),
    ("mimw.kernels.gemm.kernel", "import mimw\nimport torch\nfrom .configs import BEST"),
    ("mimw.kernels.gemm.kernel", "from mimw import install_aliases"),
    ("mimw.ops.matmul", "import mimw\nimport torch\nfrom mimw.kernels import gemm"),
    ("mimw.testing.benchmark", "def run():\n    import torch"),
    ("mimw.cli.demo", "from ..compile import compile_kernel"),
])
def test_accepts(module, source):
    assert [complaint(one, {"install_aliases"}) for one in imports_of(source, module)
            if complaint(one, {"install_aliases"})] == []


@pytest.mark.parametrize("module, source, expected", [
    ("mimw.ir.core", "from ..analysis import uses", "ir may import errors, target"),
    ("mimw.ir.core", "import numpy", "plain Python"),
    ("mimw.report.timeline", "from ..simulator import machine", "report may import"),
    ("mimw.language.core", "from triton.runtime.jit import JITFunction", "only triton_port may"),
    ("mimw.language.core", "from triton import compiler", "only triton_port may"),
    ("mimw.constraints.solver", "import triton.language as tl", "does not know Triton"),
    ("mimw.kernels.gemm.kernel", "from mimw.ir import Program", "kernels may import"),
    ("mimw.kernels.gemm.kernel", "from ...ir import Program", "kernels may import"),
    ("mimw.testing.benchmark", "import torch", "inside functions"),
    ("mimw.ops.matmul", "from mimw.simulating import simulating", "ops may import kernels, distributed"),
    ("mimw.passes.check", "from ..cli import main", "passes may import"),
    ("mimw.attic.thing", "import os", "has no row"),
])
def test_refuses(module, source, expected):
    (problem,) = [complaint(one, {"install_aliases"}) for one in imports_of(source, module)]
    assert expected in problem


def test_test_modules_are_named_from_the_root():
    """As `tests.tle.test_copy`, so that no folder of tests takes the name of a module: docs/support/tle.py is `tle`, too."""
    folders = {path.parent for path in (_ROOT / "tests").rglob("*.py")}
    within = {folder for path in folders for folder in (path, *path.parents) if folder.is_relative_to(_ROOT / "tests")}
    assert not [folder for folder in sorted(within) if not (folder / "__init__.py").exists()]
    assert __name__ == "tests.test_architecture"


def test_module_docstrings_name_input_and_output():
    """And an example, which is indented."""
    without = []
    for module, path in _modules():
        page = facts(path.read_text(), module, path.name == "__init__.py")[1]
        if not (re.search(r"\binput\b", page, re.I) and re.search(r"\boutput\b", page, re.I) and "\n    " in page):
            without.append(str(path.relative_to(_ROOT)))
    assert without == []
