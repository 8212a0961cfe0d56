"""The names of a server as its wheel has them, read from the sources without importing them.

Input: a wheel, or a folder with an unpacked one, and names as `module:Class.method`. Output: their contracts, as
`mimw.integrations.contracts` has them. For example:

    Sources("vllm-0.33.0-....whl").version                                  "0.33.0"
    Sources(path).contract("vllm.envs:VLLM_BATCH_INVARIANT")                "attribute"
    Sources(path).contract("vllm.platforms.interface:Platform.is_cuda")     [], a function without parameters
"""

import ast
from functools import cached_property
from pathlib import Path
from zipfile import ZipFile

from mimw.integrations.contracts import UNREAD


class Sources:
    """The modules of one wheel."""

    def __init__(self, path: str | Path):
        self._root = ZipFile(path) if Path(path).is_file() else Path(path)
        self._trees: dict[str, ast.Module] = {}

    @cached_property
    def version(self) -> str:
        names = self._root.namelist() if isinstance(self._root, ZipFile) else [one.name + "/" for one in self._root.iterdir()]
        return next(one for one in names if ".dist-info/" in one).split(".dist-info")[0].split("-")[1]

    def text(self, path: str) -> str | None:
        """The text of a file, or None where there is none."""
        try:
            return (self._root.read(path) if isinstance(self._root, ZipFile) else (self._root / path).read_bytes()).decode()
        except (KeyError, FileNotFoundError):
            return None

    def tree(self, module: str) -> ast.Module:
        if module not in self._trees:
            path = module.replace(".", "/")
            text = self.text(f"{path}.py")
            self._trees[module] = ast.parse(self.text(f"{path}/__init__.py") if text is None else text)
        return self._trees[module]

    def contract(self, name: str) -> list[str] | str | None:
        """The parameters of a function, "class", "attribute", or None where the sources lack the name."""
        module, _, path = name.partition(":")
        *owners, last = path.split(".")
        owner: ast.AST = self.tree(module)
        for part in owners:
            owner = next(one for one in _all(owner) if isinstance(one, ast.ClassDef) and one.name == part)
        found = [one for one in _all(owner) if _names(one, last)]
        if not found:
            return "attribute" if owners and _is_set_by_a_method(owner, last) else None
        if isinstance(found[-1], ast.ClassDef):
            return "class"
        if isinstance(found[-1], ast.FunctionDef):
            marks = {ast.unparse(one) for one in found[-1].decorator_list}
            return "attribute" if marks & {"property", "cached_property"} else parameters(found[-1].args)
        return "attribute"


def _all(owner: ast.AST):
    """What stands in a module or a class, inside `if` and `try`, too."""
    for one in ast.iter_child_nodes(owner):
        yield one
        if isinstance(one, (ast.If, ast.Try, ast.ExceptHandler)):
            yield from _all(one)


def _names(node: ast.AST, name: str) -> bool:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return node.name == name
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return any(isinstance(one, ast.Name) and one.id == name for one in targets)


def _is_set_by_a_method(owner: ast.AST, name: str) -> bool:
    return any(isinstance(one, ast.Attribute) and one.attr == name and isinstance(one.ctx, ast.Store)
               and isinstance(one.value, ast.Name) and one.value.id == "self" for one in ast.walk(owner))


def parameters(of: ast.arguments) -> list[str]:
    """As `mimw.integrations.contracts.parameters` has them."""
    plain = [*of.posonlyargs, *of.args]
    given = [None] * (len(plain) - len(of.defaults)) + of.defaults
    found = [one.arg + _default(default) for one, default in zip(plain, given)]
    if plain and plain[0].arg in ("self", "cls"):
        found = found[1:]
    if of.vararg or of.kwonlyargs:
        found.append("*" + (of.vararg.arg if of.vararg else ""))
    found += [one.arg + _default(default) for one, default in zip(of.kwonlyargs, of.kw_defaults)]
    return found + ([f"**{of.kwarg.arg}"] if of.kwarg else [])


def _default(node: ast.expr | None) -> str:
    if node is None:
        return ""
    try:
        return f"={ast.literal_eval(node)!r}"
    except ValueError:
        return f"={UNREAD}"
