"""Why a kernel's launch has the configuration that it has, noted while somebody listens.

Input: the kernel's package, and the reason. Output: the reasons in their order. For example:

    with listening() as said:
        chosen = configuration(4096, 4096, 4096)
    said                                [("gemm", "measured row (4096, 4096, 4096, 2)")]

A configuration is chosen once for launches that look alike, so noting costs a launch nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_SAID: ContextVar[list[tuple[str, str]] | None] = ContextVar("mimw_chosen", default=None)


@contextmanager
def listening() -> Iterator[list[tuple[str, str]]]:
    """Inside, the list gets (package, reason) of what is chosen in this thread."""
    said: list[tuple[str, str]] = []
    before = _SAID.set(said)
    try:
        yield said
    finally:
        _SAID.reset(before)


def because(package: str, reason: str) -> None:
    """Note a reason, if somebody listens."""
    said = _SAID.get()
    if said is not None:
        said.append((package, reason))


class Rows(dict):
    """What was made of the measured rows of a package: a row that is found is a reason."""

    def __init__(self, package: str, rows: dict):
        super().__init__(rows)
        self._package = package

    def __getitem__(self, key: Hashable) -> Any:
        found = super().__getitem__(key)
        because(self._package, f"measured row {key}")
        return found

    def get(self, key: Hashable, default: Any = None) -> Any:
        return self[key] if key in self else default


__all__ = ["Rows", "because", "listening"]
