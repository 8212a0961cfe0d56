"""Other GPUs: pointers into a peer's memory, waits for signals, and barriers among ranks.

Input: a task at an op of `ir/ops/world.py`. Output: pointers in the task's environment; at a wait the task stays until the word is
as awaited, at a barrier until the same program of all ranks has come. For example:

    signal_wait %flag 2 'ge' 'acquire' 'sys'       blocked while the word is below 2; looked at anew whenever memory was written

A table is plain memory, as on a GPU: what a kernel reads there is what `mimw.World` has put there.
"""

from __future__ import annotations

import operator
from math import prod

import numpy as np

from ...errors import BarrierMisuse, OutOfBounds, PeerUnreachable, SimulatorMisuse, fail
from ...ir import workspace_stride
from ...ir.world import BASES, CAPACITY, RANK, SIZE, WORKSPACE_BYTES, reserved
from ..machine.operands import position
from ..machine.ranks import RankBarrier
from ..machine.rendezvous import arrive_and_wait
from ..machine.table import handles
from ..machine.tasks import Wait
from ..memory.global_memory import Region
from ..memory.values import numpy_type

COMPARE = {"eq": operator.eq, "ne": operator.ne, "ge": operator.ge, "gt": operator.gt, "le": operator.le, "lt": operator.lt}
SIGNS = {"eq": "==", "ne": "!=", "ge": ">=", "gt": ">", "le": "<=", "lt": "<"}


def entry(task, op, world, index: int) -> int:
    """The entry of that number of this rank's table."""
    return int(task.memory.cell(int(world) + 8 * index, np.dtype(np.int64), task, op, "reads")[()])


@handles("peer_pointer")
def peer_pointer(task, op):
    pointer, world, rank = task.read(op.pointer, op), task.read(op.world, op), position(task, op, op.gpu)
    size, own = entry(task, op, world, SIZE), entry(task, op, world, RANK)
    if not 0 <= rank < size:
        raise fail(OutOfBounds, task, op, f"rank {rank} of a world of {size} GPUs")
    if rank != own:
        check_symmetric(task, op, np.asarray(pointer))
        shift = entry(task, op, world, BASES + rank) - entry(task, op, world, BASES + own)
        pointer = (np.asarray(pointer) + np.uint64(shift % (1 << 64))).astype(np.uint64)[()]
    task.env[op.result] = pointer


def check_symmetric(task, op, pointers: np.ndarray) -> None:
    """PeerUnreachable for pointers into an array that only this rank has. Of a pointer past the end of its array nothing is known,
    and its access is checked."""
    for address in {int(pointers.min()), int(pointers.max())}:
        region = task.memory.region(address, address + 1)
        if region is not None and not region.symmetric:
            raise fail(PeerUnreachable, task, op, f"{region.label} is not symmetric: other GPUs have no such array",
                       hint="make it by World.symmetric")


@handles("world_scratch")
def world_scratch(task, op):
    """The first who asks makes it known to all GPUs, as long as this launch needs it."""
    world, stride, machine = task.read(op.world, op), workspace_stride(task.machine.program), task.machine
    size, own = entry(task, op, world, SIZE), entry(task, op, world, RANK)
    programs, there = prod(machine.grid), entry(task, op, world, BASES + size + WORKSPACE_BYTES)
    if programs * stride > there:
        raise fail(SimulatorMisuse, task, op, f"{programs} programs of {stride} bytes of workspace are {programs * stride} bytes, "
                   f"and the world has {there}", hint="launch fewer programs: a persistent kernel; or make a world with more: "
                   "World(..., scratch=bytes)")
    starts = [entry(task, op, world, BASES + rank) + reserved(size, 0) for rank in range(size)]
    if task.memory.region(starts[own], starts[own] + programs * stride) is None:
        regions = [Region("workspace", start, programs * stride, 1, None, rank=rank, symmetric=True)
                   for rank, start in enumerate(starts)]
        for gpu in machine.gpus:
            gpu.memory.regions += sorted(regions, key=lambda region: region.rank != gpu.rank)
    task.env[op.results[0]], task.env[op.results[1]] = np.uint64(starts[own]), np.int32(stride)


