"""Readers of copies that finish later: cp.async groups, and TMA.

Input: ops of `ttg` and `ttng` that copy. Output: ours. For example:

    %3 = ttg.async_copy_global_to_local %1, %2 mask %m : ..             async_load %1 %2 %m
    ttng.async_tma_copy_global_to_local %d[%i, %j] %tile, %full, %p     tma_load %d (%i, %j) %full %tile %p
    .. of an im2col descriptor, %d[%n, %h, %w, %c] offsets = [%r, %s]   tma_load_pixels %d (%n, %h, %w, %c) (%r, %s) %full %tile %p
"""

from __future__ import annotations

import re

from ...ir import Barrier, Buffer, Descriptor, Scalar, Tensor, Value
from ...ir.types import TOKEN
from .barriers import owner
from .cta_ops import both, check_same, corner, leads, moved_by, ranks_beside, split_of, within
from .reading import Here, reads


@reads("ttg.async_copy_global_to_local")
def copied(here: Here):
    pointer, buffer, *masked = here.operands
    check_same(here, *here.operand_texts[:2])
    mask = masked.pop(0) if masked and here.has(" mask ") else None
    return here.op("async_load", pointer, buffer, mask, masked[0] if masked else None, None, False, results=(here.value(TOKEN), ))


@reads("ttg.async_commit_group")
def committed(here: Here):
    return here.op("async_commit", (), results=(here.value(TOKEN), ))


@reads("ttg.async_wait")
def awaited(here: Here):
    return here.op("async_wait", here.integer("num"), (), results=(here.value(TOKEN), ))


def _parts(here: Here):
    """Descriptor, coordinates, barrier, buffer, and predicate of a copy by TMA."""
    descriptor, *rest = here.operands
    if not isinstance(descriptor.type, Descriptor):
        raise here.unreadable("a copy by something else than a tensor descriptor has no meaning in the simulator")
    coordinates = tuple(value for value in rest if value.type == Scalar("i32"))
    barrier = next((value for value in rest if isinstance(value.type, Barrier)), None)
    buffer = next((value for value in rest if isinstance(value.type, Buffer)), None)
    predicate = next((value for value in rest if value.type == Scalar("i1")), None)
    return descriptor, coordinates, barrier, buffer, predicate


def _text(here: Here, kind: type) -> str:
    """The type of the operand of that kind."""
    return next(text for value, text in zip(here.operands, here.operand_texts) if isinstance(value.type, kind))


def _of_part(here: Here, coordinates: tuple) -> tuple[list, tuple]:
    """The coordinates of this CTA's part of a block."""
    if not here.reader.rank_bits:
        return [], coordinates
    split, ops, moved = split_of(here, _text(here, Buffer)), [], []
    for axis, coordinate in enumerate(coordinates):
        made, step = corner(here, split, axis)
        more, one = moved_by(here, coordinate, step)
        ops += [*made, *more]
        moved.append(one)
    return ops, tuple(moved)


@reads("ttng.async_tma_copy_global_to_local")
def loaded(here: Here):
    descriptor, coordinates, barrier, buffer, predicate = _parts(here)
    if descriptor.type.pixels:
        moved = tuple(value for value in here.operands if value.type == Scalar("i16"))
        return here.op("tma_load_pixels", descriptor, coordinates, moved, barrier, buffer, predicate)
    ops, coordinates = _of_part(here, coordinates)
    if not here.reader.rank_bits:
        return here.op("tma_load", descriptor, coordinates, barrier, buffer, predicate)
    return [*ops, *_in_clusters(here, descriptor, coordinates, barrier, buffer, predicate)]


def _in_clusters(here: Here, descriptor, coordinates, barrier, buffer, predicate) -> list:
    """A load in a program of several CTAs. An mbarrier that a pair shares hears of the bytes in both."""
    ops, shared, targets, predicate = _receivers(here, predicate)
    if not shared:
        return [*ops, here.op("tma_load", descriptor, coordinates, barrier, buffer, predicate) if targets is None else
                here.op("tma_load_multicast", descriptor, coordinates, barrier, buffer, targets, predicate)]
    made, leader = owner(here, shared)
    args = descriptor, coordinates, barrier, buffer, leader
    return [*ops, *made, here.op("tma_load_pair", *args, predicate) if targets is None else
            here.op("tma_load_pair_multicast", *args, targets, predicate)]


