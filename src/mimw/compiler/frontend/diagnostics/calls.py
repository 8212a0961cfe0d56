"""Calls with arguments that a word or a function does not take: run-time values for constants, pointers for numbers, one too many.

Input: an error of a call. Output: which argument it is, what it is, and what the function takes. For example:

    tl.arange(0, N)             what tl.arange is given here must be a constexpr, .. and `N` is a parameter that is known at run
                                time only. Mend: write `N: tl.constexpr` among the parameters of 'kernel'
    tl.dot(ring[0], ring[1])    tl.dot cannot take these arguments: input = a buffer fp16[64, 64], ..
"""

from __future__ import annotations

import ast
import inspect
import re
from difflib import get_close_matches

from ....language.core import unwrap
from ....language.described import element_type
from ....language.tlx.types import buffered_tensor, mbarrier
from ...triton_port.codegen import constexpr, tensor_descriptor_base
from .values import called, held, is_a_number, kind_of, parameters

_CONSTANT = re.compile(r"must be (?:a |of type )?(?:tl\.)?constexpr|must have type `constexpr|must be a compile-time|"
                       r"is not a constexpr")
_INTERNAL = re.compile(r"object has no attribute|has no attribute|has no len\(\)|is not subscriptable|is not iterable|not callable|"
                       r"index out of range|cannot unpack|argument must be|must be real number|must be Tensor|bad operand|"
                       r"Unsupported ptr type|"
                       r"Did you forget to add @triton|Expected dtype|cannot be interpreted as|must be str")
_UNBOUND = re.compile(r"(?:[\w.]+\(\) )?(?:missing (?:a|\d+) required (?:keyword-only |positional )?arguments?:? .*|"
                      r"got an unexpected keyword argument .*|too many positional arguments|takes .* positional arguments? but .*|"
                      r"multiple values for argument .*|got multiple values for argument .*)")
_KEYWORD = re.compile(r"unexpected keyword argument '(\w+)'")
_NUMBERS = {"int": "write `x.to(tl.int32)`", "float": "write `x.to(tl.float32)`"}


def call(generator, node, root, message):
    """(message, mend) for a call."""
    if message.startswith("unhashable type") and isinstance(node, ast.Call):
        value = held(generator, node.func)
        return f"`{called(node)}` is {'a value' if value is None else kind_of(value)}, which cannot be called", ""
    if not isinstance(node, ast.Call):
        return None
    for reader in (_unbound, _constant, _length, _few, _foreign, _offsets, _facts):
        if (found := reader(generator, node, message)) is not None:
            return found
    return None


def _unbound(generator, node, message):
    """Arguments that do not bind to the parameters."""
    if not _UNBOUND.search(message):
        return None
    signature = _signature(held(generator, node.func))
    if "'_semantic'" in message:
        return f"{called(node)}{signature or ''}: too many arguments are given", "lists go in brackets: `[row, column]`"
    whole = re.sub(r"^[\w.]+\(\) ", "", message)
    if usage := re.match(r"[\w.]+\((self(?:, )?)?(.*)\): ", whole):
        whole = f"{called(node)}({usage[2]}): {whole[usage.end():]}" if usage[1] else whole
    else:
        whole = f"{called(node)}{signature or ''}: {whole}"
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
    place = node if needed is None else _argument(generator, node, needed[1])
    for name in parameters(generator, place):
        return (f"{what} must be a constexpr, a constant that is known when the kernel is compiled, and `{name}` is a parameter "
                "that is known at run time only",
                f"write `{name}: tl.constexpr` among the parameters of '{generator.jit_fn.__name__}'"
                + (", and pass it a constant" if generator.callers else ""))
    for argument in (one for one in ast.walk(place) if isinstance(one, ast.Name)):
        value = held(generator, argument)
        if is_a_number(value):
            name = argument.id
            return message, f"if `{name}` is a constant, annotate it where it is assigned: `{name}: tl.constexpr = ...`"
        if isinstance(value, constexpr) and not isinstance(value.value, int):
            return (f"{called(node)} needs whole numbers, and `{argument.id}` is {kind_of(value)}",
                    f"pass a whole number as `{argument.id}`")
    return None


def _argument(generator, node, parameter: str):
    """The argument that a parameter of the function is given; the whole call if that is not seen."""
    signature = _signature(held(generator, node.func))
    by_place = dict(zip(signature.parameters if signature else (), node.args))
    return next((one.value for one in node.keywords if one.arg == parameter), by_place.get(parameter, node))


