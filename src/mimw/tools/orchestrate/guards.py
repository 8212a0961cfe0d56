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
from ...runtime.simulate import specialised
from ...runtime.spans import apart


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


def overlap(arguments: Mapping[str, Any], pairs: Iterable[tuple[str, str]]) -> str:
    """A sentence on the first pair of (array that is read, array that is written) that overlap; "" if none does. Names that are no
    arguments are of descriptors that the host makes, of which the module's own `fits` asks."""
    for read, write in sorted(pairs):
        if read in arguments and write in arguments and not apart(arguments[write], arguments[read]):
            return f"{write}, which is written, overlaps {read}, which is read ahead of stores"
    return ""
