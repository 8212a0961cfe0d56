"""What ring attention's operators keep from call to call, and how a call is cut where that may not hold all heads.

Input: tensors, a world. Output: workspaces, slices. For example:

    work = kept_workspace(world, k)                 room for the keys and values like k of all ranks
    for batches, heads, of_keys in groups(q, k, world.size, 1 << 28): ...       launches that need no more than 256 MiB of it
"""

from __future__ import annotations

import torch
from torch import Tensor

from mimw.kernels.ring_attention import PIECES, Workspace

from .launching import World, workspace


def groups(q: Tensor, k: Tensor, size: int, room: int | None) -> list[tuple[slice, slice, slice]]:
    """(batches, heads, kv heads) of each launch, whose keys and values of all ranks take no more than `room` bytes."""
    batch, kv_heads = k.shape[:2]
    group = q.shape[1] // kv_heads
    units = batch * kv_heads if room is None else max(1, room // (Workspace.elements(1, 1, *k.shape[2:], size) * k.itemsize))
    if units >= batch * kv_heads:
        return [(slice(None), ) * 3]
    return [(slice(one, one + 1), slice(first * group, (first + units) * group), slice(first, first + units))
            for one in range(batch) for first in range(0, kv_heads, units)]


def own_rows(x: Tensor) -> Tensor:
    """x, or a copy that TMA can read."""
    steps = all(step * x.itemsize % 16 == 0 and step > 0 for step in x.stride()[:3])
    return x if x.stride(3) == 1 and steps and x.data_ptr() % 16 == 0 else x.clone(memory_format=torch.contiguous_format)


def kept_state(world: World, name: str) -> Tensor:
    """Two int64 of this rank, zeros at first, which go with the world's flags of that name."""
    kept = world.kept.setdefault("states", {})
    if name not in kept:
        kept[name] = torch.zeros(2, dtype=torch.int64, device=world.device)
    return kept[name]


def kept_workspace(world: World, k: Tensor) -> Workspace:
    """Room for keys and values like k of all ranks: one piece of memory for each power of two of bytes."""
    size = Workspace.elements(*k.shape, world.size) * k.itemsize
    whole = workspace(world, "ring_attention", 1 << (size - 1).bit_length(), torch.uint8).view(k.dtype)
    flags = workspace(world, "ring_attention signals", world.size * PIECES.value, torch.int64)
    return Workspace(whole, flags, kept_state(world, "ring_attention"), world, world.size)


__all__ = ["groups", "kept_state", "kept_workspace", "own_rows"]
