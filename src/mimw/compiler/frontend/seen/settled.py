"""Modules whose content follows from their version, so that a digest need not hold it, and names in them that read the
environment.

Input: the name of a module, or a function. Output: True or False. For example:

    is_settled("triton.language")       True: Triton's own key holds its version, and `compiler_hash` this package's sources
    is_settled("consts")                False: a file of the user's
    asks_outside("os.environ")          True: its value may differ in the next process

A package in the folder of installed packages is not settled: people edit there, and reinstall without a new version.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from ...triton_port.origin import is_tritons, is_tritons_module

_PACKAGES = frozenset(("ml_dtypes", "numpy", "torch"))
_OF_PYTHON = frozenset(sys.stdlib_module_names) | {"builtins"}
# Of Python's own modules those whose functions give the same for the same arguments; any other may ask files, clocks, the system.
_SAME_EVERYWHERE = frozenset((
    "abc", "ast", "bisect", "builtins", "cmath", "collections", "copy", "dataclasses", "decimal", "enum", "fractions", "functools",
    "heapq", "itertools", "keyword", "math", "numbers", "operator", "re", "statistics", "string", "struct", "textwrap", "types",
    "typing"))
_BUILTINS = frozenset(("__import__", "compile", "dir", "eval", "exec", "globals", "hash", "id", "input", "locals", "open", "vars"))
_OF_PACKAGES = ("numpy.random", "numpy.load", "numpy.from", "numpy.genfromtxt", "numpy.memmap", "torch.", "triton.runtime",
                "triton.knobs", "triton.backends", "triton.testing")
_VALUES_OF_PACKAGES = ("torch.dtype", "torch.device", "triton.runtime.jit")


def is_settled(module: str) -> bool:
    """True if versions determine the content of a module."""
    top = module.partition(".")[0]
    return top in _PACKAGES or top in _OF_PYTHON or top in ("mimw", "triton")


def is_settled_module(module: ModuleType) -> bool:
    """True if versions determine the content of a loaded module; a user's may be called `triton.language.extra...`, too."""
    name = module.__name__
    return is_tritons_module(module) if name.partition(".")[0] == "triton" else is_settled(name)


def is_settled_thing(thing: Any) -> bool:
    """True if versions determine the content of a function or class. A function belongs to its module if its globals are that
    module's: a copy that was made of the text elsewhere may say something else."""
    module = getattr(thing, "__module__", None) or ""
    if hasattr(thing, "__globals__") and thing.__globals__ is not getattr(sys.modules.get(module), "__dict__", None):
        return False
    return is_tritons(thing) if module.startswith("triton.") else is_settled(module)


def asks_outside(path: str) -> bool:
    """True if the name `path` of a settled module may have another value in another process."""
    top, _, rest = path.partition(".")
    if top == "builtins":
        return rest in _BUILTINS
    if top in _OF_PYTHON:
        return top != "__future__" and top.lstrip("_") not in _SAME_EVERYWHERE     # `_functools` has what is written in C
    return path.startswith(_OF_PACKAGES) and not path.startswith(_VALUES_OF_PACKAGES)


def version(module: str) -> str:
    """The version of the package that a settled module belongs to, where it says one."""
    top = module.partition(".")[0]
    return str(getattr(sys.modules.get(top), "__version__", "")) if top in _PACKAGES else ""
