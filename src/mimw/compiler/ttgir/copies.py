"""Readers of copies that finish later: cp.async groups, and TMA.

Input: ops of `ttg` and `ttng` that copy. Output: ours. For example:

    %3 = ttg.async_copy_global_to_local %1, %2 mask %m : ..             async_load %1 %2 %m
    ttng.async_tma_copy_global_to_local %d[%i, %j] %tile, %full, %p     tma_load %d (%i, %j) %full %tile %p
"""

from __future__ import annotations

import re

from ...ir import Barrier, Buffer, Descriptor, Scalar, Tensor
from ...ir.types import TOKEN
from .reading import Here, reads


@reads("ttg.async_copy_global_to_local")
def copied(here: Here):
    pointer, buffer, *masked = here.operands
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


@reads("ttng.async_tma_copy_global_to_local")
def loaded(here: Here):
    if here.flag("multicast") or here.has("offsets"):
        raise here.unreadable("multicast and im2col have no meaning in the simulator")
    descriptor, coordinates, barrier, buffer, predicate = _parts(here)
    return here.op("tma_load", descriptor, coordinates, barrier, buffer, predicate)


@reads("ttng.async_tma_copy_local_to_global")
def stored(here: Here):
    descriptor, coordinates, _, buffer, _ = _parts(here)
    return here.op("tma_store", descriptor, coordinates, buffer, None, "")


@reads("ttng.async_tma_reduce")
def reduced(here: Here):
    descriptor, coordinates, _, buffer, _ = _parts(here)
    kind = re.search(r"async_tma_reduce (\w+),", here.text)[1]
    return here.op("tma_store", descriptor, coordinates, buffer, None, kind)


@reads("ttng.async_tma_gather")
def gathered(here: Here):
    descriptor, (column, ), barrier, buffer, predicate = _parts(here)
    rows = next(value for value in here.operands if isinstance(value.type, Tensor))
    return here.op("tma_gather", descriptor, rows, column, barrier, buffer, predicate)


@reads("ttng.async_tma_scatter")
def scattered(here: Here):
    descriptor, (column, ), _, buffer, _ = _parts(here)
    rows = next(value for value in here.operands if isinstance(value.type, Tensor))
    return here.op("tma_scatter", descriptor, rows, column, buffer)


@reads("ttng.async_tma_store_wait")
def stores_awaited(here: Here):
    return here.op("tma_store_wait", here.integer("pendings"))
