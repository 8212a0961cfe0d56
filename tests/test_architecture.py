"""Every import under src/mimw/ obeys the table of rooms in docs/ARCHITECTURE.md."""

import ast
import functools
import re
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

_ROOT = Path(__file__).parent.parent
_PACKAGE = _ROOT / "src" / "mimw"

# Room -> the rooms, or parts of rooms, that it may import besides itself, lowest floor first: a room imports lower ones only.
_ROOMS = {
    "errors": (),
    "target": ("errors", ),
    "ir": ("target", "errors"),
    "language": ("ir", "target", "errors"),
    "compiler": ("language", "ir", "target", "errors"),
    "simulator": ("compiler.analysis", "compiler.collector", "compiler.triton_port", "compiler.ttgir", "ir", "target", "errors"),
    "report": ("compiler.analysis", "compiler.storage", "ir", "target", "errors"),
    "runtime": ("report", "simulator", "compiler", "ir", "target", "errors"),
    "export": ("runtime.export", ),
    "tlx": ("language", "ir", "errors"),
    "tle": ("runtime.jit", "language", "ir", "errors"),
    "tools": ("runtime", "report", "simulator", "compiler", "ir", "target", "errors"),
    "distributed": ("runtime.watchdog", "compiler.triton_port", "language", "ir", "errors"),
    "testing": ("tools.check", "tools.compile_ahead", "tools.findings", "simulator", "compiler.triton_port"),
    "kernels": ("testing", "tle", "tlx"),
    "score_mods": ("errors", ),
    "ops": ("kernels", "distributed", "score_mods", "runtime.in_place", "target", "errors"),
    "nn": ("ops", "errors"),
    "integrations": ("nn", "ops", "score_mods", "kernels", "export", "runtime.export", "errors"),
    "tuning": ("kernels", "testing", "tools", "runtime", "report", "compiler", "ir", "target", "errors"),
    "cli": ("*",),
    "__init__": ("*",),
    "__main__": ("cli",),
}
# Rooms that take public names from `mimw` itself, as users do.
_PUBLIC = ("kernels", "score_mods", "ops", "nn", "integrations", "testing")
# Folders and files of a room -> those of the same room that they may import.
_INSIDE = {
    "compiler": {
        "depth": (),
        "collector": (),
        "triton_port": (),
        "launch": (),
        "frontend": ("triton_port", ),
        "analysis": (),
        "constraints": (),
        "storage": ("analysis", ),
        "passes": ("analysis", "constraints", "storage"),
        "orchestrate": ("analysis", "constraints", "storage", "passes"),
        "native": ("triton_port", ),
        "lowering": ("constraints.solution", "native", "triton_port"),
        "guard": ("analysis", "passes", "triton_port"),
        "ttgir": ("analysis", "constraints", "triton_port"),
        "pipeline": ("analysis", "launch", "collector", "depth", "guard", "frontend", "passes", "constraints", "lowering", "native",
                     "storage", "triton_port"),
    },
    "runtime": {
        "call": (),
        "in_place": (),
        "simulating": (),
        "library": (),
        "standing_still": (),
        "torch_cuda": (),
        "torch_without_gpu": ("torch_cuda", ),
        "benchmarks": ("simulating", ),
        "before_launch": (),
        "handles": ("before_launch", ),
        "decorated": (),
        "host": (),
        "breakpoints": (),
        "places": (),
        "compiled": ("places", ),
        "gluons": (),
        "compile_kernel": ("compiled", "gluons"),
        "fits": (),
        "case": (),
        "results": ("host", ),
        "spans": ("host", ),
        "launch": ("call", "fits", "host"),
        "ttgir_threads": (),
        "ttgir": ("call", "fits", "launch"),
        "simulate": ("breakpoints", "call", "fits", "launch", "results", "ttgir", "ttgir_threads"),
        "ahead": ("call", "compile_kernel", "compiled", "simulate"),
        "watchdog": ("host", "simulate"),
        "autotune": ("simulating", "watchdog"),
        "freeze": ("host", "simulating", "watchdog"),
        "export": ("ahead", "call", "host", "in_place", "simulate"),
        "jit": ("before_launch", "call", "case", "decorated", "freeze", "handles", "host", "simulate", "simulating",
                "standing_still", "watchdog"),
        "gluon_jit": ("before_launch", "jit", "simulating"),
        "aliases": ("benchmarks", "gluon_jit", "jit", "simulating", "torch_cuda"),
    },
    "tools": {
        "lifeline": (),
        "processes": ("lifeline", ),
        "findings": (),
        "sarif": ("findings", ),
        "trials": (),
        "search": ("findings", "lifeline", "trials"),
        "mends": ("search", ),
        "check": ("findings", "mends", "search"),
        "check_ttgir": ("check", "findings", "search"),
        "checking": ("check", ),
        "every_launch": ("check", "findings"),
        "debugger": ("findings", "search"),
        "timing": (),
        "explain": (),
        "sass": (),
        "assemblers": ("sass", ),
        "compile_ahead": ("processes", "search"),
        "orchestrate": ("check", "compile_ahead", "findings", "sass", "search", "timing", "trials"),
    },
}
# Rooms that only some parts of the compiler may import, and the part that knows Triton's private modules and nothing of ours.
_ONLY = {"language": ("compiler.frontend", )}
_DOOR = {"compiler.triton_port": ("ir.layouts", "errors")}
_PRIVATE_TRITON = ("triton._", "triton.runtime", "triton.compiler", "triton.experimental", "triton.backends")
_PLAIN_PYTHON = ("errors", "target", "ir", "report", "simulator.costs",
                 *(f"compiler.{name}" for name in ("analysis", "constraints", "storage", "passes", "orchestrate")))
