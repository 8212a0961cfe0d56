"""The storage map: which bytes hold what, and for how long."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_BAR = 40  # columns of a lifetime


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
