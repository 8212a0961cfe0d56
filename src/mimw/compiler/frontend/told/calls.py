"""Calls with arguments that a word or a function does not take: run-time values for constants, pointers for numbers, one too many.

Input: an error of a call. Output: which argument it is, what it is, and what the function takes. For example:

    tl.arange(0, N)             what tl.arange is given here must be a constexpr, .. and `N` is a parameter that is known at run time
                                only. Mend: write `N: tl.constexpr` among the parameters of 'kernel'
    tl.dot(ring[0], ring[1])    tl.dot cannot take these arguments: input = a buffer fp16[64, 64], ..
"""

from __future__ import annotations

import ast
import inspect
import re
from difflib import get_close_matches

from ....language.tlx.types import buffered_tensor, mbarrier
from ...triton_port.codegen import tensor, tensor_descriptor_base, triton_tuple
from .values import called, held, kind_of, parameters

_CONSTANT = re.compile(r"must be (?:a |of type )?(?:tl\.)?constexpr|must have type `constexpr|arguments must be of type tl\.constexpr|"
                       r"must be a compile-time")
_INTERNAL = re.compile(r"object has no attribute|has no attribute|has no len\(\)|is not subscriptable|is not iterable|not callable|"
                       r"index out of range|cannot unpack|argument must be|must be real number|bad operand|Unsupported ptr type|"
                       r"Expected dtype|cannot be interpreted as|must be str")
_UNBOUND = re.compile(r"(?:\w+\(\) )?(?:missing (?:a|\d+) required (?:keyword-only |positional )?arguments?:? .*|"
                      r"got an unexpected keyword argument .*|too many positional arguments|takes .* positional arguments? but .*|"
                      r"multiple values for argument .*|got multiple values for argument .*)")
_KEYWORD = re.compile(r"unexpected keyword argument '(\w+)'")
_BOUNDS = re.compile(r"For (?:loop bounds and step|lower bound|upper bound|step) must")
_NUMBERS = {"int": "write `x.to(tl.int32)`", "float": "write `x.to(tl.float32)`"}


def call(generator, node, root, message):
    """(message, mend) for a call, or for the head of a loop."""
    if isinstance(node, ast.For) and _BOUNDS.match(message):
        return _bounds(generator, node, message)
    if not isinstance(node, ast.Call):
        return None
    for reader in (_unbound, _constant, _length, _few, _foreign, _offsets, _shapes):
        if (found := reader(generator, node, message)) is not None:
            return found
    return None


def _bounds(generator, node, message):
    for argument in node.iter.args:
        value = held(generator, argument)
        if isinstance(value, tensor) and (value.type.is_ptr() or value.type.is_block() or not value.type.is_int()):
            text = ast.unparse(argument)
            mend = f"pass the number itself, or read it: `tl.load({text})`" if value.type.is_ptr() else \
                "a loop runs over whole numbers: convert by `.to(tl.int32)`"
            return f"the bound `{text}` of the loop is {kind_of(value)}, and should be a whole number", mend
    return message, ""


def _unbound(generator, node, message):
    """Arguments that do not bind to the parameters."""
    if not _UNBOUND.search(message):
        return None
    signature = _signature(held(generator, node.func))
    whole = re.sub(r"^\w+\(\) ", "", message)
    whole = whole if whole.startswith(f"{called(node)}(") else f"{called(node)}{signature or ''}: {whole}"
    unknown = found[1] if (found := _KEYWORD.search(message)) else _surplus(node, signature)
    if unknown is None:
        return whole, ""
    close = get_close_matches(unknown, list(signature.parameters) if signature else [], n=1, cutoff=0.5)
    return whole if f"'{unknown}'" in whole else f"{whole}; and it has no parameter '{unknown}'", \
        f"did you mean `{close[0]}=`?" if close else ""


def _surplus(node, signature) -> str | None:
    """The first keyword that the function lacks."""
    return next((one.arg for one in node.keywords if signature and one.arg and one.arg not in signature.parameters), None)


def _signature(function) -> inspect.Signature | None:
    """The parameters as an author sees them."""
    try:
        whole = getattr(function, "__signature__", None) or getattr(function, "signature", None) or inspect.signature(function)
    except (TypeError, ValueError):
        return None
    plain = [one.replace(annotation=one.empty) for name, one in whole.parameters.items() if name not in ("_semantic", "_generator")]
    return inspect.Signature(plain)


