"""Refusals of kernels of Gluon's, where only the text of a kernel of ours will do.

Input: a JIT function. Output: nothing, or `NotYet` with its line. For example:

    refuse_gluons(fn, "its text is not written anew", "write it in tl")      NotYet: copied is a kernel of Gluon's: its ..

The simulator, checks, predictions and the debugger take kernels of Gluon's (`runtime.ttgir`).
"""

from __future__ import annotations

from typing import Any

from ..compiler.triton_port.runtime import is_gluons
from ..errors import NotYet
from ..ir.site import site_of


def refuse_gluons(fn: Any, why: str, mend: str) -> None:
    """NotYet for a kernel of Gluon's."""
    if is_gluons(fn):
        raise NotYet(f"{fn.__name__} is a kernel of Gluon's: {why}", site_of(fn.fn), hint=f"{mend}.")
