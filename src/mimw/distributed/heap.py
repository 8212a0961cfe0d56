"""The symmetric heap of a world: one allocation of each rank, to which all ranks have a way.

Input: a world. Output: its heap, made by a call of all ranks; at each the same, or an error at each:

    heap = heap_of(world)
    heap.memory         this rank's bytes: what `mimw.ir.world.reserved` says, then `world.heap` bytes for symmetric tensors
    heap.table          the table that kernels take, on the world's device

No rank is left with a heap that others do not have: whoever does not come to the last step has none, and all ask again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..errors import DistributedError, HeapFull
from ..ir.world import ALIGNED, aligned, reserved, table
from .places import Places
from .rendezvous import Rendezvous, named
from .torch_port import allocated, reachable

if TYPE_CHECKING:
    import torch


class HeapOwner(Protocol):
    """The world that a heap is made for: `distributed.world` has it."""

    name: str
    rank: int
    size: int
    group: Any
    device: torch.device
    heap: int           # bytes for symmetric tensors
    rendezvous: Rendezvous


@dataclass(frozen=True)
class Heap:
    """first    the offset of the first symmetric tensor; what is before is reserved
    bases       where each rank's memory begins as this process reaches it; 0 of others where there are no GPUs
    within      at which byte of torch's allocation `memory` begins
    """

    memory: torch.Tensor
    table: torch.Tensor
    bases: list[int]
    first: int
    within: int = 0


def heap_of(world: HeapOwner) -> Heap:
    """A new heap.

    errors:    RanksDisagree where ranks ask for different sizes; DistributedError where one has no memory; PeerLate, PeerLost
    """
    import torch
    first, rendezvous = reserved(world.size), world.rendezvous
    rendezvous.agree("the bytes of the symmetric heap", world.heap, lambda size: f"{size} bytes")
    memory = _allocated(world, first + world.heap)
    bases, multicast, within = _without_gpus(world, memory) if world.device.type == "cpu" else _reachable(world, memory)
    held = torch.from_numpy(np.array(table(world.rank, bases, multicast), np.int64)).to(world.device)
    if world.device.type == "cuda":
        torch.cuda.synchronize(world.device)
    rendezvous.heard("the symmetric heap", None)       # its pads are zero everywhere
    return Heap(memory, held, bases, first, within)


def full(world: HeapOwner, places: Places, size: int, name: str) -> HeapFull:
    """The error where a heap has no place of so many bytes for the tensor of that name."""
    enough = 1 << max(0, world.heap + size - 1).bit_length()
    return HeapFull(f"the symmetric heap of group {world.name!r} has {world.heap} bytes, {places.free} of them free, at most "
                    f"{places.widest} in one piece; {name or 'a tensor'!r} needs {size}",
                    hint=f"mimw.distributed.init(heap={enough}) before the heap is first used; or world.free what is not needed "
                         "any more", needed=size, free=places.free)


def _allocated(world: HeapOwner, size: int) -> torch.Tensor:
    """This rank's memory, once every rank has its own: what follows is a call of all."""
    import torch
    memory: Any = None
    problem = None
    try:
        memory = torch.from_numpy(aligned(size)) if world.device.type == "cpu" else allocated(size, world.device)
    except (MemoryError, RuntimeError, ValueError) as error:
        problem = f"{type(error).__name__}: {error}".partition("\n")[0]
    said = world.rendezvous.heard("memory for the symmetric heap", problem)
    without = [rank for rank, one in enumerate(said) if one is not None]
    if without:
        raise DistributedError(f"{named(without)} of group {world.name!r} found no memory for the symmetric heap, {size} bytes "
                               f"each: {said[without[0]]}",
                               hint="free memory there, or mimw.distributed.init(heap=bytes) with fewer", ranks=without)
    return memory


def _without_gpus(world: HeapOwner, memory: torch.Tensor) -> tuple[list[int], int, int]:
    """Bases, multicast address, first byte: a process reaches its own memory alone."""
    return [memory.data_ptr() if rank == world.rank else 0 for rank in range(world.size)], 0, 0


def _reachable(world: HeapOwner, memory: torch.Tensor) -> tuple[list[int], int, int]:
    """The same of memory that peers are given a way to."""
    bases, multicast, within = reachable(memory, world.group)
    world.rendezvous.agree("where the heap begins in torch's allocation", within, lambda size: f"{size} bytes behind its start")
    if any(base % ALIGNED for base in bases):
        raise DistributedError(f"torch's symmetric memory begins at {list(map(hex, bases))}, not at multiples of {ALIGNED}")
    return bases, multicast, within


__all__ = ["Heap", "full", "heap_of"]
