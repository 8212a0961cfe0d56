"""Attributes that a value does not have: fields of slots, methods of tiles, words of a module.

Input: an AttributeError. Output: what the value is and has, and the nearest name. For example:

    slot.v          `slot`, the slot of pipe 'kv', has no 'v'; it has `.k`
    result.k        `result`, the result of a `wait`, has `.slot` and `.is_closed`; the slot has `.k`. Mend: write `result.slot.k`
    tile.sums()     `tile` is a tile fp32[64], which has no 'sums'. Mend: did you mean `.sum`?
"""

from __future__ import annotations

import ast
from difflib import get_close_matches
from types import FunctionType, MethodType, ModuleType

from ....language.core import unwrap
from ....language.parts import Parts
from ....language.tle.pipe_values import PipeParts, pipe_wait_result
from ...triton_port.codegen import tensor_descriptor_base, triton_tuple
from .values import held, kind_of


def attribute(generator, node, root, message):
    """(message, mend) for an attribute that a value does not have."""
    if not isinstance(root, AttributeError):
        return None
    if isinstance(node, ast.Subscript) and getattr(root, "name", None) == "__getitem__":
        return _no_index(generator, node)
    if not isinstance(node, (ast.Attribute, ast.Call)):
        return None
    wanted = node if isinstance(node, ast.Attribute) else node.func
    value, name = getattr(root, "obj", None), getattr(root, "name", None)
    if not isinstance(wanted, ast.Attribute) or name is None or wanted.attr != name:
        return None
    text = ast.unparse(wanted.value)
    if isinstance(value, pipe_wait_result) and name in (fields := value.slot.fields):
        return f"`{text}`, the result of a `wait`, has `.slot` and `.is_closed`; the slot has {_listed(fields)}", \
            f"write `{text}.slot.{name}`"
    if isinstance(value, Parts):
        has = sorted(_of_parts(value))
        kind = type(value).__name__.removeprefix("pipe_").replace("_", " ")
        what = f"a {kind}"
        if isinstance(value, PipeParts):
            what = value._owner.label if kind == "value" else f"the {kind} of {value._owner.label}"
        return f"`{text}`, {what}, has no {name!r}; it has {_listed(has)}", _nearest(name, has)
    value = unwrap(held(generator, wanted.value)) if value is None else value
    has = [one for one in dir(value) if not one.startswith("_")]
    if isinstance(value, (MethodType, FunctionType)):
        return f"`{text}` is a method, and is not called here", f"write the brackets: `{text}().{name}`"
    if isinstance(value, ModuleType):
        return (message, "") if " has no " in message else (f"`{text}` has no {name!r}", _nearest(name, has))
    if isinstance(value, (tuple, triton_tuple)) and name in ("append", "extend", "insert", "pop", "remove"):
        return f"`{text}` is a tuple in kernels, whatever its brackets, and stays as long as it is", \
            f"write `{text} = {text} + (value, )` in a `tl.static_range` loop, or keep the values in a tile"
    if name == "shape" and getattr(getattr(value, "type", None), "is_ptr", lambda: False)():
        return f"`{text}` is {kind_of(value)}, which knows no shape", "pass the extents as arguments"
    return f"`{text}` is {kind_of(value)}, which has no {name!r}", _nearest(name, has)


def _no_index(generator, node):
    text, value = ast.unparse(node.value), held(generator, node.value)
    index = ast.unparse(node.slice).strip("()")
    mend = f"write `{text}.load([{index}])`" if isinstance(value, tensor_descriptor_base) else ""
    return f"`{text}` is {kind_of(value)}, which has no index", mend


def _of_parts(value: Parts) -> list[str]:
    own = [one for one in dir(type(value)) if not one.startswith("_") and one not in dir(Parts)]
    shown = list(value._shown)
    return shown or own


def _listed(names) -> str:
    return ", ".join(f"`.{one}`" for one in names) or "no fields"


def _nearest(name: str, has) -> str:
    close = get_close_matches(name, has, n=1, cutoff=0.6)
    return f"did you mean `.{close[0]}`?" if close else ""
