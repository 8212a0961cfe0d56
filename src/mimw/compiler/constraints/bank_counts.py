"""Wavefronts of an access to shared memory: how often lanes that are served together want different words of one bank.

Input: the positions that the bits of register, lane and warp of a tile lead to, the buffer's layout, a chip. Output: wavefronts of
one warp, beside those without conflicts. For example:

    conflicts(access, SwizzledShared(1, 1, 1, (1, 0)), (32, 32), 4, chip)       (1024, 32): a column of words, all lanes in one bank

One wavefront serves a different word of each bank, for lanes that the chip serves together (`banks.phase`). An access takes as many
wavefronts as it has phases, and as many more as lanes of one phase want different words of one bank.

Tiles have power-of-two extents and layouts are XOR-linear, but for the gaps of padded ones: the images of the bits say everything,
and with gaps each phase of each instruction is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from ...ir.byte_maps import byte_offset
from ...ir.layouts import Linear, LinearShared, PaddedShared, RegisterLayout, SharedLayout
from ...ir.linear import linear_of
from ...target import Target
from .banks import WIDEST, WORD, first_lanes, phase

Position = tuple[int, ...]
Cost = tuple[int, int]  # wavefronts of one warp, then instructions
Gaps = tuple[tuple[int, int], ...]  # after so many bytes so many unused ones
# Operands whose K does not lie together: chips with reads that turn them on the way, and those that read element by element.
_TURNING, _BY_ELEMENTS = ("gfx950", ), ("gfx942", )


@dataclass(frozen=True)
class TileAccess:
    """One read or write of a whole buffer: the layout of the tile (None for a kind that is not known), whether the buffer is seen
    transposed, and of which operand of a matrix instruction of AMD's the tile is, 0 or 1."""

    layout: RegisterLayout | None
    transposed: bool = False
    writes: bool = False
    operand: int | None = None


@dataclass(frozen=True)
class BankAccess:
    """The positions in a tile of the allocation to which the bits of register, lane and warp lead."""

    registers: tuple[Position, ...]
    lanes: tuple[Position, ...]
    warps: tuple[Position, ...]
    writes: bool = False


def bank_access(access: TileAccess, shape: tuple[int, ...], element: int, chip: Target) -> BankAccess | None:
    """An access in the dimensions of the allocation, of that shape and bytes of an element; None if it is no linear map here."""
    linear = None if access.layout is None else linear_of(access.layout, shape[::-1] if access.transposed else shape)
    return None if linear is None else held_access(linear, access, element, chip)


def held_access(linear: Linear, access: TileAccess, element: int, chip: Target) -> BankAccess | None:
    """`bank_access` of a tile whose map is known."""
    maps = (linear.registers, linear.lanes, linear.warps)
    if access.transposed:
        maps = tuple(tuple(basis[::-1] for basis in bases) for bases in maps)
    registers, lanes, warps = maps
    if access.operand is not None and (access.operand == 1) != access.transposed:      # K runs along the slower dimension
        if chip.name in _TURNING:
            return turned(registers, lanes, warps, element)
        if chip.name not in _BY_ELEMENTS:
            return None
    return BankAccess(registers, lanes, warps, access.writes)


def turned(registers: tuple[Position, ...], lanes: tuple[Position, ...], warps: tuple[Position, ...],
           element: int) -> BankAccess | None:
    """The access of a read that turns blocks on the way (ds_read_b64_tr_b16, _b8): each of 16 lanes reads 8 bytes along a row, and
    gets a column. None for other elements, and for operands that do not have it."""
    each = 8 // element
    down = [(1 << bit, 0) for bit in range(each.bit_length() - 1)]
    across = [(0, 1 << bit) for bit in range(4)]
    if element > 2 or list(lanes[:4]) != across or not set(down) <= set(registers):
        return None
    wide = len(down)
    kept = tuple(basis for basis in registers if basis not in down)
    return BankAccess((*across[:wide], *kept), (*across[wide:], *down, *lanes[4:]), warps)


@dataclass(frozen=True)
class Counted:
    """Wavefronts of one warp for one tile, how many there would be without conflicts, instructions, and bytes a lane of each."""

    wavefronts: int
    least: int
    instructions: int
    width: int


def counted(access: BankAccess, offset: Callable[[Position], int], element: int, chip: Target, gaps: Gaps = ()) -> Counted:
    """The cost of an access to a warp; `offset` gives the byte of a position, without the unused bytes, `gaps`, before it."""
    found = _Instructions.of(access, offset, element, gaps)
    return Counted(found.wavefronts(chip, access.writes), found.phases(chip, access.writes) * found.count, found.count, found.width)


def cost(access: BankAccess, offset: Callable[[Position], int], element: int, chip: Target) -> Cost:
    """Wavefronts and instructions of a warp for one tile, where `offset` is the byte of a position."""
    found = _Instructions.of(access, offset, element)       # the search of layouts asks often, and not for the least
    return found.wavefronts(chip, access.writes), found.count


