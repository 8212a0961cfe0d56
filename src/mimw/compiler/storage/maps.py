"""Maps of shared memory, for people: which bytes hold what, and for how long.

Input: names with their places, or entries with offsets and lifetimes. Output: text, a line each. For example:

    alias_map([("qk", Place(0, 16384, 16384, 2))], 32768)            0 .. 16384  qk  2 buffers, every 16384
    storage_map([("tile", 0, 128, 2, 9, "buffer")])                  0 .. 128  tile  buffer  128 bytes  |####..|
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...ir import Place

_BAR = 40  # columns of a lifetime


def alias_map(leaves: Iterable[tuple[str, Place]], total: int, unit: str = "bytes") -> str:
    """One line a leaf by offset: the bytes (or columns) of its first buffer, where the further ones are, and the total.

        0 .. 16384  qk  2 buffers, every 16384
        0 ..  8192  p   4 buffers, 2 in a row, every 16384
    """
    leaves = sorted(leaves, key=lambda leaf: (leaf[1].offset, -leaf[1].size))
    digits, name = len(str(total)), max((len(leaf) for leaf, _ in leaves), default=0)
    lines = [f"{place.offset:>{digits}} .. {place.offset + place.size:>{digits}}  {leaf:<{name}}  {_repeats(place)}"
             for leaf, place in leaves]
    return "\n".join([*lines, f"{total:>{digits}} {unit}"])


def _repeats(place: Place) -> str:
    if place.count == 1:
        return "1 buffer"
    row = f", {place.group_size} in a row" if place.group_size > 1 else ""
    every = f", every {place.stride}" if place.slots > 1 else ""
    return f"{place.count} buffers{row}{every}"


@dataclass(frozen=True)
class StorageEntry:
    """`size` bytes from `offset`, needed from op number `first` to op number `last`, both included. `kind` is a word
    such as buffer, barriers or scratch."""

    name: str
    offset: int
    size: int
    first: int
    last: int
    kind: str


def storage_map(plan_entries: Iterable[StorageEntry | tuple]) -> str:
    """One line an entry by offset, with a bar from its first to its last op; `free` lines are bytes never used.

    Entries may be plain tuples in the order of `StorageEntry`'s fields.
    """
    entries = [entry if isinstance(entry, StorageEntry) else StorageEntry(*entry) for entry in plan_entries]
    if not entries:
        return "no storage\n"
    entries.sort(key=lambda entry: (entry.offset, entry.first, entry.name))
    length = max(entry.last for entry in entries) + 1
    end = max(entry.offset + entry.size for entry in entries)
    digits, size_width = len(str(end)), max(len(str(entry.size)) for entry in entries)
    name = max(4, *(len(entry.name) for entry in entries))
    kind = max(len(entry.kind) for entry in entries)
    lines, used = [], 0
    for entry in entries:
        if entry.offset > used:
            lines.append(f"{used:>{digits}} .. {entry.offset:>{digits}}  {'free':<{name}}")
        lines.append(f"{entry.offset:>{digits}} .. {entry.offset + entry.size:>{digits}}  {entry.name:<{name}}  "
                     f"{entry.kind:<{kind}}  {entry.size:>{size_width}} bytes  |{_lifetime(entry, length)}|")
        used = max(used, entry.offset + entry.size)
    together = _most_at_once(entries)
    lines.append(f"{end} bytes; at most {together} are in use at one time; the bars run over {length} ops")
    return "\n".join(lines) + "\n"


def _lifetime(entry: StorageEntry, length: int) -> str:
    start = entry.first * _BAR // length
    stop = max(start + 1, -(-(entry.last + 1) * _BAR // length))
    return "." * start + "#" * (stop - start) + "." * (_BAR - stop)


def _most_at_once(entries: list[StorageEntry]) -> int:
    """The most distinct bytes in use at the start of any entry's life; aliased bytes count once."""
    most = 0
    for moment in {entry.first for entry in entries}:
        covered, reach = 0, 0
        for entry in entries:
            if entry.first <= moment <= entry.last:
                covered += max(0, entry.offset + entry.size - max(reach, entry.offset))
                reach = max(reach, entry.offset + entry.size)
        most = max(most, covered)
    return most
