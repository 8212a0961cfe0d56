"""The message about parameters that a kernel uses as tensor descriptors and that were given as plain arrays, when recording
has failed.

Input: a JIT function and the types of its parameters. Output: a sentence, empty where there is no such parameter. For example:

    mend_of_pointers(fn, {"c": "*bf16", ...})       where the kernel says `c.store([m, n], tile)`:
        `c` is a plain array, and the kernel uses it as a tensor descriptor: pass mimw.TensorDescriptor.from_tensor(c, block_shape)

Triton takes `c.store([m, n], tile)` of a pointer for `tl.store(c, [m, n], mask=tile)`, and complains of the offsets.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

_METHODS = ("load", "store", "gather", "scatter", "atomic_add", "atomic_min", "atomic_max", "atomic_and", "atomic_or", "atomic_xor")


def mend_of_pointers(fn, signature: Mapping[str, Any]) -> str:
    """The sentence about all such parameters of `fn`, save those that the kernel assigns to: they may be descriptors by then."""
    pointers = {name for name, type_ in signature.items() if isinstance(type_, str) and type_.startswith("*")}
    used, assigned = [], set()
    for node in ast.walk(fn.parse()) if pointers else ():
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            assigned.add(node.id)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) \
                and node.func.attr in _METHODS and isinstance(next(iter(node.args), None), (ast.List, ast.Tuple)):
            used.append(node.func.value.id)
    found = [name for name in dict.fromkeys(used) if name in pointers - assigned]
    if not found:
        return ""
    names, made = " and ".join(f"`{name}`" for name in found), ", ".join(
        f"mimw.TensorDescriptor.from_tensor({name}, block_shape)" for name in found)
    said = "are plain arrays, and the kernel uses them as tensor descriptors" if len(found) > 1 else \
        "is a plain array, and the kernel uses it as a tensor descriptor"
    return f"{names} {said}: pass {made}"
