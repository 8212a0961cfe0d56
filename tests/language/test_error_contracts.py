"""The docstring of each word names every kind of error with which the word refuses its arguments.

What a word raises is read off its source: `refuse(KIND, ...)`, `raise KIND(...)` and `raise not_yet(...)` in it and in the
functions of the room that it calls, but not in other words, whose contracts are their own.
"""

import ast
from pathlib import Path

import pytest

ROOM = Path(__file__).parents[2] / "src" / "mimw" / "language"
# A kind that a helper of the word can raise and the word cannot: which of the helper's arguments keeps it away.
CANNOT = {
    ("local_reshape", "NotYet"): "it takes no layout",
    ("zeros", "TypeError"): "what is no layout is refused before `register_layout` sees it",
    ("async_descriptor_prefetch_tensor", "ValueError"): "it has no cache modifier",
    ("async_descriptor_store", "ValueError"): "it has no cache modifier",
    ("__getitem__", "NotImplementedError"): "every type of arrays has its own `one`",
}


class Module:
    """The functions of a file, methods by `.name`, and where those that it imports from the room stand."""

    def __init__(self, path: Path, source: str):
        tree = ast.parse(source)
        self.words, self.functions, self.imported = [], {}, {}
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and is_word(node):
                self.words.append(node)
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                self.functions[node.name] = node
            elif isinstance(node, ast.ClassDef):
                methods = {f".{one.name}": one for one in node.body if isinstance(one, ast.FunctionDef)}
                self.functions = methods | self.functions       # of methods of one name, the base's
            elif isinstance(node, ast.ImportFrom) and node.level:
                folder = path.parents[node.level - 1]
                target = folder.joinpath(*(node.module or "").split("."))
                file = target.with_suffix(".py") if target.with_suffix(".py").exists() else target / "__init__.py"
                self.imported |= {name.asname or name.name: (file, name.name) for name in node.names}


def is_word(node: ast.FunctionDef) -> bool:
    return any(ast.unparse(one) == "word" for one in node.decorator_list)


def kinds(modules: dict, path: Path, node: ast.FunctionDef, seen: set) -> set[str]:
    """The kinds that a function raises, itself or by a helper."""
    if node in seen or (seen and is_word(node)):
        return set()
    seen.add(node)
    module, found = modules[path], set()
    for part in ast.walk(node):
        if isinstance(part, ast.Raise) and isinstance(part.exc, ast.Call):
            name = ast.unparse(part.exc.func)
            found |= {"NotYet"} if name == "not_yet" else {name} if name[0].isupper() else set()
        elif isinstance(part, ast.Call):
            name = part.func.id if isinstance(part.func, ast.Name) else f".{getattr(part.func, 'attr', '')}"
            if name == "refuse":
                kind = ast.unparse(part.args[0])
                found |= {kind} if kind[0].isupper() else set()     # else the caller says which
            elif name in module.functions:
                found |= kinds(modules, path, module.functions[name], seen)
            elif module.imported.get(name, (None, ))[0] in modules:
                file, name = module.imported[name]
                if name in modules[file].functions:
                    found |= kinds(modules, file, modules[file].functions[name], seen)
    return found


MODULES = {path: Module(path, path.read_text()) for path in sorted(ROOM.rglob("*.py"))}
WORDS = [(path, node) for path, module in MODULES.items() for node in module.words]


@pytest.mark.parametrize("path, node", WORDS, ids=lambda part: part.name if isinstance(part, ast.FunctionDef) else part.stem)
def test_every_kind_is_named(path, node):
    raised = {kind for kind in kinds(MODULES, path, node, set()) if (node.name, kind) not in CANNOT}
    assert {kind for kind in raised if kind not in (ast.get_docstring(node) or "")} == set()


def test_what_is_looked_for_is_found():
    """In a helper of the same file and of another one, and not in a word that is called."""
    other = Path("/room/other.py")
    there = Module(other, "def check(x):\n    refuse(TypeError, '')\n@word\ndef sibling(x):\n    refuse(KeyError, '')\n")
    here = Module(Path("/room/here.py"), "@word\ndef one(x):\n    '''Says ValueError.'''\n    _own(x), check(x), sibling(x)\n"
                                         "def _own(x):\n    raise not_yet(x, 'one')\n")
    here.imported = {"check": (other, "check"), "sibling": (other, "sibling")}
    modules = {other: there, Path("/room/here.py"): here}
    assert kinds(modules, Path("/room/here.py"), here.words[0], set()) == {"NotYet", "TypeError"}


def test_what_cannot_be_raised_is_still_found_in_a_helper():
    """Else the row of `CANNOT` has no use."""
    found = {(node.name, kind) for path, node in WORDS for kind in kinds(MODULES, path, node, set())}
    assert CANNOT.keys() <= found and len(WORDS) > 90
