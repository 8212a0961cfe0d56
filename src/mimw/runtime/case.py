"""`mimw.Case`: a launch and what its results should be, as a `case()` returns it.

Input: kernel, grid, arguments, compile-time values, and the expected results. Output: a tuple of the first four. For example:

    def case():
        x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
        return mimw.Case(double, (1, ), (x, y), {"BLOCK": 64}, expected={"y": 2 * x})

    kernel, grid, args, meta = case()

A `case()` may return a plain tuple of four as well; then there is nothing to compare its results with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any


class Case(tuple[Any, Any, Any, dict[str, Any]]):
    """A launch: (kernel, grid, args, meta), and what is expected of it.

    args:      kernel, grid, args, meta   as for `kernel[grid](*args, **meta)`
               expected    what arrays hold afterwards: a dictionary by the names, or places, of arguments; one array, where the
                           kernel writes one argument; or a function that gives one of these, which is called before the launch
                           with the arguments that its parameters name, descriptors as the arrays they describe. Elements that
                           numpy masks (`np.ma`) are not compared
               tolerance   by how much elements may differ, relative to their own size and to the root mean square of all; one
                           number, or a dictionary as for `expected`; by default by type (docs/CHECKING.md)
    """

    expected: Any
    tolerance: Any

    def __new__(cls, kernel: Any, grid: Any, args: Any, meta: Mapping[str, Any] | None = None, *, expected: Any = None,
                tolerance: float | Mapping[Any, float] | None = None) -> Case:
        self = super().__new__(cls, (kernel, grid, args, dict(meta or {})))
        self.expected, self.tolerance = expected, tolerance
        return self

    def __getnewargs_ex__(self) -> tuple[tuple, dict[str, Any]]:
        """The arguments that a copy is made of."""
        return tuple(self), {"expected": self.expected, "tolerance": self.tolerance}

    def __repr__(self) -> str:
        name = getattr(self[0], "__name__", self[0])
        return f"Case({name}, {self[1]!r}, ...{'' if self.expected is None else ', expected=...'})"


def case_of(launch: tuple) -> Case:
    """A launch of four as a `Case` that expects nothing; a `Case` as it is."""
    return launch if isinstance(launch, Case) else Case(*launch)


# What the simulated launch of a command is compared with, where `kernel[grid](...)` makes it.
_expecting: ContextVar[tuple[Any, Any]] = ContextVar("expecting", default=(None, None))


@contextmanager
def expecting(expected: Any, tolerance: Any) -> Iterator[None]:
    """The first simulated launch inside is compared with `expected`."""
    token = _expecting.set((expected, tolerance))
    try:
        yield
    finally:
        _expecting.reset(token)


def taken() -> tuple[Any, Any]:
    """(expected, tolerance) of the launch that is made here, for it alone: what is expected may be computed by another launch.
    (None, None) where nobody expects anything."""
    found = _expecting.get()
    _expecting.set((None, None))
    return found