def _length(generator, node, message):
    if called(node) != "len" or not node.args:
        return None
    argument = next(iter(node.args))
    text, value = ast.unparse(argument), held(generator, argument)
    if isinstance(value, (buffered_tensor, mbarrier)):
        return (f"`{text}` is {kind_of(value)}, which `len` does not count",
                f"write `{text}.num`" if value.type.num else f"`{text}` is a single one")
    return None


def _few(generator, node, message):
    if called(node) in ("min", "max") and "requires at least 2 values" in message:
        name = called(node)
        return f"`{name}` takes two values or more; one tile has a function of Triton's", f"write `tl.{name}(tile, axis)`"
    return None


def _foreign(generator, node, message):
    """Arguments on which the function stumbles: it says something about Python's objects, or about a type alone."""
    if not _INTERNAL.search(message):
        return None
    word = called(node)
    arguments = [(one, held(generator, one)) for one in (*node.args, *(keyword.value for keyword in node.keywords))]
    if word in _NUMBERS:
        return f"`{word}` makes numbers when compiling, and the value is known at run time only", _NUMBERS[word]
    if word.partition(".")[0] in ("math", "np", "numpy", "torch", "triton"):
        return (f"`{word}` is a function of the host, for numbers that are known when compiling; the argument is a value of the "
                "kernel", f"write `tl.{word.rpartition('.')[2]}(...)`")
    given = _given(generator, node)
    said = f"{word} cannot take these arguments: {given} ({message})" if given else f"{word}: {message}"
    return said, _mend(word, arguments, message)


def _facts(generator, node, message):
    """A complaint of Triton's says little about what it has got: the arguments that have names are added."""
    if not called(node).startswith(("tl.", "triton.language.")) or message.startswith(called(node)):
        return None
    given = _given(generator, node)
    if "cannot be block type if pointer argument is not a block" in message:
        return f"{called(node)}: the value is a tile, and the pointer is one pointer ({message})", \
            "give a pointer for each element: `x + tl.arange(0, N)`"
    if message.startswith("Recorder has no method 'get_pointer"):
        return f"{called(node)}: a pointer is no type of a tile's elements; here {given}", "write `x.dtype.element_ty`"
    mend = ""
    if message.startswith("Mask must"):
        mend = "the mask is given by name: `mask=`; the second argument of tl.store is the value"
    return f"{called(node)}: {message}" + (f"; here {given}" if given else ""), mend


def _offsets(generator, node, message):
    """A complaint in the published words, which say neither the call nor what counts the offsets."""
    if not re.fullmatch(r"expected \d+ offsets, but got \d+", message):
        return None
    given = _given(generator, node) or f"`{ast.unparse(node)}`"
    return f"{called(node)}: {message}; here {given}", "give an offset for each axis of the array: `[row, column]`"


def _given(generator, node) -> str:
    """The arguments of a call, as `name = a tile fp32[64]`."""
    signature, named = _signature(held(generator, node.func)), [(one.arg, one.value) for one in node.keywords if one.arg]
    names = list(signature.parameters) if signature else []
    pairs = [*((names[index] if index < len(names) else "", one) for index, one in enumerate(node.args)), *named]
    values = [(name, one, held(generator, one)) for name, one in pairs]
    return ", ".join(f"{name} = {kind_of(value)}" if name else f"`{ast.unparse(one)}` = {kind_of(value)}"
                     for name, one, value in values if value is not None)


def _mend(word: str, arguments, message: str) -> str:
    first, value = arguments[0] if arguments else (None, None)
    text = ast.unparse(first) if first is not None else ""
    if word.startswith("tl.") and any(isinstance(one, buffered_tensor) for _, one in arguments):
        return "a buffer in memory is read by `tlx.local_load(buffer)`; `tlx.async_dot` takes buffers as they are"
    for one in (unwrap(one) for _, one in arguments):
        if (isinstance(one, (str, type)) or type(one).__name__ == "dtype") and (mend := element_type(one)):
            return mend
    if word in ("tl.load", "tl.store") or word.startswith("tl.atomic"):
        if isinstance(value, tensor_descriptor_base):
            return f"write `{text}.load([i, j])` or `{text}.store([i, j], tile)`, or pass the array instead of a descriptor of it"
        pass_it = f"as `{text}`" if isinstance(first, ast.Name) else "and add offsets to it"
        return f"`{word}` takes pointers: pass an array, of numpy or torch, {pass_it}"
    if word in ("tl.zeros", "tl.full", "tl.ones") and "not iterable" in message:
        return f"a shape is a tuple: `({text}, )`"
    return ""
