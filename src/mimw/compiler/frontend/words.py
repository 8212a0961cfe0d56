"""Does a kernel use any of our words? Decided from its source and the source of its helpers, before anything is
recorded.

Input: a JIT function and its compile-time arguments. Output: True or False. For example:

    uses_words(double)              False for a kernel with names of `tl` only: the kernel takes Triton's own path
    uses_words(gemm)                True: the source says `tlx.async_dot`

The answer errs on the side of yes: a word in a branch that is never taken counts, and a method named as one that some chips need us
for, whatever has it. What was recorded then knows better (`Program.orchestrates`).
"""

from __future__ import annotations

import ast
from types import ModuleType

from ...language.tle.struct import methods_of, struct_fields
from ..triton_port.codegen import JITCallable, parse
from ..triton_port.origin import is_tritons

_ROOMS = ("mimw.language", "mimw.tlx", "mimw.tle")
_KEYWORDS = ("store_reduce", )  # of methods that Triton's values have, too: `desc.store(.., store_reduce=)`
_METHODS = ("extract_tile", "insert_tile")  # words that tensors have as methods: no name of ours need stand before the dot
_PERHAPS = ("gather", "scatter")  # methods of Triton's descriptors that Triton cannot compile for every chip (`frontend.semantic`)


def uses_words(fn, constants: dict | None = None) -> bool:
    """True if `fn`, a helper it reaches, or a function among its compile-time arguments names one of our words."""
    seen: set[int] = set()
    values = [fn, *(constants or {}).values()]
    return any(_reaches(value, seen) for value in values)


def _is_word(value) -> bool:
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "") or ""
    return name.startswith(_ROOMS)


def _reaches(value, seen: set[int]) -> bool:
    if value is None or isinstance(value, (int, float, str)) or id(value) in seen:
        return False
    seen.add(id(value))
    if isinstance(value, (list, tuple)):
        return any(_reaches(item, seen) for item in value)
    if _is_word(value) or _is_word(type(value)):
        return True
    if isinstance(value, JITCallable) and hasattr(value, "parse"):
        if is_tritons(value.fn):
            return False
        scope, tree = value.get_capture_scope(), parse(value)
        if any(_is_ours(node, scope) for node in ast.walk(tree)):
            return True
        return any(_reaches(item, seen) for item in _named(tree, scope))
    if isinstance(value, type) and getattr(value, "__triton_aggregate__", False):
        return any(_reaches(item, seen) for item in _members(value))
    return False


def _members(cls: type):
    """The members of an aggregate's class; for a struct those that its author wrote, as the rest is ours."""
    fields = struct_fields(cls)
    return vars(cls).values() if fields is None else [*methods_of(cls).values(), *(field.default for field in fields.values())]


def _is_ours(node: ast.AST, scope: dict) -> bool:
    """True if the generator of stock Triton does not know this syntax, whatever names stand in it: methods, keywords,
    comprehensions over ranges, and Python's `breakpoint()`."""
    if isinstance(node, ast.Attribute):
        return node.attr in _METHODS or node.attr in _PERHAPS and not isinstance(_resolve(node.value, scope), ModuleType)
    if isinstance(node, ast.ListComp):
        return any(isinstance(one.iter, ast.Call) for one in node.generators)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "breakpoint":
        return "breakpoint" not in scope
    return isinstance(node, ast.Call) and any(keyword.arg in _KEYWORDS for keyword in node.keywords)


def _named(tree: ast.AST, scope: dict):
    """Objects that the names and attribute chains of a function stand for in its scope."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield scope.get(node.id)
        elif isinstance(node, ast.Attribute):
            value = _resolve(node, scope)
            if value is not None:
                yield value


def _resolve(node: ast.AST, scope: dict):
    if isinstance(node, ast.Name):
        return scope.get(node.id)
    if isinstance(node, ast.Attribute):
        base = _resolve(node.value, scope)
        if isinstance(base, (ModuleType, type)):
            return getattr(base, node.attr, None)
    return None
