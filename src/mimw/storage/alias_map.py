"""The map of a piece of shared storage, for people."""

from __future__ import annotations

from collections.abc import Iterable

from ..ir import Place


def alias_map(leaves: Iterable[tuple[str, Place]], total: int) -> str:
    """One line a leaf by offset: the bytes of its first buffer, where the further ones are, and the total.

        0 .. 16384  qk  2 buffers, every 16384
        0 ..  8192  p   4 buffers, 2 in a row, every 16384
    """
    leaves = sorted(leaves, key=lambda leaf: (leaf[1].offset, -leaf[1].size))
    digits, name = len(str(total)), max((len(leaf) for leaf, _ in leaves), default=0)
    lines = [f"{place.offset:>{digits}} .. {place.offset + place.size:>{digits}}  {leaf:<{name}}  {_repeats(place)}"
             for leaf, place in leaves]
    return "\n".join([*lines, f"{total:>{digits}} bytes"])


def _repeats(place: Place) -> str:
    if place.count == 1:
        return "1 buffer"
    row = f", {place.group_size} in a row" if place.group_size > 1 else ""
    every = f", every {place.stride}" if place.slots > 1 else ""
    return f"{place.count} buffers{row}{every}"
