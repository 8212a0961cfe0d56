"""What each fault does at its ranks: functions of the rank, on real GPUs.

Input: the rank, in a process that tests.ranks has started; its world is there. Output: what `cases.py` asks for. For example:

    late(1)         "right": the sum of all that the ranks have put, though rank 1 is seconds late

Each has the name of its case.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable

import torch
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.distributed import world_of
from mimw.errors import RanksDisagree

N = 128


@mimw.jit
def step(count, inbox, total, world, N: tl.constexpr):
    """Put 2 * count + rank to the next rank, add what came from the one before, count on: right only if every rank does each."""
    at = tl.program_id(0) * N + tl.arange(0, N)
    me, size = tlx.world_rank(world), tlx.world_size(world)
    now = tl.load(count + at)
    tl.store(tlx.peer_pointer(inbox, (me + 1) % size, world) + at, 2 * now + me)
    tlx.world_barrier(world)
    tl.store(total + at, tl.load(total + at) + tl.load(inbox + at))
    tl.store(count + at, now + 1)
    tlx.world_barrier(world)


class Steps:
    """The arrays of `step` at this rank, in the world of a group."""

    def __init__(self, group=None, programs: int = 2):
        self.world, self.programs, size = world_of(group), programs, programs * N
        self.count, self.total = (torch.zeros(size, dtype=torch.int32, device=self.world.device) for _ in range(2))
        self.inbox, self.done = self.world.symmetric(size, torch.int32, "inbox"), 0

    def __call__(self, times: int = 1) -> None:
        for _ in range(times):
            step[(self.programs, )](self.count, self.inbox, self.total, self.world, N)
        self.done += times

    def right(self) -> str:
        """"right", or what the sum is."""
        before = (self.world.rank - 1) % self.world.size
        expected = self.done * (self.done - 1) + self.done * before
        return "right" if bool((self.total == expected).all()) else f"the sum is {self.total[0]}, not {expected}"


def raised(call: Callable[[], object]) -> str:
    """What a call raises, in one line."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return "nothing raised"


def killed(rank: int):
    steps = Steps()
    steps(20)
    torch.cuda.synchronize()
    steps(30 + 10 * (1 - rank))
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    torch.cuda.synchronize()


def killed_beside_a_graph(rank: int):
    steps = Steps()
    steps(3)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        steps(5)
    for _ in range(4):
        graph.replay()
    torch.cuda.synchronize()
    steps.world.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    graph.replay()
    torch.cuda.synchronize()


def killed_in_the_host(rank: int):
    world = world_of()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return raised(lambda: world.symmetric(8, torch.float32, "x"))


def killed_at_rest(rank: int):
    steps = Steps()
    steps(3)
    torch.cuda.synchronize()
    steps.world.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(1)
    alone = float(torch.ones(1 << 20, device="cuda").sum())
    return f"{alone:.0f} {raised(steps)}"


def late(rank: int):
    steps = Steps()
    for _ in range(2):
        if rank == 1:
            time.sleep(1.5)
        steps(5)
    return steps.right()


def too_late(rank: int):
    steps = Steps()
    steps(3)
    torch.cuda.synchronize()
    mimw.distributed.init(timeout=3).barrier()
    if rank == 1:
        time.sleep(7)
    return raised(lambda: (steps(), torch.cuda.synchronize()))


def wrong_shape(rank: int):
    world = world_of()
    told = [raised(lambda: world.symmetric((4, 8 + rank), torch.float32, "x")),
            raised(lambda: world.symmetric(8, torch.float32 if rank else torch.float16, "parts"))]
    steps = Steps()
    steps(10)
    return f"{all(one.startswith(RanksDisagree.__name__) for one in told)} {steps.right()}"


def two_groups(rank: int):
    other = torch.distributed.new_group([0, 1])
    both, streams = [Steps(), Steps(other)], [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    for number in range(200):
        for index in (0, 1) if number % 2 == rank else (1, 0):      # not in one order at both ranks
            with torch.cuda.stream(streams[index]):
                both[index]()
    torch.cuda.synchronize()
    return " ".join(one.right() for one in both)


def random_delays(rank: int):
    steps, dice = Steps(), random.Random(rank)
    for _ in range(10_000):
        if dice.random() < 0.05:
            torch.cuda._sleep(dice.randrange(200_000))      # cycles
        if dice.random() < 0.002:
            time.sleep(dice.random() * 0.02)
        steps()
    return steps.right()
