"""Operators, indices and conditions on values that do not have them: arithmetic on buffers, elements of tiles, `if tile`.

Input: an error of an expression or an assignment. Output: what the operands are, and the word that does it. For example:

    ring[0] + 1         `ring[0]` is a buffer fp32[64], which has no `+`. Mend: read it first: `tlx.local_load(ring[0])`
    tile[0]             `tile` is a tile fp32[64], whose elements have no index. Mend: ... tl.sum(tl.where(..
"""

from __future__ import annotations

import ast
import re

import numpy as np

from ....language.core import unwrap
from ....language.tlx.types import buffered_tensor
from ...triton_port.codegen import tensor, tensor_descriptor_base
from .values import held, kind_of

_OPERANDS = re.compile(r"unsupported operand type\(s\) for (\S+): '(\w+)' and '(\w+)'")
_HOST = re.compile(r"cannot convert .* of type <class '([\w.]+)'> to tensor", re.DOTALL)
_WHOLE = {ast.FloorDiv: "//", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>"}
_STAND = {
    "buffered_tensor": ("a buffer in memory stands where a tile belongs", "read it first: `tlx.local_load(buffer)`"),
    "tuple": ("a tuple stands where a tile or a number belongs",
              "make a tile by tl.full, tl.arange or tl.join, or use the elements one by one: `values[0]`"),
    "Display": ("a dictionary is no value of a kernel", "give each of its values a name, or pass them as parameters"),
    "NoneType": ("cannot convert None: a function that returns nothing, or an argument that was None, stands where a tile or a "
                 "number belongs", "return the value in the function, or pass one"),
    "str": ("a text stands where a tile or a number belongs", "texts are for `print` and for names of options"),
}
_INVALID = re.compile(r"invalid operands of type (.+) and (.+)")


def operator(generator, node, root, message):
    """(message, mend) for an operator, an index or an assignment."""
    if isinstance(node, ast.AST):
        for reader in (_condition, _text, _binary, _index, _floor, _broadcast, _host_value, _loop_carried, _pointers,
                       _shape_of_pointer, _descriptor, _unary, _unpacked, _no_condition):
            if (found := reader(generator, node, message)) is not None:
                return found
    return None


def _condition(generator, node, message):
    """A tile where one answer is wanted."""
    if not message.startswith("Boolean value of Tensor") or not isinstance(node, (ast.If, ast.IfExp, ast.While)):
        return None
    test = ast.unparse(node.test)
    if isinstance(node, ast.IfExp):
        mend = f"write `tl.where({test}, {ast.unparse(node.body)}, {ast.unparse(node.orelse)})`"
    else:
        mend = (f"write `tl.where({test}, a, b)` for a choice in each element; `tl.max(({test}).to(tl.int32), 0) > 0` asks for any "
                "of them")
    return f"the condition `{test}` is a tile, with an answer in each element, and one answer is wanted", mend


def _text(generator, node, message):
    if not message.startswith("Cannot evaluate f-string") or not isinstance(node, ast.JoinedStr):
        return None
    values = [ast.unparse(part.value) for part in node.values if isinstance(part, ast.FormattedValue)]
    return (f"an f-string is made when compiling, and {' and '.join(f'`{one}`' for one in values)} may be known at run time only",
            f"write `print(\"{values[0]}\", {values[0]})`, without `f`; tl.static_print takes what is known when compiling")


def _binary(generator, node, message):
    found = _OPERANDS.search(message)
    if not found or not isinstance(node, (ast.BinOp, ast.Compare, ast.AugAssign)):
        return None
    left, right = _sides(node)
    for side in (left, right):
        value = held(generator, side)
        text = ast.unparse(side)
        if isinstance(value, buffered_tensor):
            index = "[i]" if value.type.num else ""
            return (f"`{text}` is {kind_of(value)} in memory, and `{found[1]}` works on tiles and numbers",
                    f"read it first: `tlx.local_load({text}{index})`")
    if found[1] == "**":
        return "kernels have no `**`", "write `x * x`, or `tl.exp2(y * tl.log2(x))`"
    nothing = [ast.unparse(side) for side in (left, right) if isinstance(side, ast.Name) and _is_none(generator, side)]
    if nothing:
        return f"`{nothing[0]}` is None: a function that returns nothing, or an argument that was None, gave it", ""
    kinds = [f"`{ast.unparse(side)}` is {kind_of(value)}" for side in (left, right) if (value := held(generator, side)) is not None]
    return f"`{found[1]}` does not take these operands: {' and '.join(kinds) or f'{found[2]} and {found[3]}'}", ""


def _is_none(generator, node: ast.Name) -> bool:
    value = generator.lscope.get(node.id, node)
    return value is None or getattr(value, "value", value) is None


def _sides(node) -> tuple[ast.AST, ast.AST]:
    if isinstance(node, ast.BinOp):
        return node.left, node.right
    if isinstance(node, ast.AugAssign):
        return node.target, node.value
    return node.left, node.comparators[0]


def _index(generator, node, message):
    if not message.startswith("unsupported tensor index") or not isinstance(node, ast.Subscript):
        return None
    text, value = ast.unparse(node.value), held(generator, node.value)
    index = ast.unparse(node.slice)
    if isinstance(value, tensor) and value.type.is_ptr():
        return f"`{text}` is {kind_of(value)}, which has no index", f"write `tl.load({text} + {index})`"
    kind = kind_of(value) if value is not None else "a tile"
    if isinstance(node.slice, ast.Slice):
        return f"`{text}` is {kind}, which cannot be sliced", \
            "load the part that is wanted, or take it by `tle.extract_tile`; a buffer has `tlx.local_slice`"
    simple = isinstance(node.value, ast.Name) and isinstance(node.slice, (ast.Constant, ast.Name))
    return (f"`{text}` is {kind}, whose elements have no index; `[None, :]` and `[:, None]` add an axis",
            "load the element from memory" + (f", or take it by `tl.sum(tl.where(tl.arange(0, N) == {index}, {text}, 0), 0)`"
                                              if simple else ""))


def _floor(generator, node, message):
    if isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in _WHOLE \
            and (found := re.fullmatch(r"unexpected type (\w+)|invalid operands of type (\w+) and (\w+)", message)):
        symbol = _WHOLE[type(node.op)]
        types = found[1] or f"{found[2]} and {found[3]}"
        return f"`{symbol}` works on whole numbers, and here on {types}", \
            "write `tl.floor(a / b)`" if symbol == "//" else "compare first: `(a > 0) & (b > 0)`, or convert by `.to(tl.int32)`"
    return None


def _host_value(generator, node, message):
    found = _HOST.search(message)
    if not found:
        return None
    kind = found[1].rpartition(".")[2]
    if kind in _STAND:
        return _STAND[kind]
    if hasattr(np, kind) and issubclass(getattr(np, kind), np.generic):
        return f"a number of numpy ({kind}) stands where a number of a kernel belongs", "write the number itself, as `3.0`"
    if kind not in ("ndarray", "Tensor"):
        return f"a value of Python ({kind}) stands where a tile or a number belongs", \
            "write the brackets of the call: `tile.sum()`" if kind in ("BoundJITMethod", "method", "function") else ""
    maker = next((one for one in ast.walk(node) if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute)), None)
    name = ast.unparse(maker.func) if maker else ""
    own = name.rpartition(".")[2]
    if own in ("zeros", "full", "arange", "zeros_like", "cat", "where", "sum", "exp"):
        mend = f"write `tl.{own}(...)`, which makes a tile in the kernel, or pass the array as an argument"
    else:
        mend = "pass the array as an argument of the launch; tl.zeros, tl.full and tl.arange make tiles in a kernel"
    made = f"`{name}` makes an array of the host ({kind})" if name else f"this is an array of the host ({kind})"
    return f"{made}, and a kernel works on tiles", mend


