"""The symmetric memory of products over several GPUs: what they pass over, which all of them share, and words of their own.

Input: a world, and sizes by name as the kernels' `room_for` gives them. Output: tensors by name:

    workspace = memory_of(world, ("reduce scatter", 8192, 2048, 8192), {"slots": (1 << 24, "bfloat16"), "arrived": (512, "int64")})

Calls of a group follow each other on one stream, and none begins to write into another GPU's memory before that GPU has ended its
last call: so arrays of many elements (SHARED) have one place for all keys. Words that count calls belong to calls of one key.

A key keeps the place that it got first, when all ranks came. Later a rank may come alone: operands that lie otherwise make it plan
a call anew which its peers have planned long since, and their copies go to where they planned.
"""

from __future__ import annotations

from collections.abc import Hashable

import torch
from torch import Tensor

from mimw.errors import HeapFull

from .launching import World, workspace

SHARED = {"gathered": "passed", "slots": "passed", "results": "results"}    # only these two are in use by one call


def memory_of(world: World, key: Hashable, sizes: dict[str, tuple[int, str]]) -> dict[str, Tensor]:
    """A tensor for each name, for a key the same ones each time. The first call for each key is one of all ranks; errors as
    `World.symmetric`."""
    kept = world.kept.setdefault("memory of products", {})
    if key not in kept:
        kept[key] = {name: _new(world, key, name, elements, getattr(torch, type_)) for name, (elements, type_) in sizes.items()}
    return kept[key]


def _new(world: World, key: Hashable, name: str, elements: int, dtype: torch.dtype) -> Tensor:
    if name in SHARED:
        return _shared(world, name, elements * dtype.itemsize).view(dtype)[:elements]
    return workspace(world, f"{name} of {key}", (elements, ), dtype)


def _shared(world: World, name: str, size: int) -> Tensor:
    """At least so many bytes. Smaller ones from before stay, since CUDA graphs may hold them; so what has to grow grows by half,
    where the heap has room for that, and all of them together are no more than three times the last."""
    kept, use, size = world.kept.setdefault("shared by products", {}), SHARED[name], -(-size // 256) * 256
    had = kept[use].numel() if use in kept else 0
    if had < size:
        try:
            kept[use] = world.symmetric((max(size, had // 512 * 768), ), torch.uint8, f"{name} of products")
        except HeapFull:        # at all ranks
            kept[use] = world.symmetric((size, ), torch.uint8, f"{name} of products")
    return kept[use][:size]
