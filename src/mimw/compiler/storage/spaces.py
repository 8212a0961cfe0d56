"""Places of the buffers of one memory space, in the order of the program, and the bytes that are needed together.

Input: a program and a `Space` of the chip. Output: a `SpaceUse`, with the bytes of the moment that needs most. For example, of a
kernel with two buffers of 50 halves in the unified buffer that are needed at once:

    use_of(program, target("ascend_910b").spaces["ub"]).peak        256: each takes a multiple of 32 bytes
    use_of(program, ...).map()                                      0 .. 128  a  buffer  128 bytes  |####....| ..

Buffers whose lifetimes do not overlap may lie in the same bytes, as the allocator of a chip with such memories lays them. The
places are the lowest that are free; where they end beyond the space although `peak` does not, another allocator may find better
ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ...ir import Program
from ...target import Space
from .lifetimes import SharedEntry, shared_plan
from .maps import StorageEntry, storage_map


@dataclass(frozen=True)
class SpaceUse:
    """The buffers that a program has in `space`, in program order."""

    space: Space
    entries: tuple[SharedEntry, ...]

    def size(self, entry: SharedEntry) -> int:
        """The bytes that an array takes: each of its buffers starts at a multiple of the space's alignment; barriers are close."""
        if entry.kind == "barriers":
            return self.space.aligned(entry.bytes)
        return entry.count * self.space.aligned(entry.tile_bytes)

    @cached_property
    def at_peak(self) -> tuple[SharedEntry, ...]:
        """The buffers that are needed at the moment at which most bytes are."""
        starts = sorted({entry.first for entry in self.entries})
        at = [tuple(entry for entry in self.entries if entry.first <= start <= entry.last) for start in starts]
        return max(at, key=lambda entries: sum(map(self.size, entries)), default=())

    @property
    def peak(self) -> int:
        """The most bytes that are needed at once: no allocator can do with less."""
        return sum(map(self.size, self.at_peak))

    def places(self) -> list[tuple[SharedEntry, int]]:
        """Each array with the offset of its first byte."""
        placed: list[tuple[SharedEntry, int]] = []
        for entry in self.entries:
            size, offset = self.size(entry), 0
            near = sorted((start, start + self.size(other)) for other, start in placed
                          if other.first <= entry.last and entry.first <= other.last)
            for start, end in near:
                if offset + size <= start:
                    break
                offset = max(offset, end)
            placed.append((entry, offset))
        return placed

    @property
    def end(self) -> int:
        """The first byte behind all places."""
        return max((offset + self.size(entry) for entry, offset in self.places()), default=0)

    def map(self) -> str:
        """A line an array: its bytes, and a bar from its first to its last op."""
        return storage_map(StorageEntry(entry.name, offset, self.size(entry), entry.first, entry.last, entry.kind)
                           for entry, offset in self.places())


def use_of(program: Program, space: Space) -> SpaceUse:
    """The use of one space of a chip by a program."""
    return SpaceUse(space, shared_plan(program, space=space.name).entries)
