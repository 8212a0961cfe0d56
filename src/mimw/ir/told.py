"""Python warnings at lines of a kernel: told while it is recorded and checked, and again when its binary comes from a cache.

    with listening() as told:                told is [Told("RemarkWarning", "task 'greedy' asks for ...", "kernel.py", 7)]
        record_program(...); run_passes(...)
    for one in told:
        one.again()

Input: what is said of a line, by `tell`. Output: a Python warning there, and a `Told` for whoever listens. Python's own filters
decide whether a warning is shown.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from .. import errors
from .site import Site

_SHOWN: dict[str, dict] = {"RemarkWarning": {}}     # what this process has shown, so that the filters can tell a repetition
_LISTENER: ContextVar[tuple[list[Told], bool] | None] = ContextVar("mimw_told", default=None)


@dataclass(frozen=True)
class Told:
    """One warning: the name of its class in `mimw.errors`, its text, and the line it is about."""

    category: str
    text: str
    file: str
    line: int

    def again(self) -> None:
        """Give the warning."""
        warnings.warn_explicit(self.text, getattr(errors, self.category), self.file or "<unknown>", self.line,
                                      registry=_SHOWN.get(self.category))


def tell(category: type[Warning], text: str, site: Site) -> None:
    """Warn at a kernel's line."""
    told, (into, aloud) = Told(category.__name__, text, site.file, site.line), _LISTENER.get() or ([], True)
    into.append(told)
    if aloud:
        told.again()


@contextmanager
def listening(aloud: bool = True) -> Iterator[list[Told]]:
    """Collect what is told inside; not `aloud`, for what was told before, without a warning."""
    told: list[Told] = []
    before = _LISTENER.set((told, aloud))
    try:
        yield told
    finally:
        _LISTENER.reset(before)
