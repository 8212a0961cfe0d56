"""Kernels of tests stand on one shelf, tests/kernels/, or in the one module that runs them: none is copied, none is borrowed."""

import ast
import functools
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

_TESTS = Path(__file__).parent
_SHELF = _TESTS / "kernels"
_SMALL = 3      # statements: that many say nothing of their own


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Every statement of a tree, as `ast.walk` would find them among ten times as many expressions."""
    for field in ("body", "handlers", "orelse", "finalbody", "cases"):
        for one in getattr(node, field, ()):
            if isinstance(one, ast.stmt):
                yield one
            yield from statements(one)


@functools.cache
def facts(source: str) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """What `kernels_of` gives, and (module, name) of all that is imported from modules; the tree of all tests would be a million
    objects for the garbage collector, so none is kept."""
    nodes = list(statements(ast.parse(source)))
    froms = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    imports = [(node.module, name.name) for node in froms for name in node.names]
    return _kernels(nodes) if "jit" in source else {}, imports


def kernels_of(source: str) -> dict[str, str]:
    """Name -> body, without its docstring, of each function that a `jit` decorates."""
    return facts(source)[0]


def _kernels(nodes: list[ast.stmt]) -> dict[str, str]:
    found = {}
    for node in nodes:
        if isinstance(node, ast.FunctionDef) and any(ast.unparse(one).split("(")[0].endswith("jit") for one in node.decorator_list):
            body = [line for line in node.body if not (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))]
            if sum(1 + sum(1 for _ in statements(line)) for line in body) > _SMALL:
                found[node.name] = "\n".join(map(ast.unparse, body))
    return found


def borrowed(source: str, kernels: dict[str, dict[str, str]]) -> list[str]:
    """The kernels that a module imports from another module of tests that is not on the shelf."""
    places = [(module.removeprefix("tests.").rpartition(".")[2], name) for module, name in facts(source)[1]]
    return [f"{there}.{name}" for there, name in places if name in kernels.get(there, ())]


MODULES = {path: path.read_text() for path in sorted(_TESTS.rglob("*.py"))}
ON_THE_SHELF = [path for path in MODULES if path.parent == _SHELF and not path.stem.startswith(("test_", "__"))]


def test_no_kernel_is_borrowed_from_another_test():
    elsewhere = {path.stem: kernels_of(source) for path, source in MODULES.items() if path.parent != _SHELF}
    assert not {str(path): found for path, source in MODULES.items() if (found := borrowed(source, elsewhere))}


def test_no_kernel_is_copied():
    places = defaultdict(list)
    for path, source in MODULES.items():
        for name, body in kernels_of(source).items():
            places[body].append(f"{path.relative_to(_TESTS)}:{name}")
    assert not [found for found in places.values() if len(found) > 1]


@pytest.mark.parametrize("path", ON_THE_SHELF, ids=lambda path: path.stem)
def test_a_file_of_the_shelf_says_shapes_and_mistakes(path):
    doc = " ".join(ast.get_docstring(ast.parse(MODULES[path])).split())
    assert doc and len(MODULES[path].splitlines()) <= 300
    if kernels_of(MODULES[path]):
        assert "Shapes" in doc or "Rows of" in doc
        assert "istake" in doc or "is right" in doc or "author writes no fence" in doc


def test_what_is_looked_for_is_found():
    kernel = "@mimw.jit\ndef one(x):\n    \"\"\"Says.\"\"\"\n" + "".join(f"    a{i} = x\n" for i in range(_SMALL + 1))
    assert kernels_of(kernel).keys() == {"one"} and kernels_of(kernel) == {"one": kernels_of(kernel.replace("Says", "Is"))["one"]}
    assert not kernels_of(kernel.replace("mimw.jit", "mimw.other")) and not kernels_of("@mimw.jit\ndef one(x):\n    pass\n")
    others = {"test_other": kernels_of(kernel)}
    assert borrowed("from tests.check.test_other import one, two", others) == ["test_other.one"]
    assert borrowed("from .test_other import one", others) == ["test_other.one"]
    assert not borrowed("from tests.kernels.rings import one", others)


def test_every_statement_is_found():
    source = ("def f():\n try:\n  a = 1\n except E:\n  b = 2\n else:\n  c = 3\n finally:\n  d = 4\n"
              "for x in y:\n e = 5\nelse:\n g = 6\n"
              "match x:\n case 1:\n  h = 7\nclass C:\n def i():\n  if j: k = 8\n  with l: m = lambda body: body\n")
    tree = ast.parse(source)
    assert {*statements(tree)} == {node for node in ast.walk(tree) if isinstance(node, ast.stmt)}
