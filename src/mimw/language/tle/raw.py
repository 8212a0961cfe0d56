"""`tle.raw`, for native code inside a kernel: names to import, none of them offered yet.

Input: any arguments. Output: `NotYet`, which names the word; the annotations `Input` and `InOut` have no effect. For
example:

    tle.raw.call(f, x)          not yet: tle.raw.call is not offered by this release
    def f(x: tle.raw.Input[float]): ..
"""

from __future__ import annotations

from ..names import suggesting
from .missing import missing

__all__ = ["InOut", "Input", "call", "call_smem", "dialect", "language"]

call, call_smem, dialect, language = (missing(f"tle.raw.{name}") for name in ("call", "call_smem", "dialect", "language"))


class Input:
    """The annotation of an argument that raw code reads; nothing looks at it yet."""

    def __class_getitem__(cls, item):
        return cls


class InOut(Input):
    """The annotation of an argument that raw code may write."""

__getattr__ = suggesting("tle.raw", __all__)
