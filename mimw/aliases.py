"""Published kernels write `import triton.language.extra.tlx as tlx` and `@triton.jit`; here those names become ours.

Only entries of `sys.modules` and attributes of imported modules change, in this process, when the caller asks for it.
Triton's own device library (`tl.sum`, `tl.softmax`, ...) was decorated when Triton was imported and stays stock.
"""

from __future__ import annotations

import pkgutil
import sys
from importlib import import_module
from types import ModuleType

_PUBLISHED = "triton.language.extra.tlx"


def install_aliases() -> None:
    """Let published TLX sources import under their own names in this process.

    `triton.language.extra.tlx` and its submodules become the same module objects as `mimw.tlx` and its submodules;
    `triton.jit`, `triton.Config` and `triton.autotune` become ours (Config also where scripts import it from
    `triton.runtime`). Idempotent; call it before importing the sources: a module that took `triton.jit` by name earlier
    keeps the stock one.
    """
    import triton
    import triton.language.extra as extra

    import mimw

    tlx = import_module("mimw.tlx")
    extra.tlx = tlx
    sys.modules[_PUBLISHED] = tlx
    for name, module in _submodules(tlx):
        sys.modules[f"{_PUBLISHED}.{name}"] = module
    triton.jit = mimw.jit
    triton.Config = triton.runtime.Config = triton.runtime.autotuner.Config = mimw.Config
    triton.autotune = triton.runtime.autotune = mimw.autotune


def _submodules(package: ModuleType) -> list[tuple[str, ModuleType]]:
    names = [info.name for info in pkgutil.iter_modules(package.__path__)]
    return [(name, import_module(f"{package.__name__}.{name}")) for name in names]
