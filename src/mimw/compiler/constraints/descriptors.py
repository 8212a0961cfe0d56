"""The layout of each descriptor: how the tiles lie that TMA copies by it, which says how wide its boxes are.

Input: a program. Output: for each descriptor value its layout. Descriptors that may be one and the same get one. An
example:

    tma_load %d ...              %d is descriptor<bf16[128, 64]>: nvmma(128), the layout of its block
    tma_gather %g %rows ...      %g is descriptor<bf16[1, 64]>: nvmma(128), that of a tile of such rows

A block of one row has no swizzle. Rows that are picked lie in the tile as if the tile had been copied as a block, so
their descriptor swizzles as that block does. Hence one descriptor cannot serve for both. Where the author has pinned the
layout of the buffer that TMA fills or reads, without a swizzle or padded for fp4, the descriptor has that one; packed scales
have no swizzle. AMD's data mover knows plain rows alone, with a padding or without.
"""

from __future__ import annotations

from ...errors import LayoutConflict
from ...ir.core import Op, Program, Value
from ...ir.flow import all_carries
from ...ir.layouts import NvmmaShared, PaddedShared, SharedLayout
from ...ir.types import Descriptor, DescriptorSlots
from .defaults import nvmma_shared, plain_shared
from .demands import find_requirements
from .requirements import Requirement
from .views import find_views

_LEAST_ROWS = 8  # of a tile that is gathered: a whole swizzle atom; the swizzle is the same for more


def mover_layouts(program: Program, values: list[Value], shared: dict[Value, SharedLayout]) -> dict[Value, SharedLayout]:
    """The layout of each of `values`, the program's descriptors, on a chip with AMD's data mover: as the buffers lie that it copies
    by them, else plain rows. LayoutConflict for one that buffers of two layouts are copied by."""
    same, views, found = _Same(program), find_views(program), {}
    for op in program.where(lambda row: "moved" in row.lies.values()):
        for layout in (shared[view.alloc] for view in views[op.buffer]):
            layout = layout if isinstance(layout, PaddedShared) else plain_shared(len(op.descriptor.type.shape))
            first, other = found.setdefault(same.root(op.descriptor), (layout, op))
            if first != layout:
                raise LayoutConflict(f"one descriptor copies buffers that lie as {first} and as {layout}; it has one padding.",
                                     other.site, op.site, hint="pin both alike, or make a second descriptor of the same tensor.")
    return {value: found[same.root(value)][0] if same.root(value) in found else plain_shared(len(value.type.shape))
            for value in values}


def descriptor_layouts(program: Program, values: list[Value]) -> dict[Value, NvmmaShared]:
    """The layout of each of `values`, the program's descriptors, for TMA. LayoutConflict for one that blocks and picked rows go
    by."""
    picked = [op for op in program.walk() if _picks(op)]
    layouts = {value: nvmma_shared(value.type.shape, value.type.element) for value in values}
    pinned = _pinned(program)
    if not picked and not pinned:
        return layouts
    same = _Same(program)
    layouts |= _as_pinned(values, pinned, same)
    by_rows = {same.root(op.descriptor): op for op in reversed(picked)}
    for op in program.walk():
        if "descriptor" in op.row.places and op.row.touches and not _picks(op) and same.root(op.descriptor) in by_rows:
            rows = by_rows[same.root(op.descriptor)]
            raise LayoutConflict(f"{op.name} copies a block by a descriptor of which {rows.name} copies picked rows: the rows are "
                                 "swizzled as a tile of them is, and a block of one row is not.", op.site, rows.site,
                                 hint="make a second descriptor of the same tensor.")
    for value in values:
        if same.root(value) in by_rows:
            layouts[value] = nvmma_shared((_LEAST_ROWS, value.type.shape[-1]), value.type.element)
    return layouts


def _pinned(program: Program) -> list[Requirement]:
    """The requirements of all copies of blocks, if an author has pinned the layout of one of the buffers, or an op takes one
    as packed scales; else none."""
    if not any(isinstance(op.attrs.get("layout"), NvmmaShared) or "packed" in op.row.lies.values() for op in program.walk()):
        return []
    return [one for one in find_requirements(program, find_views(program)) if one.block is not None]


def _as_pinned(values: list[Value], wanted: list[Requirement], same: _Same) -> dict[Value, NvmmaShared]:
    """The layouts of the descriptors by which these blocks are copied. LayoutConflict for one with two layouts."""
    first: dict[object, Requirement] = {}
    for one in wanted:
        other = first.setdefault(same.root(one.descriptor), one)
        if other.block != one.block:
            raise LayoutConflict(f"one descriptor copies into {other.alloc.name or 'a buffer'} as {other.block} and into "
                                 f"{one.alloc.name or 'another one'} as {one.block}; it has one layout.", other.site, one.site,
                                 hint="pin both buffers alike, or make a second descriptor of the same tensor.")
    return {value: first[same.root(value)].block for value in values if same.root(value) in first}


def _picks(op: Op) -> bool:
    """True if the op copies rows that a tile picks."""
    return "descriptor" in op.row.places and "rows" in op.row.places


class _Same:
    """Classes of descriptors that may be one: those that control flow hands on, and those of one block in the slots of one
    allocation."""

    def __init__(self, program: Program):
        self._parent: dict[object, object] = {}
        for carry in all_carries(program):
            if isinstance(carry.target.type, (Descriptor, DescriptorSlots)):
                self._join(carry.target, carry.source)
        for op in program.walk():
            if op.viewed is not None and isinstance(op.result.type, (Descriptor, DescriptorSlots)):
                self._join(op.result, op.viewed)
        for op in program.walk():
            if "slot" in op.row.places and op.slot is not None:
                self._join(op.result, (self.root(op.slot), op.result.type.shape, op.result.type.element))

    def root(self, value) -> object:
        while value in self._parent:
            value = self._parent[value]
        return value

    def _join(self, one, other) -> None:
        one, other = self.root(one), self.root(other)
        if one != other:
            self._parent[one] = other
