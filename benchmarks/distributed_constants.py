"""What lies between two GPUs of one host: latencies of signals and barriers, bandwidth by loads and stores, by TMA and by the
copy engines as a function of SMs and bytes, how far apart ranks start. The constants of docs/SCALING.md and of the table `[link]`
of src/mimw/simulator/costs/sm_90a.toml.

    python -m benchmarks.distributed_constants [--gpus 2] [--results DIR] [NAME...]     starts a process a GPU by torchrun

Input: two GPUs that reach each other's memory. Output: one JSON row a measurement, by rank 0. Times are microseconds of a launch in
a replayed graph of several, whose kernels begin and end in a barrier of the ranks, so that they run in step; `empty_us` is that of
a launch that moves nothing. Bandwidth is of one direction: `both` says whether the other direction is at work as well. Every copy
is compared with its source. `ring` is how many ranks took part.
"""

from __future__ import annotations

import ctypes
import datetime
import statistics
from collections.abc import Callable
from pathlib import Path

import numpy as np

from mimw.testing.benchmark import versions

from . import link_kernels
from .distributed import ended, started
from .driver import append, command, some_of
from .gpu import multiprocessors, torch
from .link_kernels import WAYS, launch_of, tile_of
from .progress import each

NAMES = ("latency", "bandwidth", "sizes", "engine", "skew")
MIB = 1 << 20
BOOST_GHZ = 1.98                # of an H200's SM, which an idle GPU runs at
LAUNCHES, ROUNDS = 8, 5         # launches of a graph; how often it is replayed
PROGRAMS = (1, 2, 4, 8, 16, 32, 64)
DIRECTIONS = {"put": (0, 1), "get": (1, 0), "local": (0, 0)}    # whose memory is read, and whose is written


