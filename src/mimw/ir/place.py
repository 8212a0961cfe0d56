"""Placement of the buffers of an array in storage that several arrays share: data on an op, once offsets are known.

Input: offset, stride, size, count and group size, from `storage`. Output: where each buffer starts. For example:

    Place(offset=128, stride=384, size=128, count=4, group_size=2).start(2)       512: the first buffer of slot 1
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd


@dataclass(frozen=True)
class Place:
    """Buffer `i`, of `size`, is number `i % group_size` of slot `i // group_size`; slots are `stride` apart, from `offset`.

    In bytes for shared memory, in columns for tensor memory.
    """

    offset: int
    stride: int
    size: int
    count: int
    group_size: int = 1

    @property
    def slots(self) -> int:
        return -(-self.count // self.group_size)

    @property
    def is_contiguous(self) -> bool:
        """True if each buffer starts where the one before it ends."""
        return self.slots == 1 or self.stride == self.group_size * self.size

    @property
    def boundary(self) -> int:
        """The number that divides every start; 0 if the only start is 0."""
        return gcd(self.offset, self.stride if self.slots > 1 else 0, self.size if self.group_size > 1 else 0)

    def start(self, index: int) -> int:
        """The start of buffer `index`."""
        slot, part = divmod(index, self.group_size)
        return slot * self.stride + self.offset + part * self.size

    @property
    def end(self) -> int:
        return self.start(self.count - 1) + self.size

    @property
    def span(self) -> int:
        """The number of buffers that fit between the first start and the last end, gaps included."""
        return (self.end - self.offset) // self.size

    def __str__(self) -> str:
        return f"[{', '.join(str(self.start(index)) for index in range(self.count))}]"
