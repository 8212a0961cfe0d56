"""Offsets of buffers that share one piece of memory, from the author's tree of groups.

Input: leaves, or a tree of groups of leaves. Output: an `AliasPlan` with the place of each leaf. For example:

    place_group(Group("distinct", (Leaf("qk", 128, 2), Leaf("p", 64, 2))))       qk at 0 and 256, p at 128 and 384

Plain arithmetic on plain values, in whatever unit the sizes have (bytes of shared memory, columns of tensor memory).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from ...ir import Place

SHARED, DISTINCT = "shared", "distinct"
SMEM_ALIGNMENT = 128


@dataclass(frozen=True)
class Leaf:
    """`count` buffers of `size` each; every start is a multiple of `alignment`. `key` is the caller's name for it."""

    key: Hashable
    size: int
    count: int
    alignment: int = SMEM_ALIGNMENT


@dataclass(frozen=True)
class Group:
    """Children that occupy the same memory (`shared`) or follow each other (`distinct`); `group_size` consecutive buffers of
    each child make one slot."""

    kind: str
    children: tuple[Group | Leaf, ...]
    group_size: int = 1


@dataclass(frozen=True)
class AliasPlan:
    """The placement of all leaves: slot `s` of the tree starts at `s * stride`; `total` is the size of the memory."""

    stride: int
    slots: int
    total: int
    places: dict[Hashable, Place] = field(default_factory=dict)


def place_peers(leaves: list[Leaf]) -> AliasPlan:
    """Place arrays without a tree: every array starts at 0, its buffers one after the other; the largest array decides the
    size."""
    places = {leaf.key: Place(0, leaf.size, leaf.size, leaf.count) for leaf in leaves}
    total = max((place.end for place in places.values()), default=0)
    return AliasPlan(total, 1, total, places)


def place_group(root: Group) -> AliasPlan:
    """The placement that a tree asks for.

    * size(shared) is the largest child times the group size; size(distinct) the children in a row, each start rounded up
      to the child's alignment, times the group size.
    * The slots of the tree follow each other at size(root), rounded up to the largest alignment in it.
    * A child of a shared group starts where the group starts; a child of a distinct group behind all buffers that the
      children before it have in the slot.
    """
    stride = round_up(size_of(root), alignment_of(root))
    places = {leaf.key: Place(offset, stride, leaf.size, leaf.count, factor) for leaf, offset, factor in _placed(root, 0, 1)}
    slots = max(place.slots for place in places.values())
    return AliasPlan(stride, slots, stride * slots, places)


def size_of(node: Group | Leaf) -> int:
    """The size of one slot of a node."""
    if isinstance(node, Leaf):
        return node.size
    inner = max(size_of(child) for child in node.children) if node.kind == SHARED else _starts(node)[-1]
    return inner * node.group_size


def alignment_of(node: Group | Leaf) -> int:
    """A leaf's own, or the largest one in a group."""
    return node.alignment if isinstance(node, Leaf) else max(alignment_of(child) for child in node.children)


def leaves_of(node: Group | Leaf) -> Iterator[Leaf]:
    """The leaves from left to right."""
    if isinstance(node, Leaf):
        yield node
    else:
        for child in node.children:
            yield from leaves_of(child)


def round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _starts(node: Group) -> list[int]:
    """The starts of the children of a distinct group with one buffer each, and the end of the last one."""
    starts, end = [], 0
    for child in node.children:
        starts.append(round_up(end, alignment_of(child)))
        end = starts[-1] + size_of(child)
    return [*starts, end]


def _placed(node: Group | Leaf, offset: int, factor: int) -> Iterator[tuple[Leaf, int, int]]:
    """(leaf, offset in the slot, buffers a slot) of each leaf; `factor` is the product of the group sizes above."""
    if isinstance(node, Leaf):
        yield node, offset, factor
        return
    factor *= node.group_size
    starts = [0] * len(node.children) if node.kind == SHARED else _starts(node)[:-1]
    for child, start in zip(node.children, starts, strict=True):
        yield from _placed(child, offset + start * factor, factor)
