"""Allocation of the bytes of a heap: arithmetic alone, the same at every rank, since every rank makes the same calls.

Input: sizes. Output: offsets, multiples of 256:

    places = Places(first=512, end=4096)
    places.take(1000)       512
    places.take(10)         1536
    places.give(512)        the first place is free again; the next request that fits gets it
"""

from __future__ import annotations

from ..ir.world import ALIGNED


class Places:
    """The bytes from `first` to `end`; requests get the first gap that is large enough."""

    def __init__(self, first: int, end: int):
        self.first, self.end = _rounded(first), end
        self.taken: dict[int, int] = {}     # offset -> bytes, in order of offsets

    def take(self, size: int) -> int | None:
        """An offset; None where no gap is so large. Nothing takes a place, too, so that every offset names one request."""
        size = _rounded(max(size, 1))
        at = self.first
        for offset, length in self.taken.items():
            if offset - at >= size:
                break
            at = offset + length
        if at + size > self.end:
            return None
        self.taken = dict(sorted((self.taken | {at: size}).items()))
        return at

    def give(self, offset: int) -> int:
        """Free what `take` gave; its bytes."""
        return self.taken.pop(offset)

    def holds(self, offset: int, size: int) -> bool:
        """True if `take(size)` gave this offset."""
        return self.taken.get(offset) == _rounded(max(size, 1))

    @property
    def free(self) -> int:
        """Bytes that are not taken, in all gaps together."""
        return self.end - self.first - sum(self.taken.values())

    @property
    def widest(self) -> int:
        """Bytes of the largest gap."""
        at, widest = self.first, 0
        for offset, length in [*self.taken.items(), (self.end, 0)]:
            widest, at = max(widest, offset - at), offset + length
        return widest


def _rounded(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED


__all__ = ["Places"]