_NUMPY = ("mimw.ir.world", )    # the arrays of several simulated GPUs
# torch is only in an extra: these rooms may import it at their top, those below in functions, all others never.
_TORCH = ("kernels", "score_mods", "ops", "nn", "integrations", "runtime.in_place")
_TORCH_INSIDE_FUNCTIONS = ("distributed", "runtime.export", "testing", "tuning", "cli")


@dataclass(frozen=True)
class Import:
    """One import: `importer` makes it, a module of `room`; `module` absolute, `names` what `from module import names` takes; `lazy`
    inside a function, `typing` if only a reader of types makes it (`if TYPE_CHECKING:`)."""

    importer: str
    module: str
    names: tuple[str, ...] = ()
    lazy: bool = False
    typing: bool = False

    @property
    def room(self) -> str:
        return room_of(self.importer)


def imports_of(source: str, module: str, is_package: bool = False) -> list[Import]:
    """All imports in the source of `module` (such as mimw.ir.core), relative ones resolved."""
    return facts(source, module, is_package)[0]


@functools.cache
def facts(source: str, module: str, is_package: bool) -> tuple[list[Import], str]:
    """The imports of a source, and its docstring."""
    package = module.split(".") if is_package else module.split(".")[:-1]
    found = []

    def visit(node: ast.AST, lazy: bool, typing: bool = False) -> None:
        lazy = lazy or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        if isinstance(node, ast.Import):
            found.extend(Import(module, alias.name, (), lazy, typing) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[:len(package) - node.level + 1] if node.level else []
            target = ".".join([*base, *([node.module] if node.module else [])])
            found.append(Import(module, target, tuple(alias.name for alias in node.names), lazy, typing))
        typing = typing or isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case)):    # no import stands in an expression
                visit(child, lazy, typing)

    visit(tree := ast.parse(source), False)
    return found, ast.get_docstring(tree) or ""


def room_of(module: str) -> str:
    """mimw.ir.core is in the room ir, mimw itself is `__init__`."""
    return (module.split(".") + ["__init__"])[1]


def part_of(module: str) -> str:
    """mimw.compiler.passes.fences is in the part compiler.passes; of a room without parts, the room."""
    path = module.split(".")
    return ".".join(path[1:3]) if room_of(module) in _INSIDE else room_of(module)


