"""Python warnings at lines of a kernel: given while it is recorded and checked, and again when its binary comes from a cache.

Input: a class of warning, a text and a line, by `warn_at`. Output: a Python warning at that line, and a `LineWarning` in the
list of `collected_warnings`. Python's own filters decide whether a warning is shown. For example:

    with collected_warnings() as found:      found is [LineWarning("RemarkWarning", "task 'greedy' asks for ...", "kernel.py", 7)]
        record_program(...); run_passes(...)
    for one in found:
        one.repeat()
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from .. import errors
from .site import Site

_SHOWN: dict[str, dict] = {"RemarkWarning": {}}     # what this process has shown, so that the filters recognise a repetition
_LISTENER: ContextVar[tuple[list[LineWarning], bool] | None] = ContextVar("mimw_line_warnings", default=None)


@dataclass(frozen=True)
class LineWarning:
    """One warning: the name of its class in `mimw.errors`, its text, and the line it is about."""

    category: str
    text: str
    file: str
    line: int

    def repeat(self) -> None:
        """Give the warning."""
        warnings.warn_explicit(self.text, getattr(errors, self.category), self.file or "<unknown>", self.line,
                                      registry=_SHOWN.get(self.category))


def warn_at(category: type[Warning], text: str, site: Site) -> None:
    """Warn at a kernel's line."""
    found, (into, aloud) = LineWarning(category.__name__, text, site.file, site.line), _LISTENER.get() or ([], True)
    into.append(found)
    if aloud:
        found.repeat()


@contextmanager
def collected_warnings(aloud: bool = True) -> Iterator[list[LineWarning]]:
    """Collect the warnings that are given inside; not `aloud`, those that were given before, without showing them."""
    found: list[LineWarning] = []
    before = _LISTENER.set((found, aloud))
    try:
        yield found
    finally:
        _LISTENER.reset(before)
