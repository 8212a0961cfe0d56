"""Chooses the layout of every allocation: its default, unless an op demands another.

Input: a program. Output: for each allocation its layout, and the reason in words:

    %tiles = local_alloc bf16[128, 64] x 4        nvmma(128), "kernel.py:9 tma_load wants nvmma(128): its descriptor is ..."
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, permutations, product

from ...errors import LayoutConflict
from ...ir.core import Op, Program, Value
from ...ir.layouts import NvmmaShared, SharedLayout
from ...ir.types import Buffer
from .defaults import default_shared, holds_nvmma, nvmma_shared, plain_shared
from .demands import find_requirements, same_tiles
from .explain import at, conflict, smallest_disagreement
from .requirements import AnyNvmma, Exactly, Outermost, Requirement
from .same_bytes import find_links, settle
from .views import View, find_views, is_retyped


def solve_buffers(program: Program, nvmma: bool) -> tuple[dict[Value, SharedLayout], dict[Value, str]]:
    """The layout of each `local_alloc` in shared memory and of each buffer seen as another type, and the reasons in words.

    Allocations that may be the same value (an `if` that picks a buffer) get one layout. Raises `LayoutConflict`.
    """
    allocs = {op.result: op for op in program.walk() if _has_layout(op) and op.result.type.space == "smem"}
    views = find_views(program)
    requirements = find_requirements(program, views)
    groups = _groups(program, allocs, views)
    picked = {view.alloc for op in program.walk() for name, kind in op.row.lies.items() if kind == "picked"
              for view in views.get(getattr(op, name), ())}
    layouts, demands = {}, {}
    for group in groups:
        demands[group[0]] = [requirement for requirement in requirements if requirement.alloc in group]
        # Elements picked one by one are found with less arithmetic in plain rows, and lie in the banks that the author expects.
        swizzled = nvmma and not any(allocs[alloc].attrs.get("plain") or alloc in picked for alloc in group)
        layouts |= dict.fromkeys(group, _choose(group[0], demands[group[0]], swizzled))
    settle(find_links(program, views), groups, demands, layouts, nvmma)
    reasons = {alloc: "; ".join(f"{at(demand.site)} {demand}" for demand in demands[group[0]]) or "default of its shape"
               for group in groups for alloc in group}
    return layouts, reasons


def _has_layout(op: Op) -> bool:
    return op.name == "local_alloc" or op.name == "buffer_reinterpret" and is_retyped(op)


def wanted_alignments(program: Program) -> dict[Value, int]:
    """The boundary in bytes on which a buffer must start: 8 rows of a swizzle, for the tensor cores and TMA to read it; 128 for a
    copy of TMA, on which a buffer of plain rows that is seen as a block would start by luck alone."""
    wanted: dict[Value, int] = {}
    views = find_views(program)
    for demand in find_requirements(program, views):
        layout = demand.layouts.layout if isinstance(demand.layouts, Exactly) else None
        if isinstance(demand.layouts, AnyNvmma):
            layout = nvmma_shared(demand.alloc.type.shape[-demand.layouts.rank:], demand.alloc.type.element)
        if isinstance(layout, NvmmaShared):
            wanted[demand.alloc] = max(wanted.get(demand.alloc, 0), layout.begins)
    for link in reversed(find_links(program, views)):
        if link.binding and link.other in wanted:
            wanted[link.one] = max(wanted.get(link.one, 0), wanted[link.other])
    return wanted


def _choose(alloc: Value, demands: list[Requirement], nvmma: bool) -> SharedLayout:
    """The first candidate that every demand accepts, the default before all others."""
    shape, element = alloc.type.shape, alloc.type.element
    candidates = [default_shared(shape, element, nvmma), plain_shared(len(shape))]
    candidates += [demand.layouts.layout for demand in demands if isinstance(demand.layouts, Exactly)]
    if holds_nvmma(element):
        candidates += [nvmma_shared(shape, element), nvmma_shared(shape, element, transposed=True)]
    if any(isinstance(demand.layouts, Outermost) for demand in demands):
        candidates += [replace(plain_shared(len(shape)), order=order) for order in permutations(range(len(shape)))]
        for tile in (shape[outer:] for outer in range(1, len(shape))) if holds_nvmma(element) else ():
            candidates += [nvmma_shared(tile, element), nvmma_shared(tile, element, transposed=True)]
    for layout in candidates:
        if all(demand.layouts.accepts(layout) for demand in demands):
            return layout
    raise conflict(alloc.name, smallest_disagreement(demands, candidates))


def _groups(program: Program, allocs: dict[Value, Op], views: dict[Value, tuple[View, ...]]) -> list[list[Value]]:
    """The allocations, those that meet in one value or are copied byte for byte together, in program order."""
    group_of = {alloc: [alloc] for alloc in allocs}
    for seen in views.values():
        known = [view for view in seen if view.alloc in group_of]
        for first, other in pairwise(known):
            if first.dims != other.dims:
                raise LayoutConflict(
                    f"one value is {_named(first.alloc)} along dimensions {first.dims} on one path and "
                    f"{_named(other.alloc)} along {other.dims} on another; a buffer has one layout.",
                    allocs[first.alloc].site, allocs[other.alloc].site, hint="transpose on both paths, or on neither.")
            _merge(group_of, first.alloc, other.alloc)
    for op in program.walk():
        alike = [getattr(op, name) for name, kind in op.row.lies.items() if kind == "alike"]
        if alike and same_tiles(*alike, views):
            for first, other in product(*(views[value] for value in alike)):
                _merge(group_of, first.alloc, other.alloc)
    order = {alloc: number for number, alloc in enumerate(allocs)}
    distinct = {id(group): sorted(group, key=order.get) for group in group_of.values()}
    return list(distinct.values())


def _merge(group_of: dict[Value, list[Value]], first: Value, other: Value) -> None:
    merged, absorbed = group_of[first], group_of[other]
    if merged is not absorbed:
        merged += absorbed
        for alloc in absorbed:
            group_of[alloc] = merged


def _named(alloc: Value) -> str:
    type_: Buffer = alloc.type
    return f"{alloc.name or 'a buffer'} ({type_})"
