"""Tensor memory as arithmetic: how many columns a buffer takes, and how a tile of it is spread over a task's threads.

Input: a buffer's type, a number of warps. Output: columns, a layout. For example:

    columns_of(Buffer(fp16, (128, 64), 2, "tmem"))          32 columns for each of the two buffers
    tile_of(Buffer(fp32, (128, 64), 0, "tmem"), 4)          lane = row mod 32, warp = row / 32, a thread holds a whole row

Sources: PTX ISA, "Tensor Memory" (128 lanes of 512 columns of 32 bits a CTA; warp w of a warpgroup reaches lanes 32 w to 32 w +
31), "tcgen05.ld" (shapes 32x32b and 16x32bx2), "Scale factor layouts". The layouts are those of Triton's `compute_tmem_reg_layout`
(tests/ir/test_tensor_memory.py compares them on a grid of shapes, types and warps).
"""

from __future__ import annotations

from dataclasses import replace

from .layouts import TensorMemory, TensorMemoryTile
from .types import Buffer

LANES, COLUMNS, COLUMN_BYTES = 128, 512, 4
ROWS = (64, 128)                # of a buffer: M of one instruction
SMALLEST = 32                   # columns of an allocation, which is a power of two: PTX ISA, tcgen05.alloc
ATOMS = ("32x32b", "16x64b", "16x128b", "16x256b")      # in the order of bits across an atom of 16 rows: 1, 2 and 3
_WARPGROUP, _LANE_BITS, _ATOM_ROWS = 4, 5, 16
_SCALE_ROWS, _SCALE_COLUMNS = 32, 4     # of one column of a table of scales
_BLOCK_ROWS = 128                       # of one tcgen05.cp of scales


def holds_scales(type_: Buffer) -> bool:
    """True for a table of block scales: a buffer of 8-bit integers."""
    return type_.element.name == "i8"