@handles("signal_wait")
def signal_wait(task, op):
    pointer, value = int(task.read(op.pointer, op)), task.read(op.value, op)
    dtype, memory, machine = numpy_type(op.value.type), task.memory, task.machine
    fits, sign = COMPARE[op.compare.removeprefix("u")], SIGNS[op.compare.removeprefix("u")]
    if op.compare.startswith("u"):
        dtype = np.dtype(f"u{dtype.itemsize}")
        value = value.view(dtype)
    yield None
    while not fits(memory.cell(pointer, dtype, task, op, "reads")[()], value):
        machine.watching[task] = None
        yield Wait(op, "signal", pointer, lambda: _awaited(task, op, pointer, dtype, f"{sign} {value}"))
    address = np.uint64(pointer)
    memory.touch(task, op, address, None, dtype.itemsize, write=False, atomic=dict(order=op.sem, scope=op.scope, read=True))
    machine.order.saw_signal(task, op, pointer, lambda new: bool(fits(dtype.type(new), value)), f"{sign} {value}")
    sent = machine.signal_times.get(pointer)
    if sent is not None:
        task.wait_until(sent, op, f"signal {memory.named(pointer)}")


def _awaited(task, op, pointer: int, dtype: np.dtype, awaited: str) -> str:
    found = task.memory.cell(pointer, dtype, task, op, "reads")[()]
    return f"{task.memory.named(pointer)} to be {awaited}: it is {found}"


def _alone_at_its_pad(task, op, ranks: tuple[int, ...], own: int) -> None:
    """BarrierMisuse if another task of this program is at a barrier with some of the same peers: both would take one signal for
    theirs."""
    for barrier in task.machine.rank_barriers.values():
        if isinstance(barrier, RankBarrier) and barrier.index == task.cta.index and barrier.came.get(own) \
                and len(set(barrier.ranks) & set(ranks)) > 1:
            other = next(one for one in barrier.waiters if one.cta.gpu.rank == own)
            raise fail(BarrierMisuse, task, op, f"task {other.name!r} of this program is at a barrier of ranks as well, at "
                       f"{other.wait.op.site}: a program has one signal pad for each peer, and the two would take "
                       "each other's signals",
                       other.wait.op.site,
                       hint="let one task of the program wait for the other GPUs, and then arrive on a barrier for the other tasks")


@handles("world_barrier")
def world_barrier(task, op):
    machine, world = task.machine, task.read(op.world, op)
    size, own = entry(task, op, world, SIZE), entry(task, op, world, RANK)
    x, y, z = task.cta.index
    program = x + machine.grid[0] * (y + machine.grid[1] * z)
    if program >= entry(task, op, world, CAPACITY):
        raise fail(SimulatorMisuse, task, op, f"program {program} has no signal pad: the world has pads for "
                   f"{entry(task, op, world, CAPACITY)} programs", hint="launch fewer programs: a persistent kernel")
    ranks = tuple(range(size)) if op.gpus is None else tuple(sorted(op.gpus))
    if ranks[-1] >= size:
        raise fail(OutOfBounds, task, op, f"ranks {ranks} of a world of {size} GPUs", hint="simulate as many GPUs as the mesh has: "
                   f"mimw.World({ranks[-1] + 1}), or --gpus {ranks[-1] + 1} for a World() without a number")
    if own not in ranks:
        return
    _alone_at_its_pad(task, op, ranks, own)
    barrier = machine.rank_barriers.get((ranks, task.cta.index))
    if barrier is None:
        barrier = machine.rank_barriers[ranks, task.cta.index] = RankBarrier(machine, ranks, task.cta.index)
    machine.order.mix()
    yield from arrive_and_wait(task, op, barrier)
