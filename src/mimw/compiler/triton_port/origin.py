"""Test for the installed Triton's own functions and classes, by the file that defines them.

Input: a Python function, or a class. Output: a bool:

    is_tritons(tl.sum.fn)         True
    is_tritons(tl.dtype)          True
    is_tritons(my_kernel.fn)      False, also where `my_kernel.fn.__module__` is "triton.tutorials.mine"

The name of the module is no evidence: published kernels live in modules of their own that are called
`triton.language.extra.tlx.tutorials...`, too.
"""

from __future__ import annotations

import functools
import os
import sys

import triton

_HOME = os.path.join(os.path.realpath(os.path.dirname(triton.__file__)), "")


def is_tritons(thing) -> bool:
    """True if a function or class was written in a file of the installed Triton."""
    if not (getattr(thing, "__module__", None) or "").startswith("triton."):
        return False
    code = getattr(thing, "__code__", None)
    return is_tritons_file(code.co_filename if code else getattr(sys.modules.get(thing.__module__), "__file__", None))


def is_tritons_module(module) -> bool:
    """True if a module lies in the installed Triton."""
    return is_tritons_file(getattr(module, "__file__", None))


@functools.lru_cache(maxsize=1024)
def is_tritons_file(file: str | None) -> bool:
    """True if a file lies in the installed Triton."""
    return file is not None and os.path.realpath(file).startswith(_HOME)