def lying(type_: Buffer, in_pairs: bool, doubled: bool = False) -> Buffer:
    """The buffer of lanes and columns in which a buffer of that type lies: itself, but where pairs of CTAs work
    (`Program.in_pairs`) one of 64 rows lies in 128 lanes. There row r has its left half in lane r, and its right half in lane
    64 + r, of half as many columns (PTX ISA, tcgen05.mma, data path layouts: M = 128 with .cta_group::2). `doubled`: all columns
    in both, as an operand lies."""
    if doubled:
        return replace(type_, shape=(LANES, type_.shape[1]))
    if not in_pairs or not halved(type_):
        return type_
    return replace(type_, shape=(LANES, type_.shape[1] // 2))


def halved(type_: Buffer) -> bool:
    """True if a buffer lies so in a kernel of pairs: if half its columns are whole columns of 32 bits."""
    rows, columns = type_.shape
    return rows == LANES // 2 and not holds_scales(type_) and columns // 2 * type_.element.bytes >= COLUMN_BYTES


def columns_of(type_: Buffer) -> int:
    """The columns of 32 bits that one buffer takes."""
    rows, columns = type_.shape
    if holds_scales(type_):
        return row_groups(rows) * -(-columns // _SCALE_COLUMNS)
    return -(-columns * type_.element.bytes // COLUMN_BYTES)


def is_packed(shape: tuple[int, ...], rows: int, columns: int) -> bool:
    """True if a buffer of that shape in shared memory may hold a table of scales in the order in which tcgen05.cp takes it:
    blocks of 128 rows and 4 columns, 512 bytes each, in which the four groups of 32 rows lie side by side (PTX ISA, "Scale
    factor layouts")."""
    if rows % _BLOCK_ROWS or columns % _SCALE_COLUMNS:
        return False
    down, across = rows // _BLOCK_ROWS, columns // _SCALE_COLUMNS
    return tuple(shape) in ((down, across, 32, 16), (down, across, 32, 4, 4), (1, down, across, 2, 256), (down, across, 2, 256),
                            (down, across * 512))


def whole_columns(columns: int) -> int:
    """The columns of a table that holds so many scales of a row and fills up its last column of 32 bits."""
    return -(-columns // _SCALE_COLUMNS) * _SCALE_COLUMNS


def is_repeated(shape: tuple[int, ...], rows: int, columns: int) -> bool:
    """True if a buffer of that shape holds 32 rows that tcgen05.cp repeats for each of the four warps."""
    return rows == _BLOCK_ROWS and columns % 16 == 0 and tuple(shape) == (_SCALE_ROWS * (columns // 16), 16)


def row_groups(rows: int) -> int:
    """The columns that 4 columns of a table of so many rows take: 32 rows lie in a column, and Triton has room for 64 at least."""
    return max(2, -(-rows // _SCALE_ROWS))


def layout_of(type_: Buffer) -> TensorMemory:
    """The layout of an allocation of that type; its slices keep the layout."""
    return TensorMemory(*type_.shape, holds_scales(type_))


def tile_of(type_: Buffer, num_warps: int, atom: str = "32x32b", in_pairs: bool = False) -> TensorMemoryTile | None:
    """The layout of a buffer's tile over the threads of `num_warps` warps by one of `ATOMS`, the shapes of `tcgen05.ld`; None
    if that number of warps cannot reach it, or the atom does not fit. `in_pairs`: in a kernel of pairs of CTAs."""
    lies = lying(type_, in_pairs)
    if lies != type_:
        tile, moved = tile_of(lies, num_warps, atom), {(LANES // 2, 0): (0, lies.shape[1])}
        return tile and TensorMemoryTile(*(tuple(moved.get(basis, basis) for basis in bases) for bases in (
            tile.registers, tile.lanes, tile.warps)), type_.shape)
    if num_warps < _WARPGROUP or num_warps & (num_warps - 1):
        return None
    rows, columns = type_.shape
    across = _bases(1, columns, 1)
    more, below = (num_warps // _WARPGROUP).bit_length() - 1, []
    if holds_scales(type_):
        if atom != ATOMS[0]:
            return None
        registers, lanes, warps = across[:2], _bases(1, min(rows, _SCALE_ROWS), 0), [(0, 0), (0, 0)]
        blocks = [basis if basis[0] < rows else (0, 0) for basis in _bases(_SCALE_ROWS, max(rows, 64), 0)]
        free = blocks + across[2:]
        while free and free[-1] == (0, 0):
            free.pop()
    else:
        packed = max(1, COLUMN_BYTES // type_.element.bytes).bit_length() - 1      # bits of a column within 32 bits
        registers, words, quarter = across[:packed], across[packed:], rows // _WARPGROUP
        warps = _bases(quarter, rows, 0)
        if atom == ATOMS[0]:
            lanes, free = _bases(1, quarter, 0), words
        else:
            wide = ATOMS.index(atom)        # bits of words across an atom
            if len(words) < wide:
                return None
            inside, eight = words[max(0, wide - 2):wide], (8, 0)
            registers = registers + words[:max(0, wide - 2)] + [eight] * (wide > 1)
            lanes = [eight] * (wide == 1) + inside + _bases(1, 8, 0)
            free, below = words[wide:], _bases(_ATOM_ROWS, quarter, 0)     # the atom below, of a warp's 32 lanes
    if below and more:
        warps, below, more = warps + below, [], more - 1
    taken = free[max(0, len(free) - more):]
    free = free[:len(free) - len(taken)]
    warps = warps + taken + [(0, 0)] * (more - len(taken))
    while len(lanes) < _LANE_BITS:      # 64 rows, 16 to a warp: the other lanes hold the upper half of the columns
        lanes.append(free.pop() if free and not holds_scales(type_) else (0, 0))
    return TensorMemoryTile(tuple(registers + free + below), tuple(lanes), tuple(warps), (rows, columns))


def _bases(first: int, end: int, axis: int) -> list[tuple[int, int]]:
    """The coordinates first, 2 first, ... below `end` along an axis."""
    found = []
    while first < end:
        found.append((first, 0) if axis == 0 else (0, first))
        first *= 2
    return found
