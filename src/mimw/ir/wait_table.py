"""The table in which a watched kernel notes its waits: its layout, for the compiler and the watchdog.

Input: how many barriers and warps a CTA has. Output: where each thing lies, in bytes from the start of the table.

    table = WaitTable(barriers=4, warps=8)
    table.row(cta, 2)       # of barrier 2: its address | MADE, and | LOOKED with its word at the last look (u64 each)
    table.slot(cta, 5)      # of warp 5: stamp, CTA number + 1, parity, barrier's address (u32 each), began, its word (u64 each)

A grid of more than CTAS programs uses the places in turn: a place belongs to the CTA whose number is in it until the warp has
left its last stamp, which has the bit DONE. CTAS is larger than the number of CTAs that run at one time on any GPU.
"""

from __future__ import annotations

from dataclasses import dataclass

CTAS = 1 << 14
ROW_BYTES, SLOT_BYTES = 16, 32
DONE = 1 << 31
MADE, LOOKED = 1, 2        # in the address of a barrier, which is a multiple of 8


@dataclass(frozen=True)
class WaitTable:
    """`barriers` are all mbarriers of a CTA, `warps` those of the launch."""

    barriers: int
    warps: int

    @property
    def slots(self) -> int:
        """The offset of the warps' slots in a CTA's part."""
        return -(-ROW_BYTES * self.barriers // SLOT_BYTES) * SLOT_BYTES

    @property
    def cta_bytes(self) -> int:
        return self.slots + SLOT_BYTES * self.warps

    def row(self, cta: int, barrier: int) -> int:
        return cta % CTAS * self.cta_bytes + ROW_BYTES * barrier

    def slot(self, cta: int, warp: int) -> int:
        return cta % CTAS * self.cta_bytes + self.slots + SLOT_BYTES * warp

    def bytes(self, ctas: int) -> int:
        """The size of the table of a launch of so many CTAs."""
        return min(ctas, CTAS) * self.cta_bytes