def within(module: str, names: tuple[str, ...]) -> bool:
    """True if a module, without its `mimw.`, is one of the named rooms or parts, or in one."""
    return any(f"{module}.".startswith(f"{name}.") for name in names)


def complaint(one: Import, public: set[str]) -> str | None:
    """What is wrong with an import, or None. `public` are the names that `mimw` offers."""
    top = one.module.split(".")[0]
    if one.room not in _ROOMS:
        return f"the room {one.room!r} has no row in the table of rooms"
    if top == "mimw":
        return _ours(one, public)
    if top == "triton":
        return _triton(one)
    if top == "torch" and not _may_import_torch(one):
        return f"imports torch; only {', '.join(_TORCH)} may, and {', '.join(_TORCH_INSIDE_FUNCTIONS)} inside functions"
    if _is_plain(one) and top in ("numpy", "ml_dtypes") and one.importer not in _NUMPY:
        return f"imports {top}; this room is plain Python"
    return None


def _may_import_torch(one: Import) -> bool:
    here = one.importer.removeprefix("mimw.")
    return within(here, _TORCH) or (one.lazy or one.typing) and within(here, _TORCH_INSIDE_FUNCTIONS)


def _is_plain(one: Import) -> bool:
    return within(one.importer.removeprefix("mimw."), _PLAIN_PYTHON)


def _ours(one: Import, public: set[str]) -> str | None:
    reached = [one.module] if one.module != "mimw" else [f"mimw.{name}" for name in one.names]
    part = part_of(one.importer)
    for module in reached:
        target = module.removeprefix("mimw.")
        if one.room in _PUBLIC and target.split(".")[0] in public or "*" in _ROOMS[one.room]:
            continue
        full = [target, *(f"{target}.{name}" for name in one.names)]
        if room_of(module) == one.room:
            siblings = tuple(f"{one.room}.{name}" for name in _INSIDE.get(one.room, {}).get(part.rpartition(".")[2], ()))
            if one.room in _INSIDE and part != one.room and not any(within(name, (part, *siblings)) for name in full):
                return f"imports {module}; {part} may import {', '.join(siblings) or 'no part of the room'}"
            continue
        allowed = _DOOR.get(part, _ROOMS[one.room])
        if not any(within(name, allowed) for name in full):
            return f"imports {module}; {part} may import {', '.join(allowed) or 'no room'}"
        if one.room == "compiler" and (only := _ONLY.get(room_of(module))) and part not in only:
            return f"imports {module}; in {one.room} only {', '.join(only)} may"
    return None


def _triton(one: Import) -> str | None:
    reached = [one.module, *(f"{one.module}.{name}" for name in one.names)]
    if part_of(one.importer) == "compiler.triton_port":
        return None
    if any((name + ".").startswith(private) for name in reached for private in _PRIVATE_TRITON):
        return f"imports {one.module}, which is private to Triton; only triton_port may"
    if _is_plain(one):
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
    """For each module of a room the modules of the room that it imports, at its top, inside functions, or for types alone."""
    paths = dict(_modules())
    found: dict[str, set[str]] = {}
    for module, path in paths.items():
        if room_of(module) == room:
            targets = {target for one in imports_of(path.read_text(), module, path.name == "__init__.py")
                       for target in modules_of(one, paths)}
            found[module] = {target for target in targets - {module} if room_of(target) == room}
    return found


def modules_of(one: Import, modules: Container[str]) -> set[str]:
    """The modules among `modules` that an import names: `from . import a` names `a`, if that is one, else the package."""
    inner = {f"{one.module}.{name}" if f"{one.module}.{name}" in modules else one.module for name in one.names or ("", )}
    return {name for name in inner if name in modules}


@pytest.mark.parametrize("room", _ROOMS)
def test_no_circles_of_imports_inside_a_room(room):
    assert circles(_imports_inside(room)) == []


def test_circles_are_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}) == [("a", "b", "c")]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


