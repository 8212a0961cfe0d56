"""What benchmarks on several GPUs share: the start of their processes, calls timed in turn at all ranks, rows kept by rank 0.

    options, world = started(parser, "benchmarks.distributed_collectives")      starts a process a GPU where torchrun has not
    calls = {"mimw": ours, "NCCL": theirs}                              each rank gives the same names in the same order
    times = alternate(world, {name: graphed(world, call) for name, call in calls.items()}, 100.0, each=CALLS)
    keep_row(world, row_of(...), file)

Input: functions that launch, at every rank. Output: microseconds: of each call the slowest rank's, of those the median. Ranks make
equally many calls, since a call may wait for the other ranks': how many, all are told by rank 0. Before each call a kernel lets
the ranks meet on the GPU, so that no call waits for a rank that the host has launched late.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import mimw
import mimw.tlx as tlx
from mimw.testing.benchmark import Row

from .gpu import keep, parsed, torch

CALLS = 20              # of one graph
WARM_UPS = 3
FLUSH_BYTES = 256 << 20
MOST_ROUNDS = 2000


@mimw.jit
def meet(world):
    """One program of each rank meets the others'."""
    tlx.world_barrier(world)


def started(parser: argparse.ArgumentParser, module: str, heap: int | None = None) -> tuple[argparse.Namespace, Any]:
    """(options, world) of this process, whose symmetric heap has `heap` bytes. Without torchrun, `python -m module` with this
    command line is started once a GPU, and this process ends as they do; the parser gets `--gpus`, how many."""
    parser.add_argument("--gpus", type=int, default=2, help="how many processes are started, where torchrun has not done so")
    options = parsed(parser)
    if "RANK" not in os.environ:
        start = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(options.gpus)]
        sys.exit(subprocess.run([sys.executable, *start, "-m", module, *sys.argv[1:]]).returncode)
    import mimw.distributed
    return options, mimw.distributed.init(heap=heap, timeout=60)


def ended() -> None:
    """The end of a process: all ranks have come."""
    torch.cuda.synchronize()
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def together(world) -> None:
    """The host waits for its GPU, then for the other ranks' hosts."""
    torch.cuda.synchronize()
    torch.distributed.barrier(world.group)


def told(world, value: Any) -> Any:
    """What rank 0 gives, at all ranks."""
    box = [value]
    torch.distributed.broadcast_object_list(box, torch.distributed.get_global_rank(world.group, 0), world.group)
    return box[0]


def of_all(world, value: Any) -> list:
    """What each rank gives, by rank."""
    values = [None] * world.size
    torch.distributed.all_gather_object(values, value, world.group)
    return values


def compiled_ahead(world, calls: Iterable[Callable[[], Any]]) -> None:
    """What the calls launch, compiled side by side, by each rank a part; nothing is launched. All ranks give the same calls."""
    def noted() -> None:
        for call in calls:
            call()

    began, jobs = time.monotonic(), max(1, len(os.sched_getaffinity(0)) // world.size)
    done = mimw.compile_ahead(noted, jobs=jobs, share=(world.rank, world.size))
    together(world)
    if world.rank == 0:
        print(f"{done.binaries} of the binaries of {world.size} ranks compiled ahead, {time.monotonic() - began:.0f} s", flush=True)


def agreed_rounds(per_round_ms: list[float], at_least_ms: float) -> int:
    """How many rounds last `at_least_ms` for the quickest candidate, whose milliseconds in one round are the least of these; at
    least 5, at most MOST_ROUNDS."""
    return max(5, min(MOST_ROUNDS, round(at_least_ms / max(min(per_round_ms), 1e-4))))


def graphed(world, run: Callable[[], Any], calls: int = CALLS) -> Callable[[], None]:
    """So many calls as a CUDA graph: its replay. All ranks record at one time."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UPS):
            run()
    torch.cuda.current_stream().wait_stream(side)
    together(world)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            run()
    together(world)
    return graph.replay


def alternate(world, candidates: Mapping[str, Callable[[], Any]], at_least_ms: float = 200.0, each: int = 1,
              flushed: bool = True) -> dict[str, float]:
    """Median microseconds of each candidate, of every call the slowest rank's; `each` says how many calls a candidate makes.

    Candidates are called in turn, in the same order at all ranks, each round beginning with another one, for as many rounds as
    `at_least_ms` of the quickest take. Every call starts when all ranks have met on the GPU; `flushed`, with a cold L2."""
    if world.shares_gpus:
        sys.exit("ranks that share a GPU run in turns, so their times say nothing; without MIMW_SHARE_GPUS each needs a GPU")
    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda") if flushed else None
    order = list(candidates.items())

    def rounds(count: int) -> dict[str, list[float]]:
        events: dict[str, list] = {name: [] for name in candidates}
        for _ in range(count):
            for name, run in order:
                if flush is not None:
                    flush.zero_()
                meet[(1, )](world, num_warps=1)
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                run()
                end.record()
                events[name].append((start, end))
            order.append(order.pop(0))
        torch.cuda.synchronize()
        return {name: [start.elapsed_time(end) for start, end in pairs] for name, pairs in events.items()}

    together(world)
    pilot = rounds(WARM_UPS)
    count = told(world, agreed_rounds([min(times) for times in pilot.values()], at_least_ms))
    together(world)
    everywhere = of_all(world, rounds(count))
    return {name: statistics.median(map(max, zip(*(times[name] for times in everywhere)))) * 1000 / each for name in candidates}


def keep_row(world, row: Row, file: Path, line: Callable[[Row], str] = str) -> None:
    """Rank 0 appends the row to the file and prints it."""
    if world.rank == 0:
        keep(row, file)
        print(line(row), flush=True)


def worst(world, error: float) -> float:
    """The largest error of all ranks; one that is no number stays none."""
    return max(of_all(world, error), key=lambda one: float("inf") if one != one else one)