def conflicts(access: BankAccess, layout: SharedLayout, shape: tuple[int, ...], element: int, chip: Target) -> Cost | None:
    """Wavefronts of a warp for one tile of that shape, and how many there would be without conflicts; None for layouts that are not
    followed here."""
    gaps: Gaps = ()
    if isinstance(layout, (LinearShared, PaddedShared)):
        numbers = position_numbers(layout.bases, shape)
        if numbers is None:
            return None
        if isinstance(layout, PaddedShared):
            gaps = tuple((interval * element, unused * element) for interval, unused in layout.pairs)
        offset = partial(_numbered, numbers, element)
    else:
        offset = partial(offset_in, layout, shape, element)
    found = counted(access, offset, element, chip, gaps)
    return found.wavefronts, found.least


@dataclass(frozen=True)
class _Instructions:
    """The instructions of a warp for one tile: `width` bytes a lane, the offsets that bits of lanes add, and where each begins."""

    width: int
    lanes: tuple[int, ...]
    starts: tuple[int, ...]
    gaps: Gaps

    @classmethod
    def of(cls, access: BankAccess, offset: Callable[[Position], int], element: int, gaps: Gaps = ()) -> _Instructions:
        registers = {offset(basis) for basis in access.registers if any(basis)}
        lanes = tuple(offset(basis) for basis in access.lanes)
        warps = [offset(basis) for basis in access.warps]
        width = element
        taken: set[int] = set()  # the registers that a wider access takes together
        while width < WIDEST and width in registers and not any(
                step % (2 * width) for step in (*registers - taken - {width}, *lanes, *warps, *sum(gaps, ()))):
            taken.add(width)
            width *= 2
        return cls(width, lanes, tuple(_spanned(sorted(registers - taken))), gaps)

    @property
    def count(self) -> int:
        return len(self.starts)

    def phases(self, chip: Target, writes: bool) -> int:
        return len(first_lanes(phase(chip, self.width, writes), len(self.lanes)))

    def wavefronts(self, chip: Target, writes: bool) -> int:
        served = phase(chip, self.width, writes)
        together = _spanned([self._image(mask) for mask in served.lanes if mask < 1 << len(self.lanes)])
        if not self.gaps:  # then phases and instructions differ in bits that permute the banks, and take as long as the first
            return self.phases(chip, writes) * self.count * _turns(together, self.width, served.banks)
        firsts = [self._image(lane) for lane in first_lanes(served, len(self.lanes))]
        return sum(_turns([self._behind(start ^ first ^ lane) for lane in together], self.width, served.banks)
                   for first in firsts for start in self.starts)

    def _image(self, lane: int) -> int:
        """The offset that a lane adds."""
        found = 0
        for bit, step in enumerate(self.lanes):
            found ^= step if lane >> bit & 1 else 0
        return found

    def _behind(self, offset: int) -> int:
        """An offset with the unused bytes before it."""
        return offset + sum(offset // interval * unused for interval, unused in self.gaps)


def _spanned(steps: Iterable[int]) -> list[int]:
    """All XORs of `steps`."""
    found = [0]
    for step in steps:
        found += [start ^ step for start in found]
    return found


def _turns(starts: list[int], width: int, banks: int) -> int:
    """The most words that one bank is asked for by lanes that begin at `starts`."""
    words: dict[int, set[int]] = {}
    for start in starts:
        for word in range(start // WORD, -(-(start + width) // WORD)):
            words.setdefault(word % banks, set()).add(word)
    return max(map(len, words.values()))


def position_numbers(bases: tuple[Position, ...], shape: tuple[int, ...]) -> dict[tuple[int, int], int] | None:
    """The number of the element at each position that is one bit of one coordinate, (dimension, bit), where bit i of a number adds
    `bases[i]`; None if some position has none."""
    rows: dict[tuple[int, int], tuple[Position, int]] = {}  # by their leading bit: a position, and its number
    for bit, basis in enumerate(bases):
        position, number = _reduced(tuple(basis), 1 << bit, rows)
        if any(position):
            rows[_leading(position)] = position, number
    found = {}
    for dim, extent in enumerate(shape):
        for bit in range(extent.bit_length() - 1):
            left, number = _reduced(tuple(1 << bit if axis == dim else 0 for axis in range(len(shape))), 0, rows)
            if any(left):
                return None
            found[dim, bit] = number
    return found


def _leading(position: Position) -> tuple[int, int]:
    dim = next(axis for axis, coordinate in enumerate(position) if coordinate)
    return dim, position[dim].bit_length() - 1


def _reduced(position: Position, number: int, rows) -> tuple[Position, int]:
    """A position and its number, XORed with rows as long as one has its leading bit."""
    while any(position) and _leading(position) in rows:
        other, more = rows[_leading(position)]
        position, number = tuple(a ^ b for a, b in zip(position, other)), number ^ more
    return position, number


def _numbered(numbers: dict[tuple[int, int], int], element: int, position: Position) -> int:
    """The byte of a position."""
    found = 0
    for dim, coordinate in enumerate(position):
        for bit in range(coordinate.bit_length()):
            found ^= numbers[dim, bit] if coordinate >> bit & 1 else 0
    return found * element


def offset_in(layout: SharedLayout, shape: tuple[int, ...], element: int, position: Position) -> int:
    """The byte of a position."""
    number = 0
    for extent, coordinate in zip(shape, position):
        number = number * extent + coordinate
    return byte_offset(layout, shape, element, number * element)