class Bench:
    """Launches at both ranks, in step; rank 0 keeps the rows."""

    def __init__(self, world, results: Path, most: int = 64 * MIB):
        self.world, self.results, self.sms = world, results, multiprocessors()
        self.x, self.y = (world.symmetric((most // 4, ), torch.int32, name) for name in "xy")
        self.flag, self.links = (world.symmetric((size, ), torch.int32) for size in (1, MIB))
        self.out = torch.zeros(1, dtype=torch.int32, device="cuda")
        self.x.copy_(self.pattern(world.rank, most // 4))

    @staticmethod
    def pattern(rank: int, elements: int):
        """What the array of a rank holds, so that every rank knows what came from whom."""
        return torch.arange(elements, device="cuda", dtype=torch.int32) * 7 + 1_000_003 * (rank + 1)

    @property
    def peer(self) -> int:
        return self.world.rank ^ 1

    def note(self, name: str, **figures) -> None:
        if self.world.rank == 0:
            row = {"name": name, "ring": self.world.size, "chip": torch.cuda.get_device_name(),
                   "date": datetime.date.today().isoformat(), "torch": versions().get("torch"),
                   **{key: round(value, 4) if isinstance(value, float) else value for key, value in figures.items()}}
            print(append(row, self.results, sort_keys=False), flush=True)

    def meet(self) -> None:
        torch.cuda.synchronize()
        torch.distributed.barrier(self.world.group)

    def slowest(self, value: float) -> float:
        """The largest of all ranks' values."""
        values = [None] * self.world.size
        torch.distributed.all_gather_object(values, value, self.world.group)
        return max(values)

    def timed(self, launch: Callable[[], None], launches: int = LAUNCHES) -> float:
        """Microseconds of one of `launches` in a graph, the smallest of a few replays; all ranks call it with the same launches."""
        launch()
        self.meet()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(launches):
                launch()
        self.meet()
        times = []
        for _ in range(ROUNDS):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            graph.replay()          # lets the ranks meet, so that the next one starts in step
            begin.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end) * 1000 / launches)
        self.meet()
        return self.slowest(min(times))

    def run(self, way: str, **how) -> Callable[[], None]:
        grid, kernel, args, meta = launch_of(way, self.x, self.y, self.world, **how)
        return lambda: kernel[grid](*args, **meta)

    def right(self, elements: int, source: int, target: int, both: bool) -> bool:
        """Whether `y` holds what it should; it is zeroed again."""
        self.meet()
        even = self.world.rank % 2 == 0
        written = both or even == (target == 0)
        came = self.pattern(self.peer if source | target else self.world.rank, elements) if written else 0
        right = bool((self.y[:elements] == came).all())
        self.y.zero_()
        self.meet()
        return self.slowest(0.0 if right else 1.0) == 0.0

    # ---- what is measured -------------------------------------------------------------------------------------------

    def latency(self) -> None:
        """Slopes over the rounds: signals there and back, barriers by programs, dependent loads."""
        order = torch.arange(MIB, device="cuda") + 4099 * 8
        self.links.copy_((order % MIB).to(torch.int32))
        world, kernels = self.world, link_kernels

        def slope(kernel, grid: int, *args, after: tuple = (), few: int = 64, many: int = 576) -> float:
            def launch(rounds: int) -> Callable[[], None]:
                return lambda: kernel[(grid, )](*args, rounds, *after, num_warps=4)
            short = self.timed(launch(few), 4)
            return (self.timed(launch(many), 4) - short) / (many - few)

        there_and_back = slope(kernels.round_trips, 1, self.flag, world)
        self.note("signal", round_trip_us=there_and_back, one_way_us=there_and_back / 2, right=int(self.flag.item()) == 0)
        for programs in (1, self.sms):
            self.note("world_barrier", programs=programs, us=slope(kernels.meetings, programs, world))
        for target, memory in ((0, "own"), (1, "peer")):
            self.note("load", memory=memory, us=slope(kernels.chain, 1, self.links, self.out, world, after=(target, )),
                      right=int(self.out.item()) == 576 * 4099 * 8 % MIB)
        self.note("launch", us=self.timed(self.run("vectors", programs=1, passes=1, source=0, target=0, both=True, elements=0), 16))

    def copied(self, name: str, way: str, direction: str, both: bool, programs: int, size: int, passes: int) -> None:
        """The row of one copy of `size` bytes, `passes` times in a launch."""
        source, target = DIRECTIONS[direction]
        how = dict(programs=programs, source=source, target=target, both=both)
        elements = size // 4 // tile_of(way) * tile_of(way)
        empty = self.timed(self.run(way, passes=1, elements=0, **how), 4)
        launch = self.run(way, passes=passes, elements=elements, **how)
        self.y.zero_()          # of what others have timed
        self.meet()
        launch()
        right = self.right(elements, source, target, both)
        us = self.timed(launch, 4)
        moved = elements * 4 * passes
        self.note(name, way=way, direction=direction, both=both, sms=programs, bytes=elements * 4, passes=passes, us=us,
                  empty_us=empty, gb_per_s=moved / max(us - empty, 1e-3) / 1e3, right=right)

    def bandwidth(self) -> None:
        """By SMs: 8 MiB, which L2 holds, as often as makes a measurement."""
        for way in WAYS:
            for direction in DIRECTIONS:
                for both in (True, False) if direction != "local" else (True, ):
                    for programs in (*PROGRAMS, self.sms):
                        self.copied("bandwidth", way, direction, both, programs, 8 * MIB, 1 if programs < 8 else 4)

    def sizes(self) -> None:
        """By bytes: one pass by all SMs, from a few KiB to more than L2 holds."""
        for way in WAYS:
            for direction in ("put", "get"):
                for kib in (32, 256, 2048, 16384, 65536):
                    size = kib << 10
                    programs = min(self.sms, max(1, size // 4 // tile_of(way)))
                    self.copied("sizes", way, direction, True, programs, size, 1)

    def engine(self) -> None:
        """Copies by the driver, which take no SM; each behind the other in the stream."""
        driver = ctypes.CDLL("libcuda.so.1")
        table = self.world.table.tolist()
        shift = table[3 + self.peer] - table[3 + self.world.rank]
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        for direction in ("put", "get"):
            for both in (True, False):
                for kib in (32, 256, 2048, 16384, 65536):
                    size, (source, target) = kib << 10, DIRECTIONS[direction]
                    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                    addresses = [ctypes.c_uint64(array.data_ptr() + far * shift)
                                 for array, far in ((self.y, target), (self.x, source))]
                    works = both or self.world.rank % 2 == 0
                    times = []
                    self.y.zero_()
                    for _ in range(ROUNDS):
                        self.meet()
                        begin.record()
                        for _ in range(LAUNCHES if works else 0):
                            failed = driver.cuMemcpyDtoDAsync_v2(*addresses, ctypes.c_size_t(size), stream)
                            if failed:
                                raise OSError(f"cuMemcpyDtoDAsync of {size} bytes between ranks gives the driver's error {failed}")
                        end.record()
                        torch.cuda.synchronize()
                        times.append(begin.elapsed_time(end) * 1000 / LAUNCHES)
                    us = self.slowest(min(times) if works else 0.0)
                    self.note("engine", way="engine", direction=direction, both=both, sms=0, bytes=size, us=us,
                              gb_per_s=size / us / 1e3, right=self.right(size // 4, source, target, both))

    def skew(self) -> None:
        """How long the first rank waits for the last at a kernel's start: after a barrier of the hosts, with launches that follow
        each other in a stream, and in a replayed graph."""
        cycles = torch.zeros(32, dtype=torch.int64, device="cuda")
        ghz = BOOST_GHZ
        kernel = link_kernels.waited

        def launch(index: int) -> None:
            kernel[(1, )](self.world, cycles[index:], num_warps=4)

        def told(how: str) -> None:
            torch.cuda.synchronize()
            waits: list = [None] * self.world.size
            torch.distributed.all_gather_object(waits, (cycles / ghz / 1e3).tolist(), self.world.group)
            waits = np.array(waits)
            apart = waits.max(0) - waits.min(0)
            self.note("skew", how=how, median_us=float(np.median(apart)), most_us=float(apart.max()),
                      barrier_us=float(statistics.median(waits.min(0))))

        launch(0)
        for index in range(32):
            self.meet()
            launch(index)
        told("after a barrier of the hosts")
        self.meet()
        for index in range(32):
            launch(index)
        told("behind each other")
        self.meet()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for index in range(32):
                launch(index)
        self.meet()
        graph.replay()
        told("in a graph")


def main() -> None:
    parser = command(__doc__)
    some_of(parser, "names", NAMES)
    options, world = started(parser, "benchmarks.distributed_constants")
    if world.size % 2:
        parser.error(f"{world.size} ranks: they are measured in pairs; give --gpus 2")
    bench = Bench(world, options.results / "distributed_constants.jsonl")
    for name in each(options.names or NAMES, quiet=world.rank > 0):
        getattr(bench, name)()
    ended()


if __name__ == "__main__":
    main()