@pytest.mark.parametrize("source, expected", [
    ("from .tasks import Task", {"mimw.simulator.machine.tasks"}),
    ("from . import tasks, Task", {"mimw.simulator.machine.tasks", "mimw.simulator.machine"}),
    ("def run():\n    from .tasks import Task", {"mimw.simulator.machine.tasks"}),
    ("if TYPE_CHECKING:\n    from .tasks import Task", {"mimw.simulator.machine.tasks"}), ("import numpy", set())])
def test_which_imports_close_a_circle(source, expected):
    (one,) = imports_of(source, "mimw.simulator.machine.poison")
    assert modules_of(one, dict(_modules())) == expected


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
    parts = [f"{room}.{part}" for room, parts in _INSIDE.items() for part in parts]
    missing = [room for room in (*_ROOMS, *parts) if not room.startswith("__") and f"`{room}`" not in page]
    assert missing == []


def test_the_tables_of_the_page_are_these():
    """Their third columns; names in them that are not ours are Triton's, torch's and the package's own."""
    page = (_ROOT / "docs" / "ARCHITECTURE.md").read_text()
    theirs = {"mimw", "torch", "triton", "triton.language"}
    told = {}
    for heading in ("## Rooms", *(f"## Inside `{room}`" for room in _INSIDE)):
        rows = re.findall(r"^\| `([\w.]+)` \| .* \| (.*?) \|$", page[page.index(heading):].split("\n\n|")[1], re.MULTILINE)
        told |= {room: set(re.findall(r"`([\w.]+)`", cell)) - theirs for room, cell in rows}
    rooms = {room: set(below) - {"*"} for room, below in _ROOMS.items() if not room.startswith("__")}
    parts = {f"{room}.{part}": set(others) for room, parts in _INSIDE.items() for part, others in parts.items()}
    assert told == rooms | parts


def test_rooms_import_lower_ones_only():
    """Those of a row stand in rows above it, and so do the parts of a room."""
    floors = list(_ROOMS)
    for number, (room, below) in enumerate(_ROOMS.items()):
        assert {name.split(".")[0] for name in below} - {"*"} <= {*floors[:number]} or room == "__main__"
    for room, parts in _INSIDE.items():
        order = list(parts)
        climbs = [f"{room}.{part}" for number, (part, others) in enumerate(parts.items())
                  if not {name.split(".")[0] for name in others} <= {*order[:number]}]
        assert climbs == []


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
_WINGS = {"simulator": ("costs", "memory_model", "machine", "memory", "words", "search", "clock")}


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
    assert " < ".join(f"`{wing}`" for wing in _WINGS[room]) in " ".join(page.split())


# Rooms that go into wings of another room, past its face (the names of its `__init__.py`); the page says why.
_GUESTS = {"simulator": {"tools.search": ("memory_model", "machine", "memory", "words"), "tools.timing": ("costs", "clock"),
                         "tools.debugger": ("memory_model", "machine", "memory"),
                         "runtime.watchdog": ("machine", "memory")}}


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
                    taken.setdefault(part_of(module), set()).add(wing)
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
    ("mimw.simulator.machine.tasks", False), ("mimw.simulator.memory.views", False), ("mimw.simulator.memory_model.order", False)])
def test_what_climbs(target, expected):
    assert climbs("simulator", "mimw.simulator.memory.views", target) is expected


# Lines that may replace a part of another object: a private attribute that is set or deleted, an entry of its `vars`, a function.
_PATCH = re.compile(r"(?<!self)(?<!cls)\._[a-z]\w*[^=\n(]* = |\bdel \w+\._|\bvars\(\w+\)\.pop\("
                    r"|(?<!self)\.\w+ = (lambda|[a-z_, A-Z]+$)", re.M)
# Doors to other packages, in which what is replaced is theirs.
_PORTS = ("compiler.triton_port", "runtime.torch_cuda", "integrations.inductor.torch_versions")
_MARKS = ("_dynamo_marked_constant", )          # by which torch knows functions


