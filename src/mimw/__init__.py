"""Warp-group orchestration for stock Triton: which warps do which work, where a tile lives, which task waits for which.

Input: a public name. Output: the function, the class or the module of that name, loaded when it is asked for the first
time:

    import mimw                 loads nothing else, neither Triton nor numpy
    mimw.jit, from mimw ...     loads the module that defines the name: here mimw/runtime/jit.py
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from os import path as _path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import tle, tlx
    from .ir.world import World
    from .runtime.ahead import compile
    from .runtime.autotune import Config, autotune
    from .runtime.case import Case
    from .runtime.host import TensorDescriptor
    from .runtime.jit import jit
    from .runtime.simulate import simulate
    from .tools.check import check
    from .tools.check_ttgir import check_compiled, check_ttgir
    from .tools.compile_ahead import compile_ahead
    from .tools.debugger.launch import debug
    from .tools.explain import explain
    from .tools.orchestrate.auto import auto
    from .tools.orchestrate.orchestrating import orchestrate
    from .tools.timing.predict import predict
    from .tools.timing.profile import profile

__version__ = "0.2.0"

__all__ = [
    "Case",
    "Config",
    "TensorDescriptor",
    "World",
    "__version__",
    "auto",
    "autotune",
    "check",
    "check_compiled",
    "check_ttgir",
    "compile",
    "compile_ahead",
    "debug",
    "explain",
    "install_aliases",
    "jit",
    "orchestrate",
    "predict",
    "profile",
    "simulate",
    "tle",
    "tlx",
]

# Public name -> the module that defines it; the names that are not here are modules themselves.
_HOMES = {
    "Case": "runtime.case",
    "Config": "runtime.autotune",
    "TensorDescriptor": "runtime.host",
    "World": "ir.world",
    "auto": "tools.orchestrate.auto",
    "autotune": "runtime.autotune",
    "check": "tools.check",
    "check_compiled": "tools.check_ttgir",
    "check_ttgir": "tools.check_ttgir",
    "compile": "runtime.ahead",
    "compile_ahead": "tools.compile_ahead",
    "debug": "tools.debugger.launch",
    "explain": "tools.explain",
    "jit": "runtime.jit",
    "orchestrate": "tools.orchestrate.orchestrating",
    "predict": "tools.timing.predict",
    "profile": "tools.timing.profile",
    "simulate": "runtime.simulate",
}

# What else of the package is for users, as modules: `from mimw import ops`. Those that need torch are no part of a star import.
_MODULES = ("distributed", "errors", "kernels", "ops", "testing")


def install_aliases() -> None:
    """Let published TLX and TLE sources import under their own names in this process.

    `triton.language.extra.tlx` and its submodules become the same module objects as `mimw.tlx` and its submodules, and two of these
    are also `triton.language.extra.subtile_ops` and `triton.language.extra.cuda.inline_ptx_lib`;
    `triton.experimental.tle` and `triton.experimental.tle.language` become `mimw.tle`, with `gpu`, `dsa` and `raw` below both, and
    `triton.experimental.flagtree.edsl` and `.language` `mimw.tle.raw` and `mimw.tle`; `mlir`, `mlir.ir` and `mlir.dialects`, where
    they are not installed, become what raw bodies need of them;
    `triton.jit`, `triton.Config`, `triton.autotune` and `triton.compile` become mimw's (Config also where scripts import it from
    `triton.runtime`). Where launches are simulated, `triton.runtime.driver.active` answers for the target that is simulated
    (MIMW_TARGET), and so do `torch.cuda.get_device_capability`, `get_device_properties` and `get_device_name`; `do_bench` and
    `perf_report` of `triton.testing` predict there, and say so. Idempotent; call it before importing the sources: a module that
    took `triton.jit` by name earlier keeps the stock one.
    """
    from .runtime.aliases import answer_published
    answer_published(sys.modules[__name__])


def __getattr__(name: str) -> Any:
    """A public name, or a module of the package, at its first use. AttributeError also for a module that cannot be imported, as
    `ops` without torch: `help(mimw)` and `hasattr` ask for all names of `dir(mimw)`, and pass over such a one."""
    if name in _HOMES:
        value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    elif name.startswith("_") or find_spec(f"{__name__}.{name}") is None:
        from difflib import get_close_matches
        close = [] if name.startswith("_") else get_close_matches(name, [*__all__, *_MODULES], n=1)
        meant = f". Did you mean mimw.{close[0]}?" if close else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{meant}")
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


if not _path.isfile(_path.join(__path__[0], "kernels", "__init__.py")):     # the library is a package of its own
    from .runtime.library import refuse_by_name
    refuse_by_name()
