"""Warp-group orchestration for stock Triton: which warps do which work, where a tile lives, which task waits for which.

Input: a public name. Output: the function, the class or the module of that name, loaded when it is asked for the first
time:

    import mimw                 loads nothing else, neither Triton nor numpy
    mimw.jit, from mimw ...     loads the module that defines the name: here mimw/jit.py

A name such as `check` is both a function and a module: `mimw.check` is always the function, whichever module has imported the
module `mimw.check`, and in whatever order. `mimw.compile` is one, too, beside the package of the compiler, from which names are
imported as from any: `from mimw.compile import compile_kernel`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import tle, tlx
    from .ahead import compile
    from .aliases import install_aliases
    from .autotune import Config, autotune
    from .check import check
    from .compile_ahead import compile_ahead
    from .explain import explain
    from .host import TensorDescriptor
    from .jit import jit
    from .simulate import simulate
    from .timing.predict import predict
    from .timing.profile import profile
    from .world import World

__version__ = "0.1.0"

__all__ = [
    "Config",
    "TensorDescriptor",
    "World",
    "__version__",
    "autotune",
    "check",
    "compile",
    "compile_ahead",
    "explain",
    "install_aliases",
    "jit",
    "predict",
    "profile",
    "simulate",
    "tle",
    "tlx",
]

# Public name -> the module that defines it; the names that are not here are modules themselves.
_HOMES = {
    "Config": "autotune",
    "TensorDescriptor": "host",
    "World": "world",
    "autotune": "autotune",
    "check": "check",
    "compile": "ahead",
    "compile_ahead": "compile_ahead",
    "explain": "explain",
    "install_aliases": "aliases",
    "jit": "jit",
    "predict": "timing.predict",
    "profile": "timing.profile",
    "simulate": "simulate",
}

# What else of the package is for users, as modules: `from mimw import ops`. Those that need torch are no part of a star import.
_MODULES = ("distributed", "errors", "kernels", "ops", "testing")


class _Package(ModuleType):
    """Python's import sets every submodule as an attribute of its package; where the attribute is a function, it stays one."""

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and name in _HOMES:
            if _HOMES[name] != name:
                return          # the function is another module's; `__getattr__` finds it when it is asked for
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    """A public name, or a module of the package, at its first use. AttributeError also for a module that cannot be imported, as
    `ops` without torch: `help(mimw)` and `hasattr` ask for all names of `dir(mimw)`, and pass over such a one."""
    if name in _HOMES:
        value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    elif name.startswith("_") or find_spec(f"{__name__}.{name}") is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    else:
        try:
            value = import_module(f".{name}", __name__)
        except ImportError as error:
            raise AttributeError(str(error)) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, and what every module has."""
    return sorted({*__all__, *_MODULES, *(name for name in globals() if name.startswith("__") and name.endswith("__"))})