def patches(source: str) -> list[str]:
    """The attributes of other objects that a source replaces: private ones, which it sets or deletes, and any that it makes a
    lambda or a function within a function. A private name is a file's own if the file defines it, or uses it on `self` or `cls`."""
    if not _PATCH.search(source):
        return []
    nodes = list(ast.walk(ast.parse(source)))
    attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    own = {node.attr for node in attributes if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")}
    own |= {node.name for node in functions} | {*_MARKS}
    own |= {node.target.id for node in nodes if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)}
    found = [ast.unparse(node) for node in attributes
             if re.match("_[^_]", node.attr) and node.attr not in own and not isinstance(node.ctx, ast.Load)]
    inner = {one.name for node in functions for one in node.body if isinstance(one, ast.FunctionDef)}
    found += [ast.unparse(target) for target, value in assigned(nodes) if isinstance(target, ast.Attribute)
              and ast.unparse(target.value) != "self" and (isinstance(value, ast.Lambda) or getattr(value, "id", "") in inner)]
    return found + re.findall(r"\bvars\(\w+\)\.pop\(", source)


def assigned(nodes: list[ast.AST]) -> Iterator[tuple[ast.expr, ast.expr]]:
    """(target, value) of all assignments, those of tuples one by one."""
    for node in nodes:
        for target in node.targets if isinstance(node, ast.Assign) else ():
            both = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
            yield from zip(target.elts, node.value.elts) if both else [(target, node.value)]


def test_no_file_replaces_parts_of_what_another_has_made():
    """Hooks stand in their place (`simulator/machine/hooks.py`)."""
    broken = [f"{path.relative_to(_ROOT)}: {one}" for module, path in _modules() if not within(module.removeprefix("mimw."), _PORTS)
              for one in patches(path.read_text())]
    assert not broken, "\n" + "\n".join(broken)


@pytest.mark.parametrize("source, expected", [
    ("machine._next_task = looking", ["machine._next_task"]), ("del machine._codes", ["machine._codes"]),
    ("vars(machine).pop('code', None)", ["vars(machine).pop("]), ("machine.step = 3", []),
    ("machine.launch_order = lambda: ()", ["machine.launch_order"]),
    ("self.random._state, task._at = 1, 2", ["self.random._state", "task._at"]),
    ("def f(machine):\n    def code(): pass\n    machine.data, machine.code = False, code", ["machine.code"]),
    ("self.look = lambda: 1", []), ("class A:\n    _kept: int = 0\n\ndef f(a):\n    a._kept = 1", []), ("self._codes = {}", [])])
def test_which_lines_replace_parts_of_others(source, expected):
    assert patches(source) == expected


@pytest.mark.parametrize("module, source", [
    ("mimw.ir.core", "from .types import Type"),
    ("mimw.ir.core", "from ..errors import MimwError"),
    ("mimw.report.timeline", "from ..ir.trace import Trace"),
    ("mimw.report.timeline", "from ..ir import trace"),
    ("mimw.compiler.triton_port.builder", "from triton._C.libtriton import ir"),
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
    ("mimw.ir.core", "from ..compiler.analysis import uses", "ir may import target, errors"),
    ("mimw.ir.core", "import numpy", "plain Python"),
    ("mimw.report.timeline", "from ..simulator import machine", "report may import"),
    ("mimw.language.core", "from triton.runtime.jit import JITFunction", "only triton_port may"),
    ("mimw.language.core", "from triton import compiler", "only triton_port may"),
    ("mimw.compiler.constraints.solver", "import triton.language as tl", "does not know Triton"),
    ("mimw.kernels.gemm.kernel", "from mimw.ir import Program", "kernels may import"),
    ("mimw.kernels.gemm.kernel", "from ...ir import Program", "kernels may import"),
    ("mimw.testing.benchmark", "import torch", "inside functions"),
    ("mimw.ops.matmul", "from mimw.runtime.simulating import simulating", "ops may import kernels, distributed"),
    ("mimw.compiler.passes.check", "from ..cli import main", "passes may import"),
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
