"""The first element of a result that is not as expected.

Input: what arrays are to hold, after the launch. Output: a `Wrong`, or None. For example:

    first_wrong(expectations({"y": want}, None, launch))        Wrong(..., index=(3, ), got=18.0, want=21.0, count=61)

An element may differ by `tolerance * (|want| + rms)`, where rms is the root mean square of all that is wanted: sums that cancel out
near zero are as far off as large ones. Integers and booleans are compared exactly, a NaN equals a NaN, an infinity itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import numbers
from .expected import Expected


@dataclass(frozen=True, eq=False)
class Wrong:
    """The first wrong element of an array, in row-major order: its `index`, what is there and what should be. `count` of `size`
    elements are wrong. `elsewhere` is the index at which the value would be right, where there is just one, and just one for the
    last wrong element's; so values that come more than once, and zeros, say nothing."""

    expected: Expected
    index: tuple[int, ...]
    got: Any
    want: Any
    count: int
    size: int
    elsewhere: tuple[int, ...] | None = None

    @property
    def facts(self) -> str:
        """The facts in a sentence."""
        where = f"{self.expected.name!r}[{', '.join(map(str, self.index))}]" if self.index else repr(self.expected.name)
        rank = "" if self.expected.rank is None else f" of rank {self.expected.rank}"
        others = "" if self.count == 1 else f"; {self.count} of {self.size} elements differ"
        allowed = f" by more than the tolerance of {self.expected.tolerance:g}" if self.expected.tolerance and others else ""
        got, want = _shown(self.got), _shown(self.want)
        if got == want:
            got, want = repr(self.got.item()), repr(self.want.item())
        return f"{where}{rank} is {got}, expected {want}{others}{allowed}"


def first_wrong(wanted: Iterable[Expected], only: Callable[[Expected], np.ndarray | None] = lambda one: None) -> Wrong | None:
    """The first element of the first array that differs. `only(expected)` says which elements are compared, None for all."""
    for one in wanted:
        got, want, asked = numbers(one.array), np.ma.getdata(one.want), ~np.ma.getmaskarray(one.want)
        bad = asked & ~_equal(got, want, asked, one.tolerance)
        if (some := only(one)) is not None:
            bad &= some
        if bad.any():
            places = np.flatnonzero(bad)
            index, last = (_index(places[which], bad.shape) for which in (0, -1))
            moved = [_place_of(got[where], want, asked, one.tolerance) for where in (last, index) if len(places) > 1]
            return Wrong(one, index, got[index], want[index], len(places), bad.size, moved[-1] if all(moved) and moved else None)
    return None


def _index(place: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(int, np.unravel_index(int(place), shape)))


def _place_of(value: Any, want: np.ndarray, asked: np.ndarray, tolerance: float) -> tuple[int, ...] | None:
    """The only index at which `value`, which is not 0, is wanted, of those that are `asked` for."""
    if not value:
        return None
    with np.errstate(all="ignore"):
        near = np.abs(_wide(want.astype(value.dtype)) - _wide(value)) <= 0.1 * tolerance * np.abs(_wide(value))
    places = np.flatnonzero(near & asked)
    return _index(places[0], want.shape) if len(places) == 1 else None


def _equal(got: np.ndarray, want: np.ndarray, asked: np.ndarray, tolerance: float) -> np.ndarray:
    if got.dtype.kind in "iub" and want.dtype.kind in "iub" and not tolerance:
        return np.asarray(got == want)
    got, want = _wide(got), _wide(want)
    with np.errstate(invalid="ignore", over="ignore"):
        finite = want[np.isfinite(want) & asked]
        allowed = tolerance * (np.abs(want) + (np.sqrt(np.mean(np.abs(finite)**2)) if finite.size else 0.0))
        near = (np.abs(got - want) <= allowed) & np.isfinite(want)
    return near | (got == want) | (np.isnan(got) & np.isnan(want))


def _wide(array: np.ndarray) -> np.ndarray:
    return array if array.dtype.kind == "c" else array.astype(np.float64)


def _shown(value: Any) -> str:
    return str(value.item()) if value.dtype.kind in "iub" else f"{float(value):.6g}" if value.dtype.kind != "c" else str(value)