def _receivers(here: Here, predicate) -> tuple[list, int, tuple | None, Value | None]:
    """The ops that say who gets a load: the bits of a rank in which CTAs differ that share its mbarrier, the CTAs to which it goes,
    None for this one alone, and its predicate. By multicast the first of those with the same part loads it for all."""
    shared, same = split_of(here, _text(here, Barrier)).same, split_of(here, _text(here, Buffer)).same
    if shared > 1:
        raise here.unreadable("a copy that tells an mbarrier of another pair of CTAs is not read")
    if not here.flag("multicast") or not same:
        return [], shared, None, predicate
    ops, first = leads(here, same)
    more, predicate = both(here, predicate, first)
    beside, targets = ranks_beside(here, within(same))
    return [*ops, *more, *beside], shared, targets, predicate


@reads("ttng.async_tma_copy_local_to_global")
def stored(here: Here):
    return _stored(here, "")


@reads("ttng.async_tma_reduce")
def reduced(here: Here):
    return _stored(here, re.search(r"async_tma_reduce (\w+),", here.text)[1])


def _stored(here: Here, kind: str):
    """Of several CTAs with the same part the first stores it."""
    descriptor, coordinates, _, buffer, _ = _parts(here)
    ops, coordinates = _of_part(here, coordinates)
    op = here.op("tma_store", descriptor, coordinates, buffer, None, kind)
    made, first = leads(here, split_of(here, _text(here, Buffer)).same if here.reader.rank_bits else 0)
    return [*ops, *made, op if first is None else here.only_if(first, op)]


@reads("ttng.async_tma_gather")
def gathered(here: Here):
    descriptor, (column, ), barrier, buffer, predicate = _parts(here)
    rows = next(value for value in here.operands if isinstance(value.type, Tensor))
    if not here.reader.rank_bits:
        return here.op("tma_gather", descriptor, rows, column, barrier, buffer, predicate)
    ops, column = _columns_of_part(here, column)
    more, shared, targets, predicate = _receivers(here, predicate)
    if not shared and targets is None:
        return [*ops, *more, here.op("tma_gather", descriptor, rows, column, barrier, buffer, predicate)]
    return [*ops, *more, here.op("tma_gather_multicast", descriptor, rows, column, barrier, buffer, targets or (here.reader.rank, ),
                                 predicate, **({"pairs": True} if shared else {}))]


@reads("ttng.async_tma_scatter")
def scattered(here: Here):
    """Of several CTAs with the same part the first sends it."""
    descriptor, (column, ), _, buffer, _ = _parts(here)
    rows = next(value for value in here.operands if isinstance(value.type, Tensor))
    ops, column = _columns_of_part(here, column)
    op = here.op("tma_scatter", descriptor, rows, column, buffer)
    made, first = leads(here, split_of(here, _text(here, Buffer)).same if here.reader.rank_bits else 0)
    return [*ops, *made, op if first is None else here.only_if(first, op)]


def _columns_of_part(here: Here, column: Value) -> tuple[list, Value]:
    """The first column of this CTA's part of a tile of picked rows, of which it has the numbers of its own."""
    if not here.reader.rank_bits:
        return [], column
    rows, tile = split_of(here, _text(here, Tensor)), split_of(here, _text(here, Buffer))
    if rows.bits != tuple(bit if bit and bit[0] == 0 else None for bit in tile.bits):
        raise here.unreadable("rows whose numbers other CTAs have are not read")
    ops, step = corner(here, tile, 1)
    more, found = moved_by(here, column, step)
    return [*ops, *more], found


@reads("ttng.async_tma_store_wait")
def stores_awaited(here: Here):
    return here.op("tma_store_wait", here.integer("pendings"))
