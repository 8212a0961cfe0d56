"""Calls with arguments that a word or a function does not take: run-time values for constants, pointers for numbers, one too many.

Input: an error of a call. Output: which argument it is, what it is, and what the function takes. For example:

    tl.arange(0, N)             `tl.arange` needs numbers that are known when compiling, and `N` is a parameter of run time.
                                Mend: write `N: tl.constexpr` in the parameters of 'kernel'
    tl.dot(ring[0], ring[1])    tl.dot cannot take these arguments: `ring[0]` is a buffer fp16[64, 64]
"""

from __future__ import annotations

import ast
import inspect
import re
from difflib import get_close_matches

from ....language.tlx.types import buffered_tensor, mbarrier
from ...triton_port.codegen import tensor, tensor_descriptor_base, triton_tuple
from .values import called, held, is_at_run_time, kind_of, parameters

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
    for reader in (_unbound, _constant, _length, _few, _foreign):
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
    text = message.rpartition(": ")[2] if ": got an" in message else message
    if not _UNBOUND.search(message):
        return None
    function = held(generator, node.func)
    signature = _signature(function)
    whole = message if "(" in message.partition(":")[0] and not message.startswith("missing") else \
        f"{called(node)}{signature}: {text}" if signature else f"{called(node)}: {text}"
    whole = re.sub(r": \w+\(\) ", ": ", whole)
    mend = ""
    if found := _KEYWORD.search(message) or _surplus(node, signature):
        names = list(signature.parameters) if signature else []
        close = get_close_matches(found[1], names, n=1, cutoff=0.5)
        whole += "" if found[1] in message else f"; and it has no parameter {found[1]!r}"
        mend = f"did you mean `{close[0]}=`?" if close else ""
    return whole, mend


def _surplus(node, signature):
    """The first keyword that the function lacks, as (anything, name)."""
    has = signature.parameters if signature else ()
    return next(((None, one.arg) for one in node.keywords if signature and one.arg and one.arg not in has), None)


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
    word = called(node)
    for name in parameters(generator, node):
        if not generator.callers:
            return (f"{word} needs a constant, known when the kernel is compiled, and `{name}` is a parameter known at run time "
                    f"only. {message}", f"write `{name}: tl.constexpr` among the parameters of '{generator.jit_fn.__name__}'")
        return (f"{word} needs a constant, known when the kernel is compiled, and `{name}` is none. {message}",
                f"pass a constant, and write `{name}: tl.constexpr` among the parameters of '{generator.jit_fn.__name__}'")
    for argument in ast.walk(node):
        value = held(generator, argument) if isinstance(argument, ast.Name) else None
        if value is not None and is_at_run_time(value):
            return message, f"annotate `{argument.id}` where it is assigned: `{argument.id}: tl.constexpr = ...`, if it is a constant"
        inner = getattr(value, "value", None)
        if hasattr(inner, "dtype") and hasattr(inner, "shape"):
            return f"{word} needs a number, and `{argument.id}` is {kind_of(inner)}", f"pass a whole number as `{argument.id}`"
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
    kinds = [f"`{ast.unparse(one)}` is {kind_of(value)}" for one, value in arguments if value is not None
             and not isinstance(one, ast.Constant)]
    constants = [ast.unparse(one) for one in node.args if isinstance(one, ast.Constant)]
    said = "; ".join(kinds) or (f"among them {', '.join(constants)}" if constants else message)
    return f"{word} cannot take these arguments: {said} ({message})", _mend(word, arguments)


def _mend(word: str, arguments) -> str:
    first, value = arguments[0] if arguments else (None, None)
    text = ast.unparse(first) if first is not None else ""
    if any(isinstance(one, buffered_tensor) for _, one in arguments):
        return "a buffer in memory is read by `tlx.local_load(buffer)`; `tlx.async_dot` takes buffers as they are"
    if word in ("tl.load", "tl.store") or word.startswith("tl.atomic"):
        if isinstance(value, tensor_descriptor_base):
            return f"write `{text}.load([i, j])` or `{text}.store([i, j], tile)`, or pass the array instead of a descriptor of it"
        if isinstance(value, triton_tuple) or getattr(value, "value", 0) is None or isinstance(value, tensor):
            return f"`{word}` takes pointers: pass an array, of numpy or torch, as `{text}`"
    if word.endswith(".to"):
        return "write an element type of Triton: `.to(tl.float16)`"
    return ""
