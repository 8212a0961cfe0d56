"""Start of a process as one of several: the process group, the device, and the worlds of groups.

Input: the environment that torchrun sets, or a process group that is there. Output: a `GroupWorld`:

    world = mimw.distributed.init(heap=1 << 30, timeout=60)     once a process; later calls give the same world
    mimw.distributed.world_of(group)                            that of another group, made at its first use by all of its ranks
    x = mimw.distributed.symmetric_empty((4, 256), torch.bfloat16)

A process that torchrun has not started becomes a world of one rank.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ..errors import DistributedError, MeshTooLarge
from ..ir.switches import switched_on
from ..language.tle.bound_mesh import device_axes
from .torch_port import group_of, is_there
from .world import DEFAULT_TIMEOUT, GroupWorld

if TYPE_CHECKING:
    import torch

_WORLDS: dict[Any, GroupWorld] = {}      # by group, by the group's name, and by None
_ASKED: dict[str, Any] = {"heap": None, "timeout": None, "share_gpus": None, "started": False}


def init(backend: str | None = None, heap: int | None = None, timeout: float | None = None,
         share_gpus: bool | None = None) -> GroupWorld:
    """The world of the default process group, which this starts if there is none. All ranks call it.

    args:      backend     torch.distributed's; by default NCCL for GPUs with gloo for the CPU, where each rank of this machine has
                           one, else gloo
               heap        bytes of symmetric tensors of each group at each rank; by default 1 GiB of a GPU, made at first use
               timeout     seconds after which a rank that does not come is named, instead of being waited for: by default 600
               share_gpus  whether ranks may have a GPU together, which then runs them in turns: for tests on fewer GPUs than ranks.
                           By default as MIMW_SHARE_GPUS says (1), else not. At all ranks alike, and before the first world
    returns:   the same world in later calls; those may leave out all that, or give another heap before it is made
    device     of this process: the one of torchrun's LOCAL_RANK, counted round where there are fewer
    errors:    DistributedError for another heap once there is one, and for an environment that is not torchrun's in full; those of
               `World`
    """
    import torch
    import torch.distributed as dist
    if heap is not None and heap < 1 or timeout is not None and not timeout > 0:
        raise DistributedError(f"a heap of {heap} bytes and a time limit of {timeout} s: both must be more than 0")
    _ASKED.update({name: value for name, value in (("heap", heap), ("timeout", timeout), ("share_gpus", share_gpus))
                   if value is not None})
    if "LOCAL_RANK" in os.environ and torch.cuda.is_available():
        torch.cuda.set_device(_number("LOCAL_RANK") % torch.cuda.device_count())
    if not is_there():
        backend = backend or ("cpu:gloo,cuda:nccl" if _a_gpu_each() else "gloo")
        options: dict[str, Any] = {"timeout": timedelta(seconds=_ASKED["timeout"] or DEFAULT_TIMEOUT)}
        if not _started_by_torchrun():
            options |= {"store": dist.HashStore(), "rank": 0, "world_size": 1}
        dist.init_process_group(backend, **options)
        _ASKED["started"] = True
    world = world_of()
    if timeout is not None:
        world.limit = world.rendezvous.limit = float(timeout)
    if heap is not None and heap != world.heap:
        if world._memory is not None:
            raise DistributedError(f"the symmetric heap of {world} has {world.heap} bytes, and {heap} are asked for",
                                   hint="call mimw.distributed.init(heap=...) before the first symmetric tensor")
        world.heap = heap
    return world


def _a_gpu_each() -> bool:
    """True if each rank of this machine has a GPU of its own, which NCCL needs. True also where ranks may not share a GPU:
    the world then refuses ranks without one, with the mend."""
    import torch
    here = next((_number(name) for name in ("LOCAL_WORLD_SIZE", "WORLD_SIZE") if name in os.environ), 1)
    return torch.cuda.is_available() and (not _shares_gpus() or here <= torch.cuda.device_count())


def _shares_gpus() -> bool:
    asked = _ASKED["share_gpus"]
    return switched_on("MIMW_SHARE_GPUS") if asked is None else bool(asked)


def _started_by_torchrun() -> bool:
    """True if the environment says which rank this is. DistributedError if it says only half: each process would be a world
    of one, and compute by itself."""
    given = [name for name in ("RANK", "WORLD_SIZE") if name in os.environ]
    if len(given) == 1:
        missing = "WORLD_SIZE" if given == ["RANK"] else "RANK"
        raise DistributedError(f"the environment has {given[0]}={os.environ[given[0]]} and no {missing}",
                               hint="start the script by torchrun, which sets both, or leave out both for a world of one rank")
    if given and not _number("RANK") < _number("WORLD_SIZE"):
        raise DistributedError(f"the environment has RANK={os.environ['RANK']} and WORLD_SIZE={os.environ['WORLD_SIZE']}",
                               hint="ranks count from 0 to WORLD_SIZE - 1; torchrun sets both")
    return bool(given)


def _number(name: str) -> int:
    """The value of an environment variable, a number from 0 on. DistributedError for any other text."""
    text = os.environ[name]
    if not text.isdecimal():
        raise DistributedError(f"the environment has {name}={text!r}, which is no number", hint="torchrun sets it")
    return int(text)


def world_of(group: Any = None) -> GroupWorld:
    """The world of a process group, made once and kept. The first call is made by all ranks of the group.

    args:      group  a process group, its name, None for the default one; a world is its own
    errors:    NoProcessGroup; those of `World`
    """
    try:
        world = _WORLDS.get(group)
    except TypeError:       # a list, say, which is no group
        world = None
    if world is not None and not world.closed and world.group in world._alive:      # `is_alive`, on the way to every launch
        return world
    if isinstance(group, GroupWorld):
        return group
    found = group_of(group)
    world = _WORLDS.get(found)
    if world is None or not world.is_alive:
        world = GroupWorld(found, _ASKED["heap"], _ASKED["timeout"], _shares_gpus())
    for key in [key for key, old in _WORLDS.items() if not old.is_alive]:
        _WORLDS.pop(key).close()        # its group has been destroyed: so have its peers' parts of it
    _WORLDS[found] = _WORLDS[world.name] = world
    if group is None:
        _WORLDS[None] = world
    return world


def symmetric_empty(shape: int | Sequence[int], dtype: Any = None, group: Any = None) -> torch.Tensor:
    """A symmetric tensor, of zeros, in the heap of a group's world: `World.symmetric`; by default of torch's default type."""
    import torch
    return world_of(group).symmetric(shape, dtype or torch.get_default_dtype())


def bind(mesh: Any, group: Any = None) -> GroupWorld:
    """The world to launch a kernel with that says `tle.bind_mesh(mesh, world)`: that of the group, if the mesh fits.

    args:      mesh   a `tle.device_mesh`; its device axes, row-major, are the ranks of the group from 0 on
               group  as `world_of`
    errors:    ValueError for a mesh without device axes; MeshTooLarge for one of more GPUs than the group has; those of `world_of`
    """
    world = world_of(group)
    axes = device_axes(mesh)
    if not axes:
        raise ValueError(f"{mesh!r} has no axis of devices: all of {mesh.launch_dim_names} are clusters or blocks")
    wanted = 1
    for _, extent in axes:
        wanted *= extent
    if wanted > world.size:
        told = " x ".join(f"{extent} {name!r}" for name, extent in axes)
        raise MeshTooLarge(f"the mesh has {told} = {wanted} GPUs, and group {world.name!r} has {world.size} ranks",
                           hint=f"start {wanted} processes (torchrun --nproc-per-node), or make the mesh smaller")
    return world


@atexit.register
def leave() -> None:
    """The end of this process as a rank: launches come back, peers get a notice, then the process group ends that `init` has
    started; but not where peers are lost, for whom NCCL's end may wait."""
    worlds = {world for world in _WORLDS.values() if world.process == os.getpid()}      # a process that is forked has none
    for world in worlds:
        world.close()
    _WORLDS.clear()
    if worlds and _ASKED["started"] and is_there() and not any(world.lost for world in worlds):
        import torch.distributed as dist
        dist.destroy_process_group()


__all__ = ["bind", "init", "symmetric_empty", "world_of"]
