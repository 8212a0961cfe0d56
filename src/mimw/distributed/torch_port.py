"""The only door to what torch keeps private of process groups and of symmetric memory.

Input: process groups and bytes. Output: stores, names, and memory that the peers of a group reach. For example:

    store_of(group)                     the group's store, over a connection of its own
    heap = allocated(1 << 30, device)                               bytes on the device
    bases, multicast, within = reachable(heap, group)               where each rank's begin

All of it was read in torch 2.6 to 2.13; tests/distributed/test_torch_port.py holds the names.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ..errors import NoProcessGroup


def is_there() -> bool:
    """True if torch.distributed has a default group."""
    import torch.distributed as dist
    return dist.is_available() and dist.is_initialized()


def group_of(group: Any) -> Any:
    """A process group, given as one, by its name, or as None for the default one. NoProcessGroup if there is none, or if this
    process is not in it."""
    import torch.distributed as dist
    from torch.distributed import distributed_c10d as c10d
    if not is_there():
        raise NoProcessGroup("there is no process group of torch.distributed in this process",
                             hint="call mimw.distributed.init() first, in each process that torchrun has started; a process on its "
                                  "own then is a world of one")
    if group is None:
        return c10d._get_default_group()
    if group is dist.GroupMember.NON_GROUP_MEMBER or not isinstance(group, str) and not hasattr(group, "group_name"):
        raise NoProcessGroup(f"{group!r} is no process group that this process is in",
                             hint="call this in the group's own processes only; torch.distributed.new_group gives others no group")
    name = group if isinstance(group, str) else group.group_name    # torch.compile gives a stand-in of a group
    try:
        return c10d._resolve_process_group(name)
    except (LookupError, RuntimeError, ValueError) as error:
        raise NoProcessGroup(f"there is no process group {name!r} in this process",
                             hint="groups are named by group.group_name, in the processes that are in them") from error


def alive() -> Any:
    """The groups that there are, as what says so of each: `group in alive()`. It stays the same while groups come and go."""
    from torch.distributed import distributed_c10d as c10d
    return c10d._world.pg_names


def store_of(group: Any) -> Any:
    """The store of a group, over a connection of its own where stores have one: a call that waits holds up all other calls
    of its connection."""
    from torch.distributed import distributed_c10d as c10d
    store = c10d._world.pg_map[group][1]
    return store.clone() if hasattr(store, "clone") else store


def uses_gpus(group: Any) -> bool:
    """True if a group has CUDA devices, too."""
    import torch
    return any(device.type == "cuda" for device in group._device_types) and torch.cuda.is_available()


def asked_on_every_launch() -> tuple[Callable[[], bool], Callable[[int], int]]:
    """Two functions: one that returns True if the current stream records a graph, and one that gives the handle of a CUDA
    device's current stream. Builds for the CPU lack them."""
    import torch
    return torch._C._cuda_isCurrentStreamCapturing, torch._C._cuda_getCurrentRawStream


def allocated(size: int, device: Any) -> Any:
    """Zeroed bytes of a CUDA device that peers can be given a way to: a tensor of uint8. RuntimeError where there is no memory."""
    import torch
    from torch.distributed import _symmetric_memory as symmetric
    memory = symmetric.empty(size, dtype=torch.uint8, device=device)
    memory.zero_()
    torch.cuda.synchronize(device)
    return memory


def reachable(memory: Any, group: Any) -> tuple[list[int], int, int]:
    """Addresses of the memory that all ranks have `allocated`: the start of each rank's part as this process reaches it; the
    start of all of them for multimem instructions, 0 without multicast; and the byte of torch's allocation at which the
    memory begins. All ranks call this function, with memory of one size."""
    from torch.distributed import _symmetric_memory as symmetric
    handle = symmetric.rendezvous(memory, group.group_name)
    within = memory.data_ptr() - handle.buffer_ptrs[handle.rank]      # the same at all ranks, else heap.py refuses it
    bases = [base + within for base in handle.buffer_ptrs]
    multicast = handle.multicast_ptr or 0
    memory.mimw_handle = handle         # lives as long as the memory
    return bases, multicast and multicast + within, within


def share_gpus() -> None:
    """Let ranks that have one GPU reach each other's symmetric memory: torch refuses that by itself. Without multicast, whose
    objects are of GPUs, so that a rank would wait for ever for one that is there twice. Before `allocated`."""
    os.environ["TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES"] = os.environ["TORCH_SYMM_MEM_DISABLE_MULTICAST"] = "1"


def write_word(word: Any, number: int) -> None:
    """Have the current stream set an integer of CUDA memory, maybe a peer's, to 0 <= number < 2^32, behind all that the stream did
    before: behind a fence of the system's scope, and by no kernel. `word` is a tensor of one integer of 4 or 8 bytes; of 8 bytes
    the upper half stays. Not while the stream is captured."""
    import torch
    from torch._C._distributed_c10d import _SymmetricMemory
    _SymmetricMemory.stream_write_value32(word.view(torch.uint32)[:1], 0, number)


__all__ = ["alive", "allocated", "asked_on_every_launch", "group_of", "is_there", "reachable", "share_gpus", "store_of",
           "uses_gpus", "write_word"]