def _constant(generator, node, message):
    """A value of run time where a constant belongs."""
    if not _CONSTANT.search(message):
        return None
    needed = re.search(r"`(\w+)` must be a constexpr", message)
    what = f"`{needed[1]}` of {called(node)}" if needed else f"what {called(node)} is given here"
    for name in parameters(generator, node):
        return (f"{what} must be a constexpr, a constant that is known when the kernel is compiled, and `{name}` is a parameter that "
                f"is known at run time only", f"write `{name}: tl.constexpr` among the parameters of '{generator.jit_fn.__name__}'"
                + (", and pass it a constant" if generator.callers else ""))
    for argument in (one for one in ast.walk(node) if isinstance(one, ast.Name)):
        value = held(generator, argument)
        if isinstance(value, tensor) and not value.type.scalar.is_ptr():
            return message, f"annotate `{argument.id}` where it is assigned, if it is a constant: `{argument.id}: tl.constexpr = ...`"
        inner = getattr(value, "value", None)
        if hasattr(inner, "dtype") and hasattr(inner, "shape"):
            return f"{called(node)} needs a number, and `{argument.id}` is {kind_of(inner)}", f"pass a whole number as `{argument.id}`"
    return None


def _length(generator, node, message):
    if called(node) != "len" or not node.args:
        return None
    text, value = ast.unparse(node.args[0]), held(generator, node.args[0])
    if isinstance(value, (buffered_tensor, mbarrier)):
        return (f"`{text}` is {kind_of(value)}, which `len` does not count",
                f"write `{text}.num`" if value.type.num else f"`{text}` is a single one")
    return None


def _few(generator, node, message):
    if called(node) in ("min", "max") and "requires at least 2 values" in message:
        name = called(node)
        return f"`{name}` takes two values or more; of one tile it is the word of Triton", f"write `tl.{name}(tile, axis)`"
    return None


def _foreign(generator, node, message):
    """Arguments on which the function stumbles: it says something about Python's objects, or about a type alone."""
    if not _INTERNAL.search(message):
        return None
    word = called(node)
    arguments = [(one, held(generator, one)) for one in (*node.args, *(keyword.value for keyword in node.keywords))]
    if word in _NUMBERS:
        return f"`{word}` makes numbers when compiling, and the value is known at run time only", _NUMBERS[word]
    if word.partition(".")[0] in ("math", "np", "numpy", "torch"):
        return (f"`{word}` is a function of the host, for numbers that are known when compiling; the argument is a value of the "
                "kernel", f"write `tl.{word.rpartition('.')[2]}(...)`")
    return f"{word} cannot take these arguments: {_given(generator, node)} ({message})", _mend(word, arguments)


def _shapes(generator, node, message):
    """A complaint of Triton's about shapes and types says nothing about which: the tiles among the arguments are added."""
    if not called(node).startswith(("tl.", "triton.language.")) or not _about_shapes(message):
        return None
    given = _given(generator, node, only=tensor)
    return (f"{called(node)}: {message}; here {given}", "") if given else None


def _offsets(generator, node, message):
    """A complaint in the published words, which say neither the call nor what counts the offsets."""
    if not re.fullmatch(r"expected \d+ offsets, but got \d+", message):
        return None
    return f"{called(node)}: {message}; here {_given(generator, node)}", "an offset for each axis of the array: `[row, column]`"


def _about_shapes(message: str) -> bool:
    return re.search(r"shape|dimension|number of elements|type|broadcast", message) is not None and "`" not in message


def _given(generator, node, only=object) -> str:
    """The arguments of a call, as `name = a tile fp32[64]`."""
    signature, named = _signature(held(generator, node.func)), [(one.arg, one.value) for one in node.keywords if one.arg]
    names = list(signature.parameters) if signature else []
    pairs = [*((names[index] if index < len(names) else "", one) for index, one in enumerate(node.args)), *named]
    values = [(name, one, held(generator, one)) for name, one in pairs]
    return ", ".join(f"{name} = {kind_of(value)}" if name else f"`{ast.unparse(one)}` = {kind_of(value)}"
                     for name, one, value in values if value is not None and isinstance(value, only))


def _mend(word: str, arguments) -> str:
    first, value = arguments[0] if arguments else (None, None)
    text = ast.unparse(first) if first is not None else ""
    if word.startswith("tl.") and any(isinstance(one, buffered_tensor) for _, one in arguments):
        return "a buffer in memory is read by `tlx.local_load(buffer)`; `tlx.async_dot` takes buffers as they are"
    if word in ("tl.load", "tl.store") or word.startswith("tl.atomic"):
        if isinstance(value, tensor_descriptor_base):
            return f"write `{text}.load([i, j])` or `{text}.store([i, j], tile)`, or pass the array instead of a descriptor of it"
        if isinstance(value, triton_tuple) or getattr(value, "value", 0) is None or isinstance(value, tensor):
            return f"`{word}` takes pointers: pass an array, of numpy or torch, as `{text}`"
    if word.endswith(".to"):
        return "write an element type of Triton: `.to(tl.float16)`"
    return ""
