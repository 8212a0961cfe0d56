"""Whether a launch is one that the orchestrated kernel is right for; if not, the plain kernel runs.

Input: an `Orchestration`, and the arguments of a launch. Output: "" or the reason. For example:

    why_plain(found, (32, ), (a, b, c, 4096), {})       "c, which is written, overlaps a, which is read ahead of stores"

The producer reads ahead of the kernel's stores, so what it reads must lie apart from what is written. And the kernel was made
for types, constants, integers that are 1, and multiples of 16: other ones are another kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...errors import MimwError
from ...runtime.host import is_array
from ...runtime.simulate import specialised


def why_plain(found: Any, grid: tuple[int, ...], args: tuple, meta: Mapping[str, Any]) -> str:
    """The reason for which a launch goes to the plain kernel; "" if it need not."""
    plain = found.plain
    try:
        specialisation, _, _, _ = specialised(plain.kernel, args, dict(meta), plain.chip)
    except MimwError:
        return "its arguments do not fit the plain kernel, which says why"
    if key(specialisation) != key(plain.launch.specialisation):
        return "its types, constants, or what 16 divides of its numbers are others than those that it was orchestrated for"
    return found.chosen.written.why_plain(grid, args, meta)


def key(specialisation: Any) -> tuple:
    """All that a kernel is compiled for."""
    return (repr(specialisation.signature), repr(sorted((path, repr(value)) for path, value in specialisation.constants.items())),
            repr(sorted(specialisation.attrs)), repr(sorted(specialisation.options.items(), key=str)))


def overlap(arguments: Mapping[str, Any], apart: Iterable[tuple[str, str]]) -> str:
    """A sentence on the first pair of (array that is read, array that is written) that overlap; "" if none does."""
    for read, write in sorted(apart):
        if _meet(_span(arguments.get(write)), _span(arguments.get(read))):
            return f"{write}, which is written, overlaps {read}, which is read ahead of stores"
    return ""


def _span(value: Any) -> tuple[int, int] | None:
    """The bytes of an array, or of the array that a descriptor describes."""
    value = getattr(value, "base", value) if hasattr(value, "block_shape") else value
    if not is_array(value):
        return None
    first = value.data_ptr() if hasattr(value, "data_ptr") else value.__array_interface__["data"][0]
    size = value.element_size() if hasattr(value, "element_size") else value.itemsize
    strides = value.stride() if callable(getattr(value, "stride", None)) else [step // size for step in value.strides]
    reach = [(extent - 1) * step for extent, step in zip(value.shape, strides) if extent]
    low, high = sum(step for step in reach if step < 0), sum(step for step in reach if step > 0)
    return first + low * size, first + (high + 1) * size


def _meet(one: tuple[int, int] | None, other: tuple[int, int] | None) -> bool:
    return one is not None and other is not None and one[0] < other[1] and other[0] < one[1]
