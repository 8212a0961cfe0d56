"""Names in a function: chains of a name and its attributes, in the text of a kernel or the code of a Python function.

Input: the syntax tree of a JIT function, or a code object. Output: `Named`. For example, of `x * consts.C + len(SIZES)`:

    chains      (("x", ), ("consts", "C"), ("len", ), ("SIZES", )), without parameters and variables of comprehensions
    attributes  {"C"}: of whatever value; what a module is asked for that is handed on as a value
    computed    True if attributes are asked for by names that are put together while running
"""

from __future__ import annotations

import ast
import dis
from dataclasses import dataclass, field
from types import CodeType


@dataclass
class Named:
    """`assigned` are names that the function gives values itself, but not surely before they are read; `imported` the modules that
    it imports while it runs; `is_text` says that the frontend reads the function."""

    chains: dict[tuple[str, ...], None] = field(default_factory=dict)
    attributes: set[str] = field(default_factory=set)
    assigned: set[str] = field(default_factory=set)
    imported: dict[tuple[str, ...], None] = field(default_factory=dict)
    computed: bool = False
    is_text: bool = False


def named_in_tree(tree: ast.FunctionDef) -> Named:
    """The names in a JIT function, which the frontend reads by its text."""
    reader = _Reader({one.arg for one in ast.walk(tree.args) if isinstance(one, ast.arg)})
    for part in (tree.args, *tree.body):
        reader.visit(part)
    return reader.found


class _Reader(ast.NodeVisitor):

    def __init__(self, local: set[str]):
        self.found, self.local = Named(is_text=True), local

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._chain((node.id, ))
        else:
            self.found.assigned.add(node.id)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """`N += 1` reads what N stands for before."""
        if isinstance(node.target, ast.Name):
            self._chain((node.target.id, ))
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.found.attributes.add(node.attr)
        chain, base = [node.attr], node.value
        while isinstance(base, ast.Attribute):
            self.found.attributes.add(base.attr)
            chain.insert(0, base.attr)
            base = base.value
        if isinstance(base, ast.Name):
            self._chain((base.id, *chain))
        else:
            self.visit(base)

    def visit_Call(self, node: ast.Call) -> None:
        given = [*node.args]
        if isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr") and len(given) > 1:
            name = given[1]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                self.found.attributes.add(name.value)
            else:
                self.found.computed = True
        self.generic_visit(node)

    def _comprehension(self, node) -> None:
        """The first range is worked out outside; the variables are the comprehension's own."""
        self.visit(node.generators[0].iter)
        before = self.local
        self.local = before | {one.id for generator in node.generators for one in ast.walk(generator.target)
                               if isinstance(one, ast.Name)}
        for index, generator in enumerate(node.generators):
            for part in (*([generator.iter] if index else []), *generator.ifs):
                self.visit(part)
        for part in ([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]):
            self.visit(part)
        self.local = before

    visit_ListComp = visit_SetComp = visit_GeneratorExp = visit_DictComp = _comprehension

    def _chain(self, chain: tuple[str, ...]) -> None:
        if chain[0] not in self.local:
            self.found.chains[chain] = None


_BY_NAME = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF")
_OF_IT = ("LOAD_ATTR", "LOAD_METHOD")
_LOOKS = frozenset(("getattr", "hasattr", "attrgetter"))


def named_in_code(code: CodeType) -> Named:
    """The names in a Python function, which runs while a kernel is recorded: in its code, and in that of the functions in it."""
    found = Named()
    todo = [code]
    while todo:
        one = todo.pop()
        todo.extend(constant for constant in one.co_consts if isinstance(constant, CodeType))
        _chains(one, found)
        if _LOOKS.intersection(one.co_names):
            found.computed = True
            found.attributes.update(constant for constant in one.co_consts if isinstance(constant, str))
    return found


def _chains(code: CodeType, found: Named) -> None:
    chain, where = None, found.chains
    for step in dis.get_instructions(code):
        if step.opname in _OF_IT or step.opname == "IMPORT_FROM":
            found.attributes.add(step.argval)
        if chain is not None and step.opname in _OF_IT:
            chain += (step.argval, )
            continue
        if step.opname == "IMPORT_FROM" and where is found.imported:
            where[(*chain, step.argval)] = None
            continue
        if chain is not None and where is found.chains:
            where[chain] = None
        if step.opname in _BY_NAME:
            chain, where = (step.argval, ), found.chains
        elif step.opname == "IMPORT_NAME":
            chain, where = (step.argval, ), found.imported
            where[chain] = None
        elif where is found.chains or not step.opname.startswith("STORE_"):
            chain, where = None, found.chains
    if chain is not None and where is found.chains:
        where[chain] = None
