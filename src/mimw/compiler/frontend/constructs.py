"""Statements and expressions of Python that kernels do not have, refused in words and with what to write instead.

Input: a node of a kernel's syntax tree. Output: a refusal at its line. For example:

    break                   a loop of a kernel has no `break`: it ends where its bounds say. Mend: put the rest under an `if`, or ..
    ring[0] = tile          kernels assign to no elements: `ring` is 2 buffers fp32[64]. Mend: write `tlx.local_store(ring[0], ..
"""

from __future__ import annotations

import ast

from ...language.tle.struct import fields_of
from ...language.tlx.types import buffered_tensor
from ..triton_port.codegen import tensor
from .diagnostics.values import held, kind_of

_SKIP = "put the statements that follow under an `if` with the opposite condition"
_WORDS = {
    ast.Break: ("a loop of a kernel has no `break`: it runs as often as its head says",
                "put what follows under an `if`, or write `while condition:` with a condition that turns false"),
    ast.Continue: ("a loop of a kernel has no `continue`", _SKIP),
    ast.Try: ("a kernel has no `try`: nothing in it raises", "check the condition by an `if`"),
    ast.Raise: ("a kernel has no `raise`",
                "write `tl.static_assert(condition, text)` for what is known when compiling, `tl.device_assert` for values"),
    ast.Lambda: ("a kernel has no `lambda`", "write a function outside the kernel, decorated with `@mimw.jit`"),
    ast.Import: ("a kernel has no `import`", "import at the top of the file"),
    ast.ImportFrom: ("a kernel has no `import`", "import at the top of the file"),
    ast.Delete: ("a kernel has no `del`", "leave it out: a name without uses costs nothing"),
    ast.Global: ("a kernel has no `global`: it cannot assign variables of the file", "store the value through a pointer argument"),
    ast.Nonlocal: ("a kernel has no `nonlocal`", "store the value through a pointer argument"),
    ast.Match: ("a kernel has no `match`", "write `if` and `elif`"),
    ast.ClassDef: ("a kernel has no `class` in it", "write the class outside the kernel, decorated with `@tle.struct`"),
    ast.SetComp: ("a kernel has no sets", "use a tuple"),
    ast.Set: ("a kernel has no sets", "use a tuple"),
    ast.DictComp: ("a kernel has no dictionaries that a loop fills", "use a tuple, or a `tle.struct`"),
    ast.GeneratorExp: ("a kernel has no generators", "write the loop: `for i in tl.static_range(n)`"),
    ast.Starred: ("a kernel has no `*` here", "name the values one by one"),
    ast.AsyncWith: ("a kernel has no `async`", "write `with tlx.async_tasks():`"),
}
_OPERATORS = {
    "MatMult": ("kernels have no `@`", "write `tl.dot(a, b)` for tiles, `tlx.async_dot(a, b)` for buffers"),
    "In": ("kernels have no `in`", "compare with each value: `(x == 1) | (x == 2)`"),
    "NotIn": ("kernels have no `not in`", "compare with each value: `(x != 1) & (x != 2)`"),
}


class Constructs:
    """Mixin over Triton's `CodeGenerator`."""

    def refused(self, node, message: str, mend: str = ""):
        """The refusal of `node`, to be raised."""
        error = self._unsupported(node, message)
        error.hint = mend
        return error

    def generic_visit(self, node):
        words = _WORDS.get(type(node))
        if words is None:
            raise self.refused(node, f"kernels have no such statement or expression of Python ({type(node).__name__})")
        raise self.refused(node, *words)

    def _get_operator(self, node, op, kind):
        words = _OPERATORS.get(type(op).__name__)
        if words is not None and type(op) not in self._operators:
            raise self.refused(node, *words)
        return super()._get_operator(node, op, kind)

    def visit_For(self, node):
        if not isinstance(node.iter, ast.Call):
            text = ast.unparse(node.iter)
            raise self.refused(node, f"a loop of a kernel runs over whole numbers, and this one over `{text}`",
                               f"write `for i in tl.static_range(len(values))` with `values = {text}`, and take `values[i]`")
        if node.orelse:
            raise self.refused(node, "a loop of a kernel has no `else`",
                               "put these statements behind the loop: it always comes to its end")
        if not isinstance(node.target, ast.Name):
            names = ast.unparse(node.target)
            raise self.refused(node, f"a loop of a kernel has one name for its number, and this one has `{names}`",
                               "write `for i in range(n)`, and take the other values by their index")
        return super().visit_For(node)

    def assignTarget(self, target, value):
        if isinstance(target, ast.Attribute) and fields_of(held(self, target.value)) is None:
            text, holder = ast.unparse(target.value), held(self, target.value)
            raise self.refused(target, f"kernels assign to no attributes: `{text}` is {kind_of(holder)}",
                               "give the value a name of its own")
        return super().assignTarget(target, value)

    def visit_Subscript_Store(self, node, value):
        text, whole = ast.unparse(node.value), held(self, node.value)
        index = ast.unparse(node.slice)
        if isinstance(whole, buffered_tensor):
            mend = f"write `tlx.local_store({text}[{index}], tile)`"
        elif isinstance(whole, tensor) and whole.type.is_ptr():
            mend = f"write `tl.store({text} + {index}, value)`"
        else:
            mend = f"make a new tile: `{text} = tl.where(tl.arange(0, N) == {index}, value, {text})`"
        raise self.refused(node, f"kernels assign to no elements: `{text}` is {kind_of(whole)}", mend)
