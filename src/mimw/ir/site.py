"""Source positions of operations in the user's code.

Input: file, line, column, and the call that led there. Output: a `Site`, which every op carries and every report ends
in:

    str(Site("kernel.py", 7))       "kernel.py:7"

A site inside a helper knows its caller, so an error can show the whole path from the kernel to the line that is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Site:
    """A position in a user's file. `line` counts from 1, `column` from 0; `caller` is the call that led here."""

    file: str
    line: int
    column: int = 0
    function: str = ""
    caller: Site | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    def chain(self) -> tuple[Site, ...]:
        """This site first, then its callers, outermost last."""
        sites, here = [], self
        while here is not None:
            sites.append(here)
            here = here.caller
        return tuple(sites)


def site_of(function: Any) -> Site:
    """The first line of a Python function, its decorators included."""
    code = function.__code__
    return Site(code.co_filename, code.co_firstlineno, 0, function.__name__)


UNKNOWN = Site("<unknown>", 0)
