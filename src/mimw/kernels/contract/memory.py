"""The words for an array's place in memory in contracts, and what else a check asks of it.

Input: a numpy or torch array, and a word. Output: None, or how the array lies instead:

    strides(array)              in elements
    wrong("tma", array)         "its rows must be contiguous and ..."
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def strides(array: Any) -> tuple[int, ...]:
    """Strides in elements of a numpy or torch array."""
    if hasattr(array, "strides"):
        return tuple(step // array.itemsize for step in array.strides)
    return tuple(array.stride())


def address(array: Any) -> int:
    """The address of a numpy or torch array's first element."""
    return array.data_ptr() if hasattr(array, "data_ptr") else array.__array_interface__["data"][0]


def _rows(array: Any) -> str | None:
    step = strides(array)[-1]
    if step == 1 or array.shape[-1] <= 1:
        return None
    return f"must be contiguous along its last dimension; its strides are {_listed(strides(array))} elements"


def _contiguous(array: Any) -> str | None:
    expected = 0 not in tuple(array.shape)      # one without elements lies as it likes
    for extent, step in zip(reversed(array.shape) if expected else (), reversed(strides(array))):
        if extent != 1 and step != expected:
            return f"must be contiguous; its strides are {_listed(strides(array))} elements"
        expected *= extent
    return None


def _tma(array: Any, ones: bool = True) -> str | None:
    return _pieces(array, 16, "TMA", ones)


def _pieces(array: Any, piece: int, reader: str, ones: bool = True) -> str | None:
    """Rows that begin where a reader of so many bytes at a time does; with `ones` no matter those of extents of 1."""
    size = array.dtype.itemsize
    *outer, step = (one * size for one in strides(array))
    if step == size and not any(one % piece for one, extent in zip(outer, array.shape) if extent > 1 or not ones):
        return None
    return (f"must be contiguous along its last dimension and have strides of multiples of {piece} bytes for {reader}; its strides "
            f"are {_listed((*outer, step))} bytes")


def _to_lds(array: Any, piece: int) -> str | None:
    begins = None if address(array) % 16 == 0 else "must begin at a multiple of 16 bytes for copies to LDS"
    return _pieces(array, piece, "copies to LDS") or begins


def _listed(numbers: tuple) -> str:
    *first, last = map(str, numbers)
    return f"{', '.join(first)} and {last}" if first else last


WORDS: dict[str, Callable[[Any], str | None]] = {
    "rows": _rows, "contiguous": _contiguous, "tma": _tma, "tma-all": lambda array: _tma(array, ones=False),
    "to-lds": lambda array: _to_lds(array, 16), "to-lds-4": lambda array: _to_lds(array, 4)}


def wrong(word: str, array: Any) -> str | None:
    """None where the array lies as the word says; else what it must be and what it is."""
    return WORDS[word](array)
