"""Makes the layouts of buffers that are the same bytes agree on where these lie.

A buffer seen as another type or shape must find every byte where the other type put it. Arrays in shared storage should,
too, but they may also differ: an author may well use such bytes for one thing after the other.

Input: links between buffers, and the layouts so far. Output: layouts under which linked buffers find each byte in one place:

    b = buffer_reinterpret %a as bf16[64, 32]        the layout of `b` puts byte n where the layout of `a` does
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from ...errors import LayoutConflict
from ...ir.byte_maps import agree, reshaped
from ...ir.core import Op, Program, Value
from ...ir.layouts import SharedLayout
from ...ir.site import Site
from ...ir.types import Buffer
from .defaults import default_shared, plain_shared
from .explain import at
from .requirements import Requirement, StartsAt
from .views import View, is_retyped


@dataclass(frozen=True)
class Link:
    """Bytes of the allocation `one` as `one_type` are bytes of `other` as `other_type`; `op` says so."""

    one: Value
    one_type: Buffer
    other: Value
    other_type: Buffer
    op: Op
    binding: bool

    def holds(self, layouts: dict[Value, SharedLayout]) -> bool:
        return agree(layouts[self.one], self.one_type, layouts[self.other], self.other_type)


def find_links(program: Program, views: dict[Value, tuple[View, ...]]) -> list[Link]:
    """Every retyping of a buffer, and every two arrays that start at the same byte of one storage."""
    links, members = [], {}
    for op in program.walk():
        if op.name == "buffer_reinterpret" and is_retyped(op):
            links += [Link(view.alloc, op.buffer.type, op.result, op.result.type, op, True)
                      for view in views.get(op.buffer, ())]
        elif op.name == "local_alloc" and "place" in op.attrs and op.result.type.space == "smem":
            members.setdefault((op.reuse, op.attrs["place"].offset), []).append(op)
    for together in members.values():
        links += [Link(one.result, one.result.type.single(), other.result, other.result.type.single(), other, False)
                  for one, other in combinations(together, 2)]
    return links


def settle(links: list[Link], groups: list[list[Value]], demands: dict[Value, list[Requirement]],
           layouts: dict[Value, SharedLayout], nvmma: bool) -> None:
    """Change the layouts of groups without demands so that linked ones agree. Raises `LayoutConflict` for a retyped buffer
    whose uses leave no such layouts."""
    group_of = {alloc: number for number, group in enumerate(groups) for alloc in group}

    def is_free(alloc: Value) -> bool:
        return all(isinstance(demand.layouts, StartsAt) for demand in demands[groups[group_of[alloc]][0]])

    for linked in _components(links, group_of):
        if all(link.holds(layouts) for link in linked):
            continue
        ends = {end: None for link in linked for end in (link.one, link.other)}
        free = [end for end in ends if is_free(end)]
        settled = {end for end in ends if not is_free(end)}
        for end in free:
            anchors = [link for link in linked if end in (link.one, link.other) and settled.intersection((link.one, link.other))]
            for layout in (*_candidates(end, bool(anchors), nvmma), *_reshaped(end, anchors, layouts)):
                layouts.update(dict.fromkeys(groups[group_of[end]], layout))
                accepted = all(demand.layouts.accepts(layout) for demand in demands[groups[group_of[end]][0]])
                if accepted and all(link.holds(layouts) for link in anchors):
                    break
            settled.add(end)
        for link in linked:
            if link.binding and not link.holds(layouts):
                _refuse(link, layouts, demands[groups[group_of[link.one]][0]] + demands[groups[group_of[link.other]][0]])


def _candidates(alloc: Value, anchored: bool, nvmma: bool) -> Iterator[SharedLayout]:
    shape, element = alloc.type.shape, alloc.type.element
    if anchored:
        yield default_shared(shape, element, nvmma)
    yield plain_shared(len(shape))


def _reshaped(end: Value, anchors: list[Link], layouts: dict[Value, SharedLayout]) -> Iterator[SharedLayout]:
    """Layouts that have the elements of `end` where a buffer of another shape has them."""
    for link in anchors:
        ends = (link.other, link.other_type), (link.one, link.one_type)
        (mine, wanted), (their, had) = ends if link.other is end else reversed(ends)
        if mine.type.element.bytes == had.element.bytes:
            found = reshaped(layouts[their], had.shape, had.element.bytes, wanted.shape)
            if found is not None:
                yield found


def _components(links: list[Link], group_of: dict[Value, int]) -> list[list[Link]]:
    """The links, those that touch the same groups together."""
    found: list[tuple[set[int], list[Link]]] = []
    for link in links:
        touched, together = {group_of[link.one], group_of[link.other]}, [link]
        for other in [other for other in found if other[0] & touched]:
            found.remove(other)
            touched |= other[0]
            together = other[1] + together
        found.append((touched, together))
    return [together for _, together in found]


def _refuse(link: Link, layouts: dict[Value, SharedLayout], demands: list[Requirement]) -> None:
    lines = [f"  {at(demand.site)} {demand}" for demand in demands]
    sites: list[Site] = [link.op.site, *(demand.site for demand in demands)]
    raise LayoutConflict(
        f"'{link.other.name or link.other_type}' sees the bytes of '{link.one.name or link.one_type}' as {link.other_type}, but "
        f"these lie differently: {link.one_type} as {layouts[link.one]}, {link.other_type} as {layouts[link.other]}.\n"
        + "\n".join(lines), *sites,
        hint="keep the bytes of a row as they are (as many elements of the other width), or copy through registers; to use "
        "the memory for something else, local_alloc(reuse=...).")
