"""Checks at all ranks of a world of real GPUs, one line each.

    CHECKS = (starting, host)           functions of a world, which raise where something is wrong and return what to tell
    sys.exit(main(CHECKS))              in each process that torchrun has started; names of checks as arguments choose some
    same(found, wanted)                 an AssertionError unless tensors are equal; close(found, wanted) likewise

Input: the checks. Output: a line for each from rank 0, and exit status 1 where one is wrong at a rank. A process that hangs prints
its stack and ends after LIMIT seconds, which the environment may give: ranks that share a GPU have turns, and need more.

With `ahead`, every check runs once before with its launches left out, and what it would launch is compiled side by side, a part
of it by each rank (`mimw.compile_ahead`): one after the other, compiling took most of the time. No values are compared then.
"""

import contextlib
import faulthandler
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

import mimw
import mimw.distributed
from mimw.distributed import world_of
from mimw.distributed.world import GroupWorld

LIMIT = float(os.environ.get("LIMIT", 100))     # seconds of the whole
_NOTING = [False]       # whether launches are left out, so that no value is there to compare


def close(found, expected, allowed=0.02):
    """The largest error, of the largest element expected; an AssertionError where that is more than allowed."""
    assert found.shape == expected.shape, f"{tuple(found.shape)}, {tuple(expected.shape)}"
    if _NOTING[0]:
        return 0.0
    error = float((found.float() - expected.float()).abs().max() / expected.float().abs().max())
    assert error <= allowed, f"{tuple(found.shape)}: error {error:.3g}"
    return error


def same(found, wanted, what=""):
    """An AssertionError unless the tensors are equal to the bit, in values; `what` says which they are."""
    assert _NOTING[0] or torch.equal(found, wanted), what


def compile_ahead(world: GroupWorld, checks: Sequence[Callable[[], Any]]) -> None:
    """What the checks will launch is in the cache on disk: of all ranks of this machine, each has compiled a part."""
    def noted():
        for check in checks:
            with contextlib.suppress(Exception):    # of a value that is not there, at all ranks alike
                check()

    began, _NOTING[0] = time.monotonic(), True
    cores = len(os.sched_getaffinity(0))
    try:
        done = mimw.compile_ahead(noted, jobs=max(1, cores // world.size), share=(world.rank, world.size))
    finally:
        _NOTING[0] = False
    torch.cuda.synchronize()
    everywhere = at_all([done.binaries, list(done.failed)])
    if world.rank == 0:
        print(f"compiled ahead: {sum(many for many, _ in everywhere)} binaries, {time.monotonic() - began:.0f} s", flush=True)
        for failed in sum((failed for _, failed in everywhere), []):
            print(f"    not compiled: {failed}", flush=True)


def anew() -> GroupWorld:
    """A world of a new group of all ranks: calls are counted anew, whatever went wrong before."""
    return world_of(dist.new_group(list(range(dist.get_world_size()))))


def pair(world: GroupWorld) -> GroupWorld | None:
    """The world of this rank and the one beside it, each two ranks having one; None for the last of an odd number."""
    found = None
    for first in range(0, world.size - 1, 2):
        group = dist.new_group([first, first + 1])      # a call of all ranks
        if world.rank in (first, first + 1):
            found = group
    return None if found is None else world_of(found)


def times(world: GroupWorld, many: int) -> int:
    """How often something is done: less where ranks have turns on one GPU, some ms each, and wait for each other."""
    return -(-many // 6) if world.shares_gpus else many


def at_all(told: Any) -> list[Any]:
    """What each rank says, through the host."""
    said = [None] * dist.get_world_size()
    dist.all_gather_object(said, told, dist.new_group(list(range(len(said))), backend="gloo"))
    return said


def main(checks: Sequence[Callable[[GroupWorld], Any]], heap: int = 1 << 26, ahead: bool = False) -> int:
    faulthandler.dump_traceback_later(LIMIT, exit=True)
    warnings.simplefilter("ignore", mimw.ops.SimulationWarning)
    first, bad = mimw.distributed.init(timeout=30, heap=heap), 0
    chosen = [one for one in checks if len(sys.argv) == 1 or one.__name__ in sys.argv[1:]]
    if ahead:
        compile_ahead(first, [lambda check=check: check(anew()) for check in chosen])
    for check in chosen:
        told, trace = "", ""
        world = first if check.__name__ == "starting" else anew()
        try:
            told = check(world) or ""
            torch.cuda.synchronize()
        except BaseException as error:
            told, trace = f"{type(error).__name__}: {error}", traceback.format_exc()
            print(f"rank {world.rank}, {check.__name__}: {told}", file=sys.stderr, flush=True)      # the others may wait for it
        said = at_all([told, trace])
        wrong = [rank for rank, (_, trace) in enumerate(said) if trace]
        bad += bool(wrong)
        if world.rank == 0:
            doc = check.__doc__.split(". ")[0].rstrip(".")
            print(f"{'WRONG' if wrong else 'right'}  {check.__name__:<10}  {doc}  {'' if wrong else said[0][0]}", flush=True)
            for rank in wrong:
                print(f"    rank {rank}: {said[rank][1]}", flush=True)
    return int(bad > 0)
