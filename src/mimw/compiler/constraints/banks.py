"""Banks of shared memory: their number on each chip, and the lanes of a warp that are served together.

Input: a chip, the bytes that a lane reads or writes, and whether it writes. Output: a `Phase`. For example:

    phase(target("gfx942"), 16, False)      Phase(32, (1, 2, 20)): lanes 0 to 3 and 20 to 23, then 4 to 7 and 16 to 19, ...
    phase(target("gfx950"), 16, False)      Phase(64, (1, 2, 12, 20)): lanes 0 to 3, 12 to 15 and 20 to 27, then the others
    phase(target("sm_90a"), 8, True)        Phase(32, (1, 2, 4, 8)): lanes 0 to 15, then 16 to 31

A bank is 4 bytes wide, and one that is asked for two words takes two turns; lanes of different phases never meet. The numbers of
the lanes of a phase are all XORs of a few, those of the others the same XORed with one more number: so `lanes` says everything.

Sources:
* NVIDIA: CUDA C++ Best Practices Guide, "Shared Memory and Memory Banks".
* gfx942, gfx950, reads of 16 bytes: triton-lang/triton, pull request 11365; the same was measured by nod-ai/amd-shark-ai
  ("Empirical LDS Measurements"). Reads of 8 and writes of 16 bytes, consecutive lanes: its kernel optimization guide.
* gfx950 has 64 banks for reads of 8 and 16 bytes, and 32 for all else: Triton's own padding of shared memory for it; for writes of
  8 bytes measured by HipKittens (analysis/paper_experiments/phases). amd-shark-ai measured one phase of 64 lanes for reads of 4
  bytes, which comes to the same for lanes side by side.
* gfx1250 has 64 banks (LLVM, FeatureLDSBankCount64); its phases are published nowhere: taken to be consecutive lanes.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...target import Target

WORD, WIDEST = 4, 16  # bytes of a word, of the widest access of a lane
_BANKS = 32
_MORE_BANKS = {"gfx950": 64, "gfx1250": 64}
_OF_WIDE_READS = ("gfx950", )  # whose further banks only reads of 8 bytes and more reach
_READS_OF_16 = {"gfx942": (1, 2, 20), "gfx950": (1, 2, 12, 20)}


@dataclass(frozen=True)
class Phase:
    """`banks`, and the lanes that meet in them first: 0 and all XORs of `lanes`."""

    banks: int
    lanes: tuple[int, ...]


def most_banks(chip: Target) -> int:
    """The banks that the widest read of a chip meets."""
    return _MORE_BANKS.get(chip.name, _BANKS)


def phase(chip: Target, width: int, writes: bool) -> Phase:
    """The banks and the first phase of an access of `width` bytes a lane, 1 to 16."""
    narrow = chip.name in _OF_WIDE_READS and (writes or width < 8)
    banks = _BANKS if narrow else most_banks(chip)
    if width == WIDEST and not writes and chip.name in _READS_OF_16:
        return Phase(banks, _READS_OF_16[chip.name])
    together = min(chip.warp_size, banks * WORD // max(width, WORD))
    return Phase(banks, tuple(1 << bit for bit in range(together.bit_length() - 1)))


def first_lanes(served: Phase, bits: int) -> list[int]:
    """The lane that stands for each phase of a warp of 2^`bits` lanes: the others of its phase are XORs of it."""
    seen, firsts = {0}, [0]
    for mask in served.lanes:
        seen |= {lane ^ mask for lane in seen}
    for bit in range(bits):
        if 1 << bit not in seen:
            seen |= {lane ^ 1 << bit for lane in seen}
            firsts += [first ^ 1 << bit for first in firsts]
    return firsts
