"""What a loop of a kernel runs over: whole numbers, known at run time or, of an unrolled loop, when compiling.

Input: an error of a loop's head. Output: which bound it is, and what the bound is. For example:

    for i in range(n):      the bound `n` of the loop is a pointer to fp32, and should be a whole number. Mend: .. `tl.load(n)`
"""

from __future__ import annotations

import ast
import re

from ...triton_port.codegen import constexpr, tensor
from .values import held, kind_of

_BOUNDS = re.compile(r"For (?:loop bounds and step|lower bound|upper bound|step) must")


def loop(generator, node, root, message):
    """(message, mend) for the head of a loop."""
    if not isinstance(node, ast.For):
        return None
    head = ast.unparse(node.iter)
    if message.startswith("Only `range`"):
        return f"a loop of a kernel runs over `range`, `tl.range` or `tl.static_range`, and this one over `{head}`", ""
    if "used as tl.static_range" in message:
        return (f"`{head}` is unrolled when the kernel is compiled, so its bounds must be constants, and one is known at run time "
                "only", "write `range(...)`, or make the bound a parameter `N: tl.constexpr`")
    return _bounds(generator, node, message) if _BOUNDS.match(message) else None


def _bounds(generator, node: ast.For, message: str) -> tuple[str, str]:
    for argument in node.iter.args:
        value, text = held(generator, argument), ast.unparse(argument)
        if not _is_whole(value):
            mend = "convert by `.to(tl.int32)`, or divide by `//`"
            if isinstance(value, tensor) and value.type.is_ptr():
                mend = f"pass the number itself, or read it: `tl.load({text})`"
            return f"the bound `{text}` of the loop is {kind_of(value)}, and should be a whole number", mend
    return f"a bound of `{ast.unparse(node.iter)}` is no whole number: {message}", ""


def _is_whole(value) -> bool:
    """False for a value that surely is no whole number."""
    if isinstance(value, tensor):
        return value.type.is_int()
    return not (isinstance(value, constexpr) and isinstance(value.value, float))
