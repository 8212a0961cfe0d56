"""The function that `FILE:NAME` or `package.module:NAME` means.

Input: such a name. Output: the object, from a file or module that is imported with TLX's names answered by mimw's; or a
`CommandError` that lists the kernels that are there:

    load("gemm.py:kernel")          the JITFunction `kernel`
    load("gemm.py:nokernel")        CommandError: gemm.py has no 'nokernel'. It has: kernel.
"""

from __future__ import annotations

import ast
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from inspect import signature
from types import FunctionType, ModuleType
from typing import Any

from .errors import CommandError
from .failing import refusal, wanted_whole
from .script import existing_file


def load(name: str) -> Any:
    """The object NAME of a file or importable module, with the published TLX imports answered by ours.

    A file is imported, not run as `__main__`: code under `if __name__ == "__main__"` does not run. CommandError where there is no
    such file, module or name, and where the import fails.
    """
    from .. import install_aliases

    place, colon, attribute = name.rpartition(":")
    if not colon or not place or not attribute:
        raise CommandError(f"{name!r} names no function. Write FILE:NAME (gemm.py:kernel) or MODULE:NAME.{_there_are(name)}")
    install_aliases()
    module = _file(place) if place.endswith(".py") or os.path.exists(place) else _module(place)
    if not hasattr(module, attribute):
        functions = ", ".join(_functions(module))
        raise CommandError(f"{place} has no {attribute!r}. It has: {', '.join(_kernels(module)) or 'no kernels'}"
                           + (f"; functions that may name a launch: {functions}." if functions else "."))
    return getattr(module, attribute)


def kernel_of(value: Any, name: str) -> Any:
    """The jitted function in `value`, which `name` names: autotuners and heuristics are taken off. CommandError if none is."""
    while hasattr(getattr(value, "fn", None), "fn"):
        value = value.fn
    if not hasattr(value, "fn"):
        raise CommandError(f"{name!r} is a {type(value).__name__}, not a kernel. Is `@mimw.jit` missing?")
    return value


def names_launch(value: Any) -> bool:
    """True if `value` is a function that can return a launch: it is no kernel, and needs no arguments."""
    if not isinstance(value, FunctionType):
        return False
    return all(parameter.default is not parameter.empty or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
               for parameter in signature(value).parameters.values())


def launch_named(function: Any, name: str) -> tuple:
    """(kernel, grid, args, meta) of the launch that `function`, named `name`, gives. CommandError if it gives no such thing."""
    case = called(function, name)
    if not is_launch(case):
        returned = _wrong_part(case) or _shown(case)
        raise CommandError(f"{name} should return (kernel, grid, args, meta), and returned {returned}.{with_results(case)}")
    return case


def _wrong_part(value: Any) -> str:
    """The part of a tuple that keeps it from being a launch, in words; empty if it is no such tuple."""
    if not isinstance(value, tuple) or len(value) != 4:
        return ""
    kernel, _, args, _ = value
    if isinstance(kernel, FunctionType):
        return f"the function {kernel.__name__!r}, which is no kernel: write `@mimw.jit` above `def {kernel.__name__}`"
    if not hasattr(kernel, "fn") and not hasattr(kernel, "params"):
        return f"a {type(kernel).__name__} as the kernel"
    part, kind = ("args", args) if not isinstance(args, (tuple, list)) else ("meta", value[3])
    return f"a {type(kind).__name__} as `{part}`: " + ("one argument alone is written `(x, )`" if part == "args" else
                                                      "it is a dict of compile-time values and launch options, `{}` for none")


def is_launch(value: Any) -> bool:
    """True if `value` is (kernel, grid, args, meta), as a plain tuple or a `mimw.Case`."""
    return (isinstance(value, tuple) and len(value) == 4 and (hasattr(value[0], "fn") or hasattr(value[0], "params"))
            and isinstance(value[2], (tuple, list)) and isinstance(value[3], dict))


def with_results(case: Any) -> str:
    """A sentence for an author who gives expected results in another way than by a `mimw.Case`; "" for any other launch."""
    beside = isinstance(case, tuple) and len(case) == 5
    among = is_launch(case) and "expected" in case[3] and "expected" not in getattr(case[0], "arg_names", ())
    return " Expected results are given as mimw.Case(kernel, grid, args, meta, expected=...)." if beside or among else ""


def called(function: Any, name: str) -> Any:
    """The result of `function()`. CommandError in one line if it is no such function, raises an error that is no refusal of
    ours, or has expected results among the launch's compile-time values."""
    if not names_launch(function):
        raise CommandError(f"{name} is {_shown(function)}, and should be a function without arguments that returns (kernel, grid, "
                           "args, meta).")
    try:
        case = function()
    except Exception as error:
        if wanted_whole() or refusal(error) is not None:
            raise
        message = " ".join(str(error).split())
        raise CommandError(f"{name}() raised {type(error).__name__}: {message}{_line_of(error)}") from error
    if is_launch(case) and (mend := with_results(case)):
        raise CommandError(f"{name} has 'expected' among its compile-time values, and the kernel has no such argument.{mend}")
    return case


def _shown(value: Any) -> str:
    if value is None or isinstance(value, (int, float)):
        return repr(value)
    return f"a tuple of {len(value)}" if isinstance(value, tuple) else f"a {type(value).__name__}"


def _file(path: str) -> ModuleType:
    path = existing_file(path)
    name = os.path.splitext(os.path.basename(path))[0]
    sys.path.insert(0, os.path.dirname(path))
    spec = spec_from_file_location(name, path)
    module = module_from_spec(spec)
    sys.modules[name] = module
    with _importing(path):
        spec.loader.exec_module(module)
    return module


def _module(name: str) -> ModuleType:
    sys.path.insert(0, os.getcwd())
    with _importing(name):
        try:
            return import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not (name + ".").startswith(error.name + "."):
                raise
            raise CommandError(f"there is no file and no module {name!r}.") from None


@contextmanager
def _importing(what: str) -> Iterator[None]:
    """Say in one line why a file or module does not import: the error, and the line of the last frame in user code."""
    try:
        yield
    except CommandError:
        raise
    except SystemExit as error:
        raise CommandError(f"{what} ends Python (exit status {error.code}) when it is imported. Put what it runs under "
                           "`if __name__ == \"__main__\":`.") from error
    except Exception as error:
        message = " ".join(str(error).split())
        raise CommandError(f"{what} does not import: {type(error).__name__}: {message}{_line_of(error)}") from error


def _line_of(error: Exception) -> str:
    """The position at which an import failed, without Python's own import machinery and this file."""
    if isinstance(error, SyntaxError):
        return ""           # its message says where
    frames = [frame for frame in traceback.extract_tb(error.__traceback__)
              if frame.filename != __file__ and not frame.filename.startswith("<frozen")]
    return f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""


def _kernels(module: ModuleType) -> list[str]:
    return [name for name, value in vars(module).items() if hasattr(value, "fn") and not name.startswith("_")]


def _functions(module: ModuleType) -> list[str]:
    """Functions of the module's own that can be called without arguments."""
    return [name for name, value in vars(module).items()
            if names_launch(value) and value.__module__ == module.__name__ and not name.startswith("_")]


def _there_are(file: str) -> str:
    """The functions that a file defines, as a text, read without running the file; "" for a file that is not Python."""
    try:
        with open(file, encoding="utf-8") as text:
            body = ast.parse(text.read()).body
    except (OSError, SyntaxError, ValueError):
        return ""
    names = [node.name for node in body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]
    return f" {file} has: {', '.join(names)}." if names else ""
