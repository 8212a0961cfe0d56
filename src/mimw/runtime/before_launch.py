"""What looks at a launch before it runs: the check of MIMW_CHECK=1, asked of the tool that makes it, or what a session asks for.

Input: a launch. Output: nothing, or the error of the tool. An example:

    if checking():
        check_launch(kernel, grid, args, keywords)      CheckFailed for a kernel that is wrong
    with looking(look): ...                             meanwhile `look(kernel, grid, args, keywords)` is called instead

The runtime knows no tool: the one that the variable asks for is loaded by its name, at the first launch that it looks at.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

_TOOL = "mimw.tools.checking"
_ENVIRONMENT = os.environ._data     # as in `simulating`: asked on every launch
_CHECK, *_NO = map(os.environ.encodevalue, ("MIMW_CHECK", "", "0"))
_LOOKS: list[Callable[..., Any]] = []


def checking() -> bool:
    """True where launches are looked at before they run: with MIMW_CHECK=1, and while `looking` lasts."""
    if _LOOKS:
        return True
    value = _ENVIRONMENT.get(_CHECK)
    return value is not None and value not in _NO


def check_launch(kernel, grid, args: tuple, keywords: dict[str, Any]) -> None:
    """`tools.checking.check_launch`, or what is looking: arguments and errors as there."""
    (_LOOKS[-1] if _LOOKS else import_module(_TOOL).check_launch)(kernel, grid, args, keywords)


@contextlib.contextmanager
def looking(look: Callable[..., Any]) -> Iterator[None]:
    """Meanwhile `look(kernel, grid, args, keywords)` is called before each launch of this process; its error ends the launch."""
    _LOOKS.append(look)
    try:
        yield
    finally:
        _LOOKS.remove(look)
