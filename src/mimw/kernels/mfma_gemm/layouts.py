"""Layouts of operands and sums for the matrix cores and the LDS of a chip.

Input: a chip, extents, bytes of an element. Output: layouts of TLX; None where the compiler chooses. For example:

    sums = of_sums("gfx950", 2, 16, (2, 4))             instructions of 16 x 16 x 32, 2 by 4 waves
    of_operand(0, sums, 2)                              A as they take it, 16 bytes of K a lane: ds_read_b128
    in_lds("gfx950", 128, 64, 2, 2, 16)                 128 rows of 64 fp16, of which no read finds its banks taken

A copy past the registers writes what the lanes of a wave bring, one after the other: 1024 bytes on gfx950, 256 on gfx942. So what
is moved about within such a range are pieces of 16 bytes at least, and gaps lie between ranges.

Sixteen rows that an instruction reads together lie in sixteen ranges on gfx950, further on in each by a gap. A read of 16 bytes has
four phases, of lanes 0-3, 12-15, 20-27, and so on: of an instruction of 16 rows these are rows 0-3, 12-15 of one piece along K and
4-11 of the next piece, and gaps of 32 bytes send them to all 64 banks; of one of 32 rows they are rows 0-3, 12-15, 20-27 of one
piece, and gaps of 16 bytes do, if row r + 16 lies a whole 256 bytes behind row r.
"""

from __future__ import annotations

import mimw.tlx as tlx

# K of the matrix instructions by chip, bytes of an element, rows: those with the highest rate.
DEPTHS = {"gfx942": {2: {16: 16, 32: 8}, 1: {16: 32, 32: 16}}, "gfx950": {2: {16: 32, 32: 16}, 1: {16: 128, 32: 64}}}
VERSIONS = {"gfx942": 3, "gfx950": 4}
LANE_BYTES = 16         # of a read of LDS
RANGE_BYTES = 1024      # that a wave copies at once on gfx950
GAP_BYTES = {16: 32, 32: 16}    # behind each of them, by the rows of an instruction
BANK_BYTES = 256        # of all 64 banks
ROWS_OF_A_READ = 16     # that lie in ranges of their own


def of_sums(chip: str, size: int, side: int, waves: tuple[int, int]):
    """Sums by instructions of `side` rows and columns."""
    if chip not in VERSIONS:
        return None
    return tlx.amd_mfma_layout(VERSIONS[chip], [side, side, DEPTHS[chip][size][side]], True, list(waves))


def of_operand(index: int, sums, size: int):
    """Operand `index` of a product with such sums."""
    return None if sums is None else tlx.dot_operand_layout(index, sums, LANE_BYTES // size)


def in_lds(chip: str, rows: int, columns: int, size: int, slots: int, side: int):
    """A buffer of rows that lie along K, for instructions of `side` rows."""
    element = [[0, 1 << bit] for bit in range((LANE_BYTES // size).bit_length() - 1)]
    along = [[0, 1 << bit] for bit in range(len(element), columns.bit_length() - 1)]
    down = [[1 << bit, 0] for bit in range(rows.bit_length() - 1)]
    if chip == "gfx950":
        near, line = ROWS_OF_A_READ.bit_length() - 1, columns * size
        far, count = down[near:], (RANGE_BYTES // line).bit_length() - 1
        if side == 32:      # the bit of row r + 16 comes behind those that fill the banks
            filling = (BANK_BYTES // line).bit_length() - 1
            far = [*far[1:1 + filling], far[0], *far[1 + filling:]]
        order = element + along + far[:count] + down[:near] + far[count:]
        gaps = [[RANGE_BYTES // size, GAP_BYTES[side] // size]]
        return tlx.padded_shared_layout_encoding.with_bases(gaps, order, [rows, columns])
    if chip == "gfx942":        # no room for gaps: four rows side by side in pieces of 16 bytes, the only gap behind the last slot
        order = element + down[:2] + along + down[2:]
        return tlx.padded_shared_layout_encoding.with_bases([[rows * columns * slots, LANE_BYTES // size]], order, [rows, columns])
    return None


__all__ = ["in_lds", "of_operand", "of_sums"]
