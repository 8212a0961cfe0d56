"""Readers of copies that finish later: cp.async groups, and TMA.

Input: ops of `ttg` and `ttng` that copy. Output: ours. For example:

    %3 = ttg.async_copy_global_to_local %1, %2 mask %m : ..             async_load %1 %2 %m
    ttng.async_tma_copy_global_to_local %d[%i, %j] %tile, %full, %p     tma_load %d (%i, %j) %full %tile %p
    .. of an im2col descriptor, %d[%n, %h, %w, %c] offsets = [%r, %s]   tma_load_pixels %d (%n, %h, %w, %c) (%r, %s) %full %tile %p
"""

from __future__ import annotations

import re

from ...ir import Barrier, Buffer, Descriptor, Scalar, Tensor
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
    """A load in a program of several CTAs. By multicast the first of those with the same part loads it for all. An mbarrier that
    a pair shares hears of the bytes in both."""
    shared, same = split_of(here, _text(here, Barrier)).same, split_of(here, _text(here, Buffer)).same
    if shared > 1:
        raise here.unreadable("a copy that tells an mbarrier of another pair of CTAs is not read")
    ops, targets = [], None
    if here.flag("multicast") and same:
        ops, first = leads(here, same)
        more, predicate = both(here, predicate, first)
        beside, targets = ranks_beside(here, within(same))
        ops += [*more, *beside]
    if not shared:
        return [*ops, here.op("tma_load", descriptor, coordinates, barrier, buffer, predicate) if targets is None else
                here.op("tma_load_multicast", descriptor, coordinates, barrier, buffer, targets, predicate)]
    made, leader = owner(here, shared)
    args = descriptor, coordinates, barrier, buffer, leader
    return [*ops, *made, here.op("tma_load_pair", *args, predicate) if targets is None else
            here.op("tma_load_pair_multicast", *args, targets, predicate)]


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


@reads("ttng.async_tma_gather", one_cta=True)
def gathered(here: Here):
    descriptor, (column, ), barrier, buffer, predicate = _parts(here)
    rows = next(value for value in here.operands if isinstance(value.type, Tensor))
    return here.op("tma_gather", descriptor, rows, column, barrier, buffer, predicate)


@reads("ttng.async_tma_scatter", one_cta=True)
def scattered(here: Here):
    descriptor, (column, ), _, buffer, _ = _parts(here)
    rows = next(value for value in here.operands if isinstance(value.type, Tensor))
    return here.op("tma_scatter", descriptor, rows, column, buffer)


@reads("ttng.async_tma_store_wait")
def stores_awaited(here: Here):
    return here.op("tma_store_wait", here.integer("pendings"))
