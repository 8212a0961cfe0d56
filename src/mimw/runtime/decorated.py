"""What `mimw.jit` may be given, and what it says of anything else.

Input: a value, and the options of the decorator. Output: a Python function, with the options; or a `NotAKernel` that says in
one line what to do, also where Triton finds that the function's source cannot be read. For example:

    kernel_source(double, {}, None)             double, {}: a function of a file, a notebook or a REPL that keeps its lines
    kernel_source(triton_kernel, {}, None)      the function under `triton.jit`, with the options that it was decorated with
    kernel_source(made, {}, text)               `made` came out of exec(text); its lines are known from now on
    kernel_source(lambda x: x, {}, None)        NotAKernel: a lambda is an expression and stores nothing ...
"""

from __future__ import annotations

import functools
import inspect
import itertools
import linecache
import os
import tokenize
from types import FunctionType
from typing import Any

from ..compiler.triton_port.runtime import JITFunction, is_gluons
from ..errors import NotAKernel
from ..ir.plainly import plainly

_OPTIONS = ("version", "do_not_specialize", "do_not_specialize_on_alignment", "debug", "noinline", "launch_metadata")
_numbers = itertools.count(1)


def kernel_source(value: Any, options: dict[str, Any], source: str | None) -> tuple[FunctionType, dict[str, Any]]:
    """The function to compile, and the decorator's options: those that are not given are those of a kernel that `value` is already.

    errors:    NotAKernel for what is no `def`; whether its source can be read is seen when Triton reads it (`without_source`)
    """
    if is_gluons(value):
        raise NotAKernel(f"mimw.jit got {value.__name__}, a kernel of Gluon's",
                         hint="leave it to gluon.jit: mimw.simulate, mimw.check and launches without a GPU take it as it is")
    if isinstance(value, JITFunction):
        own = {name: getattr(value, name) for name in _OPTIONS} | {"repr": value._repr}
        return value.fn, {**own, **{name: given for name, given in options.items() if given is not None}}
    name = getattr(value, "__name__", type(value).__name__)
    if hasattr(value, "configs") or hasattr(value, "fn") and hasattr(value, "values"):
        raise NotAKernel("mimw.jit got a kernel that is autotuned or has heuristics already",
                         hint="swap the two: @mimw.autotune(...) above @mimw.jit")
    if isinstance(value, functools.partial):
        raise NotAKernel("mimw.jit got a functools.partial, which has no source of its own",
                         hint="decorate the function, and give the fixed arguments at the launch: kernel[grid](..., BLOCK=128)")
    if inspect.ismethod(value):
        raise NotAKernel(f"mimw.jit got the method {value.__qualname__}, and a kernel has no self",
                         hint="decorate a function, or a @staticmethod of the class")
    if not isinstance(value, FunctionType):
        raise NotAKernel(f"mimw.jit got {plainly(repr(value))}, which is no Python function",
                         hint="write @mimw.jit above the `def` of the kernel")
    if name == "<lambda>":
        raise NotAKernel("a lambda is an expression and stores nothing, so it cannot be a kernel",
                         hint="write it as `def` with a name")
    if inspect.iscoroutinefunction(value) or inspect.isgeneratorfunction(value) or inspect.isasyncgenfunction(value):
        raise NotAKernel(f"{name} is a coroutine or a generator, and a kernel runs from its beginning to its end",
                         hint="write it without `async` and `yield`")
    if source is not None:
        _remember(value, source)
    return value, options


def without_source(function: FunctionType) -> NotAKernel:
    """The error for a function whose lines Python does not know."""
    file = function.__code__.co_filename
    if os.path.isfile(file):
        return _unreadable(function, file)
    return NotAKernel(f"a kernel is compiled from its source, and Python does not know that of {function.__name__} "
                      f"({function.__code__.co_filename}): it came out of exec, `python -c` or a REPL that keeps no lines",
                      hint=f"mimw.jit({function.__name__}, source=text) with the text that was executed, without the decorator in "
                      "it; or put it into a .py file, a notebook or Python 3.13's REPL")


def _unreadable(function: FunctionType, file: str) -> NotAKernel:
    """The error for a function of a file that Python has run, and cannot read as a text now."""
    start = f"a kernel is compiled from its source, and that of {function.__name__} cannot be read: {file}"
    try:
        with tokenize.open(file) as text:
            lines = len(text.readlines())
    except (UnicodeDecodeError, SyntaxError, LookupError) as error:
        return NotAKernel(f"{start} is no text in the encoding that it says, or in UTF-8 if it says none ({error})",
                          hint="save the file as UTF-8, or name its encoding in the first line: # -*- coding: latin-1 -*-")
    except OSError as error:
        return NotAKernel(f"{start}: {error.strerror}", hint="make the file readable")
    return NotAKernel(f"{start} has no such `def` from line {function.__code__.co_firstlineno} on any more; it has {lines} lines "
                      "now, so it has changed since Python ran it", hint="start Python, or load the module, once more")


def _remember(function: FunctionType, text: str) -> None:
    """Let Python find the lines of `function`, which was made by executing `text`: for us, for tracebacks and for errors."""
    file = f"<source {next(_numbers)} of mimw.jit>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    function.__code__ = function.__code__.replace(co_filename=file)