def _broadcast(generator, node, message):
    found = re.search(r"incompatible dimensions at index (\d+): (\d+) and (\d+)", message)
    if not found:
        return None
    return (f"the shapes do not go together: {found[2]} and {found[3]} elements along axis {found[1]} (broadcast)",
            "give both tiles one shape; `[:, None]` and `[None, :]` add an axis of 1, which stretches")


def _unary(generator, node, message):
    if not isinstance(node, ast.UnaryOp):
        return None
    text = ast.unparse(node.operand)
    if isinstance(node.op, ast.Not) and "bitcast" in message:
        value = held(generator, node.operand)
        kind = kind_of(value) if value is not None else "another value"
        return f"`not` is for a condition, and `{text}` is {kind}", f"write `{text} == 0`"
    if "wrong type argument" in message or "unary" in message:
        symbol = {ast.Invert: "~", ast.USub: "-", ast.UAdd: "+", ast.Not: "not"}[type(node.op)]
        value = held(generator, node.operand)
        return f"`{symbol}` does not take {f'`{text}`, {kind_of(value)}' if value is not None else f'`{text}`'}: {message}", ""
    return None


def _unpacked(generator, node, message):
    if message != "cannot unpack non-iterable value" or not isinstance(node, ast.Assign):
        return None
    return f"`{ast.unparse(node.value)}` is one value, and {len(node.targets[0].elts)} names are to be bound to it", ""


