"""Storage maps: the buffers at each offset of shared memory, tensor memory and the local memories of a chip.

Input: a program after the passes, its chip, and where known the places that the compiled kernel has. Output: `StorageMap`s, and
their pictures. For example, of a ring of six slots:

    storage_maps(program, chip)[0].regions[0]        Region("a", 0, 98304, 6, "buffer", sites, "bf16[128, 64]")

Without a compiled kernel the places are planned ones: the lowest that are free. Regions of the same bytes stand below each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from ...compiler.analysis import uses_of
from ...compiler.analysis.memory_uses import memory_uses
from ...compiler.storage import Row, allocated_columns, tensor_arrays, use_of
from ...ir import Program, Site, Value
from ...target import GLOBAL, SHARED, TENSOR, Target
from .. import svg
from .lines import Lines

_WIDTH, _ROW, _EDGE = 760.0, 30.0, 4.0


@dataclass(frozen=True)
class Region:
    """`size` from `start`, in `count` equal buffers; `sites` are the allocation and all that touches it."""

    name: str
    start: int
    size: int
    count: int
    kind: str
    sites: tuple[Site, ...] = ()
    tile: str = ""


@dataclass(frozen=True)
class StorageMap:
    """One memory with `limit` of `unit`."""

    title: str
    unit: str
    limit: int
    regions: tuple[Region, ...]
    note: str = ""

    @property
    def used(self) -> int:
        return max((region.start + region.size for region in self.regions), default=0)


_PLANNED = "places as planned; the compiled kernel, whose scratch is not known here, may have others"


def storage_maps(program: Program, target: Target, compiled: Sequence[Row] = ()) -> list[StorageMap]:
    """The memories that the program uses. `compiled` are the rows of shared memory in the compiled kernel."""
    found = []
    for name, space in target.spaces.items():
        if name == TENSOR:
            found += _tensor(program, target)
        elif name == SHARED and compiled:
            found.append(StorageMap(space.title, "bytes", space.bytes, tuple(_of_row(program, row) for row in compiled),
                                    "places of the compiled kernel"))
        elif name != GLOBAL and (use := use_of(program, space)).entries:
            places = use.places()
            regions = [_region(program, entry.value, entry.name, offset, use.size(entry), entry.count, entry.kind,
                               _tile(entry.element, entry.shape), entry.site) for entry, offset in places]
            bases = {entry.value: offset for entry, offset in places}
            found.append(StorageMap(space.title, "bytes", space.bytes, (*regions, *_placed(program, name, bases)),
                                    _PLANNED if name == SHARED else ""))
    return found


def _tile(element: str, shape: Sequence[int]) -> str:
    return f"{element}{list(shape)}" if shape else ""


def _region(program: Program, value: Value, name: str, start: int, size: int, count: int, kind: str, tile: str,
            site: Site) -> Region:
    touching, _ = memory_uses(uses_of(program), value)
    return Region(name, start, size, count, kind, tuple(dict.fromkeys([site, *(op.site for op in touching)])), tile)


def _of_row(program: Program, row: Row) -> Region:
    entry = row.entry
    if entry is None:
        return Region(row.name, row.start, row.size, 1, row.kind, row.sites)
    return _region(program, entry.value, row.name, row.start, row.size, entry.count, row.kind, _tile(entry.element, entry.shape),
                   entry.site)


def _placed(program: Program, space: str, bases: dict[Value, int]) -> list[Region]:
    """The arrays that lie in a storage, or in another array, by the place that they have in it."""
    found = []
    for op in program.walk():
        if op.row.allocates == "buffer" and "place" in op.attrs and op.result.type.space == space:
            place, type_ = op.attrs["place"], op.result.type
            size = place.start(place.count - 1) + place.size - place.offset
            name, start = op.result.name or f"line {op.site.line}", bases.get(op.reuse, 0) + place.offset
            found.append(_region(program, op.result, name, start, size, place.count, "buffer",
                                 _tile(str(type_.element), type_.shape), op.site))
    return found


def _tensor(program: Program, target: Target) -> list[StorageMap]:
    arrays = tensor_arrays(program)
    if not arrays:
        return []
    values = {(op.site, op.result.name or f"line {op.site.line}"): op.result for op in program.walk()
              if op.row.allocates == "buffer"}
    regions = []
    for array in arrays:
        place, name = array.place, array.name
        size = place.start(place.count - 1) + place.size - place.offset
        regions.append(_region(program, values[array.site, name], name, place.offset, size, place.count, "buffer",
                               _tile(str(array.type.element), array.type.shape), array.site))
    return [StorageMap("tensor memory", "columns", target.tensor_memory_columns, tuple(regions),
                       f"the CTA allocates {allocated_columns(program)} columns")]


def map_svg(one: StorageMap, lines: Lines) -> str:
    """The map as a picture: a bar a region, by offset; regions of the same bytes below each other."""
    shown = min(one.limit or one.used, max(1, one.used * 5 // 4)) or 1
    scale = (_WIDTH - 2 * _EDGE) / shown
    levels = _levels(one.regions)
    height = _ROW * (max(levels, default=0) + 1)
    body = svg.element("rect", class_="paper", x=_EDGE, y=0, width=_WIDTH - 2 * _EDGE, height=height - 4, rx=3)
    for region, level in sorted(zip(one.regions, levels), key=lambda pair: pair[0].start):
        body += _bar(region, _ROW * level, scale, one.unit, lines)
    for tick in _ticks(shown, one.unit):
        x = _EDGE + tick * scale
        anchor = "start" if tick == 0 else "end" if x > _WIDTH - 30 else "middle"
        body += svg.element("line", class_="rule", x1=x, x2=x, y1=height - 4, y2=height + 1)
        body += svg.element("text", escape(_amount(int(tick), one.unit)), class_="tick", x=x, y=height + 14, text_anchor=anchor)
    return (f'<svg class="map" role="listbox" aria-label="{escape(one.title)}, by offset" '
            f'viewBox="0 0 {_WIDTH:.0f} {height + 18:.0f}">{body}</svg>')


def _ticks(end: int, unit: str) -> range:
    """About six round numbers: powers of two apart."""
    step = 1024 if unit == "bytes" and end > 4096 else 8
    while end / step > 7:
        step *= 2
    return range(0, end + 1, step)


def _amount(number: int, unit: str) -> str:
    """Bytes in KiB where they are whole ones."""
    if unit != "bytes" or not number:
        return f"{number:,}"
    return f"{number // 1024:,} KiB" if number % 1024 == 0 else f"{number:,} B"


def _levels(regions: Sequence[Region]) -> list[int]:
    """A level for each region so that no two on one level share bytes, the largest first."""
    levels: dict[int, int] = {}
    for index in sorted(range(len(regions)), key=lambda index: -regions[index].size):
        mine = regions[index]
        taken = {level for other, level in levels.items() if regions[other].start < mine.start + mine.size
                 and mine.start < regions[other].start + regions[other].size}
        levels[index] = next(level for level in range(len(regions) + 1) if level not in taken)
    return [levels[index] for index in range(len(regions))]


def _bar(region: Region, y: float, scale: float, unit: str, lines: Lines) -> str:
    x, width = _EDGE + region.start * scale, max(3.0, region.size * scale)
    every = _amount(region.size // max(1, region.count), unit)
    amount = f"{region.count} × {every}" if region.count > 1 else every
    tip = (f"{region.name}: {region.kind}{' ' + region.tile if region.tile else ''}, {amount}\n"
           f"{unit} {region.start:,} to {region.start + region.size:,}")
    body = svg.tooltip(tip) + svg.element("rect", class_=f"r-{region.kind}", x=x, y=y, width=width, height=_ROW - 4, rx=2)
    if region.count > 1 and width / region.count > 4:
        body += "".join(svg.element("line", class_="slot", x1=at, x2=at, y1=y, y2=y + _ROW - 4)
                        for at in (x + width * slot / region.count for slot in range(1, region.count)))
    words = next((words for words in (f"{region.name}  {amount}", region.name) if svg.text_width(words, 11.5) < width - 10), "")
    if words:
        body += svg.element("text", escape(words), x=x + 6, y=y + _ROW / 2 + 2)
    keys = lines.keys(*region.sites)
    label = escape(tip.replace("\n", ", "))
    return (f'<g class="region" data-l="{keys}" data-name="{escape(region.name)}" role="option" aria-selected="false" '
            f'tabindex="-1" aria-label="{label}">{body}</g>')
