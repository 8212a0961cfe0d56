"""A cache of the output of compilers of native code, beside Triton's compiled kernels.

Input: all that the result depends on, and a function that makes it. Output: the result, made once:

    ptx = kept(("cuda", text, "sm_90a", flags), lambda: compile(..))
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from ..triton_port.runtime import keep_text, kept_text

_MADE: dict[str, str] = {}


def kept(depends_on: tuple, make: Callable[[], str]) -> str:
    """The text that `make` makes, from this process, from disk, or made now."""
    key = hashlib.sha256(repr(depends_on).encode()).hexdigest()
    if key not in _MADE:
        found = kept_text(key, "raw.ptx")
        if found is None:
            found = make()
            keep_text(key, "raw.ptx", found)
        _MADE[key] = found
    return _MADE[key]
