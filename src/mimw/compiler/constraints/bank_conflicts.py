"""Buffers of which no op demands a layout get one in which the lanes of their reads and writes meet in few banks.

Input: a program, the layouts of its buffers, and in which layouts a finished kernel reads and writes them. Output: for each buffer
for which there is a better layout, that layout with its cost and the cost before. An example:

    BankChoice(swizzled(8, 1, 8), wavefronts=4, before=32)        a column read by a warp: 32 lanes in one bank before

What a layout costs `bank_counts` says, by the banks of the chip.

Who reads and writes how is known only after Triton's passes, which choose the tiles' layouts for global memory; so the
compiler lowers once, asks here, and lowers again if there is something to win. Tiles have power-of-two extents and all
layouts are XOR-linear: the images of the bits of register, lane and warp say everything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import prod

from ...ir.core import Program, Value
from ...ir.layouts import LinearShared, SharedLayout, SwizzledShared
from ...target import Target
from .bank_counts import BankAccess, Cost, Position, TileAccess, bank_access, cost, offset_in
from .banks import WIDEST, WORD, most_banks
from .demands import find_requirements
from .same_bytes import find_links
from .views import find_views

_FOLLOWED = frozenset(("view", "free"))  # how a buffer lies for ops whose accesses are known tile by tile


@dataclass(frozen=True)
class BankChoice:
    """A layout, and the wavefronts of all accesses, a warp each, in it and in the layout before."""

    layout: SharedLayout
    wavefronts: int
    before: int


def fewer_conflicts(program: Program, shared: dict[Value, SharedLayout],
                    accesses: dict[Value, list[TileAccess]], chip: Target) -> dict[Value, BankChoice]:
    """A better layout for each buffer that is free and has one.

    args:      shared    the layouts that the buffers have
               accesses  all that the finished kernel does to a buffer
               chip      whose banks are met
    """
    found = {}
    for alloc in free_buffers(program) & accesses.keys():
        shape, element = alloc.type.shape, alloc.type.element.bytes
        followed = [bank_access(access, shape, element, chip) for access in accesses[alloc]]
        if None not in followed:
            choice = choose(shape, element, shared[alloc], followed, chip)
            if choice is not None:
                found[alloc] = choice
    return found


def free_buffers(program: Program) -> frozenset[Value]:
    """The arrays of 2-D tiles that are only read and written whole, in a layout that no op demands."""
    views = find_views(program)
    bound = {demand.alloc for demand in find_requirements(program, views)}
    bound |= {end for link in find_links(program, views) for end in (link.one, link.other)}
    for op in program.walk():
        for value in op.operands:
            seen = views.get(value, ())
            simple = len(seen) == 1 and not seen[0].slices and len(seen[0].dims) == len(seen[0].alloc.type.shape)
            if not simple or not op.row.lies or not _FOLLOWED.issuperset(op.row.lies.values()):
                bound.update(view.alloc for view in seen)
    return frozenset(op.result for op in program.walk() if op.name == "local_alloc" and op.result not in bound
                     and "place" not in op.attrs and op.reuse is None and op.result.type.space == "smem"
                     and len(op.result.type.shape) == 2)


def choose(shape: tuple[int, ...], element: int, present: SharedLayout, accesses: list[BankAccess],
           chip: Target) -> BankChoice | None:
    """The cheapest layout of a tile of that shape and bytes of an element, or None if the present one is."""
    alike, line = Counter(accesses), most_banks(chip) * WORD

    def total(offset: Callable[[Position], int]) -> Cost:
        costs = [(count, *cost(access, offset, element, chip)) for access, count in alike.items()]
        return sum(count * waves for count, waves, _ in costs), sum(count * instructions for count, _, instructions in costs)

    before = total(partial(offset_in, present, shape, element))
    best, layout = before, present
    if before[0] <= sum(_least(access, element, line) for access in accesses):
        return None
    for candidate in _swizzles(shape, element, line):
        found = total(partial(offset_in, candidate, shape, element))
        if found < best:
            best, layout = found, candidate
    for rows in _searched(shape, element, line, total):
        found = total(rows.offset)
        if found[0] < best[0]:
            best, layout = found, rows.layout()
    return BankChoice(layout, best[0], before[0]) if best[0] < before[0] else None


def _least(access: BankAccess, element: int, line: int) -> int:
    """Wavefronts that the bytes of a warp take in any layout."""
    held = sum(any(basis) for basis in (*access.registers, *access.lanes))
    return max(1, (element << held) // line)


def _swizzles(shape: tuple[int, ...], element: int, line: int) -> Iterator[SwizzledShared]:
    """Triton's own swizzles: rows along either of the last two dimensions, vectors of 4, 8 or 16 bytes."""
    rank = len(shape)
    for order in (tuple(reversed(range(rank))), (rank - 2, rank - 1, *reversed(range(rank - 2)))):
        yield SwizzledShared(1, 1, 1, order)
        row = shape[order[0]]
        for vector in dict.fromkeys(max(1, size // element) for size in (WIDEST, 8, WORD)):
            phases = min(row // vector, max(1, line // (vector * element)))
            if phases > 1:
                yield SwizzledShared(vector, max(1, line // (row * element)), phases, order)


@dataclass
class _Rows:
    """Plain rows in which bits of the offset above a line of banks (by number) also flip bits below it (a mask)."""

    shape: tuple[int, ...]
    element: int
    order: tuple[int, ...]
    flips: dict[int, int]

    def plain(self, position: Position) -> int:
        """The element number."""
        number, step = 0, 1
        for dim in self.order:
            number += position[dim] * step
            step *= self.shape[dim]
        return number

    def position(self, number: int) -> Position:
        found = [0] * len(self.shape)
        for dim in self.order:
            number, found[dim] = divmod(number, self.shape[dim])
        return tuple(found)

    def flipped(self, number: int) -> int:
        for bit, mask in self.flips.items():
            number ^= mask if number >> bit & 1 else 0
        return number

    def offset(self, position: Position) -> int:
        return self.flipped(self.plain(position)) * self.element

    def layout(self) -> LinearShared:
        """Flipping twice is not flipping, so the map from offsets to positions is the same one."""
        bits = prod(self.shape).bit_length() - 1
        return LinearShared(tuple(self.position(self.flipped(1 << bit)) for bit in range(bits)), WIDEST)


def _searched(shape: tuple[int, ...], element: int, line: int, total: Callable) -> Iterator[_Rows]:
    """Yield layouts: for each order of the last two dimensions and width of an access, start from plain rows and add the flip
    that helps most, again and again."""
    rank, bits, top = len(shape), prod(shape).bit_length() - 1, (line // element).bit_length() - 1
    for order in (tuple(reversed(range(rank))), (rank - 2, rank - 1, *reversed(range(rank - 2)))):
        for size in (WIDEST, 8, WORD):
            lowest = max(0, (size // element).bit_length() - 1)
            rows = _Rows(shape, element, order, dict.fromkeys(range(top, bits), 0))
            best = total(rows.offset)
            while True:
                tries = []
                for bit in rows.flips:
                    for low in range(lowest, top):
                        flips = rows.flips | {bit: rows.flips[bit] ^ 1 << low}
                        tries.append((total(_Rows(shape, element, order, flips).offset), bit, low, flips))
                found = min(tries, default=None)
                if found is None or found[0] >= best:
                    break
                best, rows.flips = found[0], found[3]
            yield rows