def _no_condition(generator, node, message):
    if not message.startswith("`if` conditionals can only accept") or not isinstance(node, (ast.If, ast.IfExp)):
        return None
    value, text = held(generator, node.test), ast.unparse(node.test)
    kind = kind_of(value) if value is not None else message
    return f"the condition `{text}` is {kind}, and should be a comparison or a number", ""


def _loop_carried(generator, node, message):
    found = re.match(r"Loop-carried variable (\w+) has initial type (.+?) but is re-assigned to (.+?) in loop", message)
    if found:
        return (f"`{found[1]}` is {found[2]} before the loop and {found[3]} after its body: the type of a name that a loop carries "
                "must stay: make sure that the type stays consistent",
                f"begin with the type that the loop gives: `{found[1]} = tl.zeros(shape, dtype)` for a tile, `0.0` for a number "
                "with a fraction")
    if found := re.match(r"Mismatched type for (\w+) between then block \((.+)\) and else block \((.+)\)", message):
        return (f"`{found[1]}` is {found[2]} in one branch of the `if` and {found[3]} in the other. {message}",
                f"convert one of them, as `{found[1]}.to(tl.float32)`")
    return None


def _pointers(generator, node, message):
    found = _INVALID.fullmatch(message)
    if found and "pointer" in message and isinstance(node, (ast.BinOp, ast.AugAssign)):
        return f"a pointer and {found[2]} do not go together: {message}", \
            "add whole numbers to a pointer, counted in elements: `x + i`; a product belongs to the offset: `x + 2 * i`"
    return None


def _shape_of_pointer(generator, node, message):
    if message != "list index out of range" or not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Attribute):
        return None
    value = held(generator, node.value.value)
    text = ast.unparse(node.value.value)
    return (f"`{text}` is {kind_of(value)}, which knows no shape", "pass the extents as arguments of their own") \
        if isinstance(value, tensor) and value.type.is_ptr() else None


def _descriptor(generator, node, message):
    if "object has no attribute" not in message or not isinstance(node, (ast.BinOp, ast.AugAssign, ast.Compare)):
        return None
    sides = [(ast.unparse(side), held(generator, side)) for side in _sides(node)]
    given = [f"`{text}` is {kind_of(value)}" for text, value in sides if value is not None]
    if any(isinstance(unwrap(value), str) for _, value in sides):
        return "a text cannot be joined or filled with a value that is known at run time only", \
            "print takes both: `print(\"text\", value)`"
    described = any(isinstance(value, tensor_descriptor_base) for _, value in sides)
    return f"this operator does not take these operands: {' and '.join(given) or message}", \
        "pass the array itself for pointers; a descriptor has `.load([i, j])` and `.store([i, j], tile)`" if described else ""
