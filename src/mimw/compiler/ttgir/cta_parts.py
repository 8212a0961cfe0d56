"""Which part of a tile or buffer lies in which CTA of a cluster, where one program is several CTAs (`num_ctas`).

Input: a type as MLIR writes it. Output: the type of a CTA's part, and a `Split`, which bit of which coordinate each bit of a rank
is. For example:

    part_in("tensor<1024xf32, #ttg.blocked<{.., CGALayout = [[1]]}>>")          fp32[512]
    split_in("tensor<1024xf32, #ttg.blocked<{.., CGALayout = [[1]]}>>", 1)      bits ((0, 9), ): CTA 1 has the upper half
    split_in("!ttg.memdesc<64x64xf16, #ttg.nvmma_shared<{.., CGALayout = [[0, 0]]}>, ..>", 1)     bits (None, ): all of it in both

A part has the coordinates that are left: a tile whose CTAs take turns along a row has parts that lie row by row, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ...ir import Type
from .layout_text import LayoutProblem, read_layout
from .layouts import part_shape, tile_map, tiled_blocks
from .types import layout_in, type_in

_OF_MEMORY = re.compile(r"CGALayout = (\[[\[\]\d, ]*\])")
_SPLIT = re.compile(r"CGALayout = \[|block = \[\[")
_SHAPE = re.compile(r"<(?:tensor<)?((?:\d+x)+)")
Bit = tuple[int, int]       # an axis, and the bit of a coordinate along it


@dataclass(frozen=True)
class Split:
    """`bits`: for each bit of a rank the one that it is of a coordinate in `shape`; None for one that changes nothing, so that both
    CTAs have the same."""

    shape: tuple[int, ...]
    bits: tuple[Bit | None, ...]

    @property
    def part(self) -> tuple[int, ...]:
        """The extents in one CTA."""
        return tuple(extent >> sum(1 for bit in self.bits if bit and bit[0] == axis) for axis, extent in enumerate(self.shape))

    @property
    def same(self) -> int:
        """A mask of the bits of a rank in which CTAs with the same part differ."""
        return sum(1 << place for place, bit in enumerate(self.bits) if bit is None)

    def along(self, axis: int) -> bool:
        """True if CTAs have different parts along an axis."""
        return any(bit and bit[0] == axis for bit in self.bits)

    def places(self, axis: int) -> list[tuple[int, int]]:
        """The bits of a coordinate along an axis that a rank gives: (of the coordinate, of the rank), from the lowest on."""
        return sorted((bit[1], place) for place, bit in enumerate(self.bits) if bit and bit[0] == axis)

    def of_rank(self, rank: int) -> tuple[np.ndarray, ...]:
        """The coordinates of the part of a CTA, as numpy indexes them."""
        taken = []
        for axis, extent in enumerate(self.shape):
            at = np.arange(extent)
            for bit, place in self.places(axis):
                at = at[at >> bit & 1 == rank >> place & 1]
            taken.append(at)
        return np.ix_(*taken)

    def flat(self) -> tuple[int | None, ...]:
        """The bits as those of row-major numbers."""
        steps = [1] * len(self.shape)
        for axis in reversed(range(len(self.shape) - 1)):
            steps[axis] = steps[axis + 1] * self.shape[axis + 1]
        return tuple(bit and (steps[bit[0]] << bit[1]).bit_length() - 1 for bit in self.bits)

    def local(self, chosen: Sequence[Bit | None]) -> tuple[Bit | None, ...]:
        """Some of the bits as those of a tile that all others are taken out of."""
        kept = [bit for bit, taken in zip(self.bits, chosen) if bit and not taken]
        return tuple(bit and (bit[0], bit[1] - sum(1 for axis, one in kept if axis == bit[0] and one < bit[1])) for bit in chosen)


def in_all(split: Split) -> Split:
    """The place of the same tile if each CTA has all of it."""
    return Split(split.shape, (None, ) * len(split.bits))


@lru_cache(maxsize=4096)
def part_in(text: str, data: bool = False) -> Type | None:
    """The type of ours of what one CTA has of a value of that type; `data` as for `type_in`."""
    if not _SPLIT.search(text):
        return type_in(text, data)
    split, found = split_in(text), _SHAPE.search(text)
    return type_in(f"{text[:found.start(1)]}{''.join(f'{extent}x' for extent in split.part)}{text[found.end(1):]}", data)


@lru_cache(maxsize=4096)
def split_in(text: str, bits: int = 0) -> Split:
    """The place of a value of that type in the CTAs of a cluster whose ranks have so many bits. A number is the same in all.

    errors:    LayoutProblem where it does not lie in parts
    """
    found = _SHAPE.search(text) if text.startswith(("tensor<", "!ttg.memdesc<", "!tt.tensordesc<")) else None
    shape = tuple(map(int, found[1].rstrip("x").split("x"))) if found else ()
    bases = _bases(layout_in(text), shape) if found and _SPLIT.search(text) else ()
    taken = [_bit(basis, text) for basis in bases]
    return Split(shape, tuple(taken + [None] * (bits - len(taken))))


def _bases(text: str, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The coordinates that each bit of a rank adds. In front of a buffer's own dimensions stand those that count buffers."""
    if text.startswith("tensor<"):      # of a descriptor: the block, then the layout of its memory
        text = layout_in(text)
    if text.startswith("#ttng"):
        found = _OF_MEMORY.search(text)
        return _grown([tuple(basis) for basis in json.loads(found[1])] if found else [], shape)
    layout = read_layout(text)
    if "shared" not in layout.kind:
        return list(tile_map(text, shape).blocks)
    if "block" in layout.fields:
        return [(0, ) * (len(shape) - len(basis)) + tuple(basis) for basis in layout["block"]]
    given = layout.get("CGALayout") or [()]
    return _grown(tiled_blocks(layout, len(given[0])), shape) if given[0] else []


def _grown(bases: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Coordinates of bases that count parts."""
    if not bases:
        return []
    ahead = len(shape) - len(bases[0])
    part = part_shape(bases, shape[ahead:])
    steps = [tuple(step * extent for step, extent in zip(basis, part)) for basis in bases]
    return [(0, ) * ahead + tuple(step if step < whole else 0 for step, whole in zip(basis, shape[ahead:])) for basis in steps]


def _bit(basis: tuple[int, ...], text: str) -> Bit | None:
    steps = [(axis, step) for axis, step in enumerate(basis) if step]
    if not steps:
        return None
    (axis, step), *more = steps
    if more or step & (step - 1):
        raise LayoutProblem(f"the CTAs of a cluster hold no parts of {text}: a bit of their number leads along {basis}")
    return axis, step.bit_length() - 1
