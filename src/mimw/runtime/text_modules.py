"""Modules of texts that mimw itself has written, as orchestrated kernels: no name imports them, but a file does.

    module = text_module("/cache/3f../gemm.py", "gemm", text)
    text_of(module.gemm)                                        "/cache/3f../gemm.py"
    kernel_of_text("/cache/3f../gemm.py", "gemm")               the same kernel, in another process

Input: the path of a file, the module's name, the text. Output: a module that has run, or a kernel of it. The file is there for
whoever reads lines, as the front end and errors, and for processes that compile beside this one (`mimw.compile_ahead`).
"""

from __future__ import annotations

import linecache
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

_MARK = "__mimw_text__"


def text_module(path: str, name: str, text: str) -> ModuleType:
    """A new module of this text, which lies in the file."""
    module = ModuleType(name)
    module.__file__ = path
    setattr(module, _MARK, True)
    linecache.checkcache(path)
    exec(compile(text, path, "exec"), vars(module))
    return module


def text_of(kernel: Any) -> str | None:
    """The file of the text that a kernel was written in; None for kernels of modules that have a name to be imported by."""
    names = getattr(kernel.fn, "__globals__", {})
    return names["__file__"] if names.get(_MARK) else None


@cache
def _of_file(path: str, name: str) -> ModuleType:
    return text_module(path, name, Path(path).read_text())


def kernel_of_text(path: str, name: str) -> Any:
    """The kernel of that name in a file that `text_of` has given. OSError if the file is gone."""
    return getattr(_of_file(path, Path(path).stem), name)
