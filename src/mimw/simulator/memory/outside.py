"""A place outside of an array, whose address may be computed, and which nobody may use.

Input: the error that a use is. Output: an object that stands for a buffer or a barrier. For example:

    Outside(lambda: fail(OutOfBounds, task, op, "index -1 of 'full'"))      raises where it is read, written or waited for

Compilers compute addresses ahead of the condition under which they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


class Outside:
    """Whoever asks it anything gets the error."""

    def __init__(self, error: Callable[[], Exception]):
        self._error = error

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise self._error()

    def __iter__(self) -> Iterator[Any]:
        raise self._error()
