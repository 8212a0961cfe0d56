"""Values of a kernel in messages: what a name holds, as its author would say it.

Input: the generator and a node of the kernel's syntax tree, or a value. Output: words. For example:

    kind_of(value)                      a tile fp32[64, 64]; a pointer to fp32; 2 barriers; a buffer bf16[64]; a text
    held(generator, node)               the value of a name, an attribute or an element; None where there is none
    parameters(generator, node)         the names in `node` that are parameters of the function, numbers of run time
"""

from __future__ import annotations

import ast
from contextlib import suppress
from typing import Any

from ....language.core import HandleValue, unwrap
from ....language.described import described
from ....language.tlx.types import ArrayValue, buffered_tensor, mbarrier
from ...triton_port.codegen import base_value, constexpr, tensor, tensor_descriptor_base, triton_tuple


def held(generator, node: ast.AST) -> Any:
    """The value that a name holds, or an element of it; nothing is recorded for that."""
    if isinstance(node, ast.Name):
        return generator.lscope.get(node.id, generator.gscope.get(node.id))
    if isinstance(node, ast.Constant):
        return constexpr(node.value)
    if isinstance(node, ast.Attribute):
        with suppress(Exception):       # of a property that is for Triton's generator alone
            return getattr(held(generator, node.value), node.attr)
        return None
    if isinstance(node, ast.Subscript) and isinstance(whole := held(generator, node.value), ArrayValue):
        return whole.type.one().value(whole.handle) if whole.type.num else None
    return None


def kind_of(value: Any) -> str:
    """A few words for what a value is."""
    value = unwrap(value) if isinstance(value, constexpr) else value
    if isinstance(value, tensor):
        return _of_a_tensor(value)
    if isinstance(value, (buffered_tensor, mbarrier)):
        one = "buffer" if isinstance(value, buffered_tensor) else "barrier"
        type_ = f" {value.type.element_ty}{list(value.type.shape)}" if one == "buffer" else ""
        return f"{value.type.num} {one}s{type_}" if value.type.num else f"a {one}{type_}"
    if isinstance(value, tensor_descriptor_base):
        return f"a tensor descriptor of {value.dtype}{[unwrap(extent) for extent in value.block_shape]}"
    if isinstance(value, (tuple, list, triton_tuple)):
        return f"a tuple of {len(value)}"
    if isinstance(value, str):
        return f"the text {value!r}"
    if isinstance(value, HandleValue) or isinstance(value, base_value):
        return f"a {type(value).__name__}"
    if value is None or isinstance(value, (bool, int, float)):
        return repr(value)
    if isinstance(value, type):
        return f"the class {value.__module__.partition('.')[0]}.{value.__name__}"
    return f"an array of the host ({type(value).__name__})" if hasattr(value, "dtype") and hasattr(value, "shape") else \
        described(value) if type(value).__repr__ is not object.__repr__ else f"a {type(value).__name__}"


def _of_a_tensor(value: tensor) -> str:
    scalar = value.type.scalar
    if scalar.is_ptr():
        return f"a tile of pointers {described(value)}" if value.type.is_block() else f"a pointer to {scalar.element_ty}"
    return f"a tile {described(value)}" if value.type.is_block() else f"a number of run time ({described(value)})"


def parameters(generator, node: ast.AST) -> list[str]:
    """The parameters of the function in `node` that hold numbers of run time, in the order of the text."""
    names = dict.fromkeys(one.id for one in ast.walk(node) if isinstance(one, ast.Name))
    return [name for name in names if name in generator.jit_fn.arg_names and is_a_number(generator.lscope.get(name))]


def is_a_number(value: Any) -> bool:
    """True for a number, or a tile of numbers, that is known when the kernel runs only."""
    return isinstance(value, tensor) and not value.type.scalar.is_ptr()


def called(node: ast.AST) -> str:
    """The function of a call as the text names it."""
    return ast.unparse(node.func) if isinstance(node, ast.Call) else ""
