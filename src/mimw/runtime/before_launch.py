"""MIMW_CHECK=1: the check of a kernel before its first launch, asked of the tool that makes it.

Input: a launch. Output: nothing, or the error of the tool. An example:

    if checking():
        check_launch(kernel, grid, args, keywords)      CheckFailed for a kernel that is wrong

The runtime knows no tool: the one that the variable asks for is loaded by its name, at the first launch that it looks at.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

_TOOL = "mimw.tools.checking"
_ENVIRONMENT = os.environ._data     # as in `simulating`: asked on every launch
_CHECK, *_NO = map(os.environ.encodevalue, ("MIMW_CHECK", "", "0"))


def checking() -> bool:
    """True where launches are checked before they run: MIMW_CHECK=1."""
    value = _ENVIRONMENT.get(_CHECK)
    return value is not None and value not in _NO


def check_launch(kernel, grid, args: tuple, keywords: dict[str, Any]) -> None:
    """`tools.checking.check_launch`: arguments and errors as there."""
    import_module(_TOOL).check_launch(kernel, grid, args, keywords)
