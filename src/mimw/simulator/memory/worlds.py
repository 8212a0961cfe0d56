"""The global memories of several GPUs: each rank's own arrays, and of the other ranks' only those that are symmetric.

Input: a program, and arguments of which some are `world.PerRank`. Output: a `Gpu` for each rank. For example, with x symmetric
and y not (whatever lies in the heaps of the world is symmetric, also where a descriptor or a tensor of torch leads to it):

    gpus = bind_ranks(program, {(0, ): x, (1, ): y}, 2)
    gpus[0].memory      x of rank 0, y of rank 0, x of rank 1
    gpus[1].memory      x of rank 1, y of rank 1, x of rank 0

    bind_launch(program, {(0, ): table}, memory=[a, b])         of one GPU: its parameters, and its memory, with a and b in it

Addresses are those of the arrays in this process, so a pointer to a peer's array is a plain number here as it is over NVLink; who
follows one to an array that is not symmetric is told so (`GlobalMemory.outside`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...errors import SimulatorMisuse
from ...ir import Program, Value
from ...ir.world import PerRank, World, at_rank
from ..machine.gpus import Gpu
from .arguments import bind
from .global_memory import GlobalMemory, Multicast


@dataclass(frozen=True)
class Bound:
    """The parameters of a launch, which differ between `gpus` where there are several, and the memory (of rank 0)."""

    arguments: dict[Value, Any]
    memory: GlobalMemory
    gpus: list[Gpu]


def bind_launch(program: Program, args: Mapping[tuple[int, ...], Any], count: int = 1, memory: Sequence[Any] = ()) -> Bound:
    """Bind the arguments of a launch on `count` GPUs. `memory` are arrays that the kernel reaches by addresses that it reads; of
    several GPUs a `PerRank` each."""
    if count > 1:
        gpus = bind_ranks(program, args, count, memory)
        return Bound({}, gpus[0].memory, gpus)
    space = GlobalMemory()
    arguments = bind(program, args, space)
    _reach(space, memory, 0)
    return Bound(arguments, space, [])


def _reach(space: GlobalMemory, memory: Sequence[Any], rank: int) -> None:
    for index, array in enumerate(memory):
        space.register(at_rank(array, rank), f"memory[{index}]", given=False)


def bind_ranks(program: Program, args: Mapping[tuple[int, ...], Any], count: int, further: Sequence[Any] = ()) -> list[Gpu]:
    """The GPUs of a launch on `count` ranks, in order; `further` as `memory` of `bind_launch`."""
    for index, array in enumerate(further):
        if not isinstance(array, PerRank):
            raise SimulatorMisuse(f"memory[{index}] is one array for {count} GPUs, of which each has memory of its own",
                                  hint="pass world.each(...) or world.symmetric(...), with an array for each rank")
    memories = [GlobalMemory(rank) for rank in range(count)]
    gpus = []
    for rank, memory in enumerate(memories):
        arguments = bind(program, {path: at_rank(value, rank) for path, value in args.items()}, memory)
        _reach(memory, further, rank)
        gpus.append(Gpu(rank, arguments, memory, others=True))
    world = next((value for value in args.values() if isinstance(value, World)), None)
    if world is not None:
        _to_their_owners(memories, [(heap.ctypes.data, heap.ctypes.data + heap.nbytes) for heap in world.heaps])
    names = {array.ctypes.data: value.name for value in args.values() if isinstance(value, PerRank) and value.is_symmetric
             for array in value}
    for gpu in gpus if world is not None else ():
        gpu.steps_left, gpu.late = world.dies.get(gpu.rank), world.late.get(gpu.rank, 0)
    shared = []
    for rank, heap in enumerate(world.heaps if world is not None else ()):     # who has no table reaches nobody
        low, high = heap.ctypes.data, heap.ctypes.data + heap.nbytes
        for region in memories[rank].regions:
            region.name = names.get(region.start) or region.name
            region.symmetric = low <= region.start < high
            shared += [region] if region.symmetric else []
    if world is not None and world.everyone is not None:
        bases = tuple(heap.ctypes.data for heap in world.heaps)
        for memory in memories:
            memory.multicast = Multicast(world.everyone.ctypes.data, world.everyone.nbytes, bases)
    for rank, memory in enumerate(memories):      # before any has regions of others
        memory.foreign = [region for other in memories if other is not memory for region in other.regions if region.rank != rank]
    for rank, memory in enumerate(memories):
        memory.regions += [region for region in shared if region.rank != rank]
    return gpus


def _to_their_owners(memories: list[GlobalMemory], heaps: list[tuple[int, int]]) -> None:
    """Give what a rank has of another one's heap, as by a descriptor of a peer's array, to that rank: one array, one region."""
    for rank, memory in enumerate(memories):
        for region in list(memory.regions):
            owner = next((other for other, (low, high) in enumerate(heaps) if low <= region.start < high), rank)
            if owner != rank:
                memory.regions.remove(region)
                there = memories[owner]
                if there.region(region.start, region.end, "writes" if region.writable else "reads") is None:
                    there.regions.append(replace(region, rank=owner))
