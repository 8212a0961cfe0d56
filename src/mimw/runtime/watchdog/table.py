"""The table of wait stamps, read on the host while the kernel hangs.

Input: a stamped program and the bytes of its table. Output: for each CTA that has begun and not ended what each of its warps
noted last, and its barriers' words.

    for cta in seen(program, memory.bytes, ctas=132):
        cta.slots[0].stamp, cta.words[2]        # 7: "waits at line 22"; the word of the third barrier of the CTA
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...compiler.passes.stamp_waits import wait_table
from ...ir import Program
from ...ir.wait_table import DONE, LOOKED, MADE, ROW_BYTES, SLOT_BYTES

_COUNT = 0xFFFFF


@dataclass(frozen=True)
class Slot:
    """A warp: the number of its last stamp (0: none), and what a wait for an mbarrier noted. `began` is the GPU's time in ns,
    `word` that of the barrier when the warp last looked."""

    stamp: int
    parity: int = 0
    address: int = 0
    began: int = 0
    word: int = 0


@dataclass(frozen=True)
class SeenCta:
    """`addresses` and `words` go by the barriers' rows; None where no barrier has been made, or nobody has looked. A word of 0 is
    one that somebody has seen."""

    number: int
    slots: tuple[Slot, ...]
    addresses: tuple[int | None, ...]
    words: tuple[int | None, ...]

    def row_at(self, address: int) -> int | None:
        """The row of the barrier that lies there; None if none does."""
        return self.addresses.index(address) if address in self.addresses else None

    def shape(self) -> tuple:
        """The part of a CTA's stamps that a report groups CTAs by: all but times."""
        return tuple((slot.stamp, slot.parity, slot.address) for slot in self.slots), self.words


def seen(program: Program, data: np.ndarray, ctas: int) -> list[SeenCta]:
    """The CTAs of a launch of so many that have begun and not ended, by number."""
    table = wait_table(program)
    places = data[:table.bytes(ctas)].reshape(-1, table.cta_bytes)
    slots = places[:, table.slots:].copy().view(np.uint32).reshape(len(places), table.warps, SLOT_BYTES // 4)
    live = (slots[:, 0, 0] != 0) & (slots[:, 0, 0] & DONE == 0)
    found = [_cta(table, places[place], slots[place]) for place in np.flatnonzero(live)]
    return sorted(found, key=lambda cta: cta.number)


def _cta(table, place: np.ndarray, slots: np.ndarray) -> SeenCta:
    rows = place[:ROW_BYTES * table.barriers].copy().view(np.uint64).reshape(-1, 2).tolist()
    owner = int(slots[0, 1])
    began, words = slots.view(np.uint64)[:, 2].tolist(), slots.view(np.uint64)[:, 3].tolist()
    # A slot that another CTA has left in a place that is used in turn says nothing about this one.
    warps = tuple(Slot(int(slot[0]), int(slot[2]), int(slot[3]), time, word) if slot[1] == owner else Slot(0)
                  for slot, time, word in zip(slots, began, words))
    addresses = tuple(address & ~(MADE | LOOKED) if address & MADE else None for address, _ in rows)
    return SeenCta(owner - 1, warps, addresses, tuple(word if address & LOOKED else None for address, word in rows))


@dataclass(frozen=True)
class Word:
    """The word of an mbarrier, taken apart. PTX calls it opaque. Where the counts lie is what ptxas makes of `mbarrier.init` and
    `mbarrier.pending_count` for sm_90. That the bytes and the parity lie in the bits between and above is concluded from these,
    and no document says so; a report therefore shows the word itself, too."""

    parity: int
    pending: int
    count: int
    pending_bytes: int


def taken_apart(word: int) -> Word:
    """Counts are kept as 2^20 - count: in bits 1 to 20 that of a phase, in 43 to 62 that of the arrivals still missing, whose last
    carry turns the parity, bit 63. Bits 21 to 41 hold the bytes that are missing."""
    size = word >> 21 & 0x1FFFFF
    size -= (size >> 20) << 21
    return Word(word >> 63, -(word >> 43) & _COUNT, -(word >> 1) & _COUNT, abs(size))


def index_of(number: int, grid: tuple[int, int, int]) -> tuple[int, int, int]:
    """The program ids of a CTA, x fastest."""
    return number % grid[0], number // grid[0] % grid[1], number // (grid[0] * grid[1])


def clusters_of(found: list[SeenCta], grid: tuple[int, int, int], shape: tuple[int, int, int]) -> Iterator[list[SeenCta]]:
    """The CTAs that have not ended, by cluster."""
    groups: dict[tuple, list[SeenCta]] = {}
    for cta in found:
        groups.setdefault(tuple(at // extent for at, extent in zip(index_of(cta.number, grid), shape)), []).append(cta)
    yield from groups.values()

