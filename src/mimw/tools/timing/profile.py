"""`mimw.profile`: the timeline of a launch as the GPU's own clocks saw it.

Input: a kernel, a grid and arguments, on a machine with a GPU. Output: a `Profile`. For example:

    mimw.profile(gemm, (132, ), a, b, c, 4096).write("timeline.html")

The kernel is compiled once more with time stamps (passes/stamp_time.py) and launched once. Each task's first thread leaves
(clock, event) records in a workspace that the launcher allocates; this file makes events of them. %clock64 counts cycles of
one SM; the first and the last record of a lane also hold the GPU's %globaltimer, which puts all SMs on one axis and gives the
clock rate.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from ...compiler.analysis.barrier_ops import task_names
from ...compiler.launch import extents_of
from ...compiler.passes.stamp_time import BEGIN, END, RECORD_BYTES
from ...compiler.triton_port.runtime import active_target, driver, profile_scratch_from
from ...errors import SimulatorMisuse
from ...ir import Op, Program
from ...ir.trace import Event, Trace
from ...runtime.call import resolve, tool
from ...runtime.simulating import simulating
from ...target import wanted
from .result import Timeline

CAPACITY, CTAS = 4096, 8
PASSING = 100       # cycles that a wait takes at most, its stamp included, if there is nothing to wait for


@dataclass(frozen=True)
class Profile(Timeline):
    """A measured timeline. `dropped` counts records for which a lane had no room; `sms` the SM of each CTA that left records;
    `spread` is the difference between the last and the first CTA's start in microseconds."""

    dropped: int = 0
    sms: dict[int, int] | None = None
    spread: float = 0.0


@tool
def profile(kernel, grid, *args: Any, target: str | Any = None, num_warps: int | Any = None, num_stages: int | Any = None,
            gpus: int | Any = None, capacity: int | Any = CAPACITY, ctas: int | Any = CTAS, **meta: Any) -> Profile:
    """Launch `kernel` once on the GPU with time stamps around its waits, copies, dots and stores.

    args:      kernel, grid, args, num_warps, num_stages, meta   as for a launch; an autotuned kernel runs its first configuration
               target    the GPU's own chip, or None
               gpus      1, or None: each rank of a launch on several GPUs profiles itself
               capacity  records a task may leave, 16 bytes each; what comes later is dropped but for the end
               ctas      CTAs that leave records at most, spread evenly over the grid
    returns:   Profile; its times contain the cost of the stamps, about 40 cycles of one warp each
    errors:    SimulatorMisuse without a GPU, for the target of another one and for several, and for a kernel that calls
               nothing of tlx or tle; TargetError on AMD
    """
    if simulating():
        raise SimulatorMisuse("mimw.profile measures on a GPU, and this process simulates",
                              hint="mimw.predict gives a timeline without a GPU")
    gpu = active_target()
    if target is not None and wanted(target) != (here := wanted(f"{gpu.backend}:{gpu.arch}")):
        raise SimulatorMisuse(f"mimw.profile measures on this machine's GPU, which is {here.name}, not {target}",
                              hint="leave `target` out, or ask mimw.predict for another chip")
    if gpus not in (None, 1):
        raise SimulatorMisuse(f"mimw.profile measures on the GPU of its process, not on {gpus}",
                              hint="call it in each rank of torchrun, or ask mimw.predict for all of them")
    fn, args, meta = resolve(kernel, args, meta)
    extents = _extents(fn, grid, args, meta)
    count = prod(extents)
    every = -(-count // ctas)
    kept = -(-count // every)
    taken = []

    def allocate(size: int, alignment: int, stream):
        taken.append(driver.active.allocate_default_profile_scratch(size // count * kept, alignment, stream))
        return taken[-1]

    with profile_scratch_from(allocate):
        compiled = fn.run(*args, grid=extents, warmup=False, time_stamps=(capacity, every), **meta)
    if not taken:
        raise SimulatorMisuse(f"{fn.__name__} calls nothing of tlx or tle, so it has no tasks to measure",
                              hint="a plain kernel goes through Triton's own path: use Triton's profiler, proton")
    records = taken[0].cpu().numpy().view(np.uint64).reshape(kept, -1, capacity, RECORD_BYTES // 8)
    found = _decoded(fn.__name__, extents, compiled.stamped, records, every)
    return replace(found, target=wanted(f"{gpu.backend}:{gpu.arch}"))


def _extents(fn, grid, args, meta) -> tuple[int, ...]:
    grid = extents_of(grid, dict(zip(fn.arg_names, args)) | meta)
    return (grid, ) if isinstance(grid, int) else tuple(map(int, grid))


def _lanes(program: Program) -> list[tuple[str, dict[int, Op]]]:
    """The name of each lane and its stamps by event, in the order of the lanes."""
    names = ["default"]
    for op in program.body.ops:
        if op.name == "warp_specialize":
            names += task_names(op)
    stamps: list[dict[int, Op]] = [{} for _ in names]
    for op in program.walk():
        if op.name == "time_stamp":
            stamps[op.attrs["lane"]][op.attrs["event"]] = op
    return list(zip(names, stamps))


def _decoded(name: str, extents: tuple[int, ...], program: Program, records: np.ndarray, every: int) -> Profile:
    """Records[CTA, lane, number] = (clock, event + 1 and a number above it) -> a Profile."""
    lanes = _lanes(program)
    seen = [_lane(records[cta, lane]) for cta in range(len(records)) for lane in range(len(lanes))]
    seen = [[seen[cta * len(lanes) + lane] for lane in range(len(lanes))] for cta in range(len(records))]
    spans = [lane.rate() for row in seen for lane in row]
    longest = sorted(filter(None, spans), reverse=True)[:max(1, len(spans) // 2)]
    rate = statistics.median(rate for _, rate in longest) if longest else 1.0           # cycles per nanosecond
    start = min(lane.began[1] for row in seen for lane in row)
    end = max(lane.ended[1] for row in seen for lane in row)
    trace, dropped = Trace(unit="us"), 0
    for index, row in enumerate(seen):
        body = row[0]
        offset = (body.began[1] + body.ended[1]) / 2 - (body.began[0] + body.ended[0]) / 2 / rate - start

        def at(clock: float, offset=offset) -> float:
            return max(0.0, (clock / rate + offset) / 1000)

        for (lane, stamps), found in zip(lanes, row):
            dropped += found.dropped
            before = found.began[0]
            for clock, event in found.stamps:
                stamp = stamps[event]
                kind, label = stamp.attrs["kind"], stamp.attrs["label"] or lane
                if kind == "wait":      # what it takes to find that all is there is no waiting
                    passed = min(clock, before + PASSING)
                    trace.events.append(Event(index * every, lane, "run", at(before), at(passed), label, stamp.site))
                    before = passed
                if clock > before or kind != "wait":
                    trace.events.append(Event(index * every, lane, kind, at(before), at(clock), label, stamp.site))
                before = clock
    trace.events.sort(key=lambda event: event.end)
    sms = {index * every: row[0].sm for index, row in enumerate(seen)}
    starts = [row[0].began[1] for row in seen]
    return Profile(name, extents, (end - start) / 1000, 1000 * rate, trace, dropped, sms, (max(starts) - min(starts)) / 1000,
                   program=program)


@dataclass(frozen=True)
class _Lane:
    """One task's records: (clock, global timer) at its start and its end, and (clock, event) between."""

    began: tuple[int, int]
    ended: tuple[int, int]
    stamps: list[tuple[int, int]]
    sm: int
    dropped: int

    def rate(self) -> tuple[int, float] | None:
        """(nanoseconds, cycles per nanosecond) of the whole lane."""
        span = self.ended[1] - self.began[1]
        return (span, (self.ended[0] - self.began[0]) / span) if span > 0 else None


def _lane(records: np.ndarray) -> _Lane:
    numbers = (records[:, 1] & np.uint64(0xFFFFFFFF)).astype(np.int64) - 1
    above = (records[:, 1] >> np.uint64(32)).astype(np.int64)
    clocks = records[:, 0].astype(np.int64)
    last = int(np.flatnonzero(numbers == END)[0])
    assert numbers[0] == BEGIN and last + 1 < len(numbers)
    written = int(above[last])                                    # stamps left before the last, two of them at the start
    stamps = [(int(clocks[i]), int(numbers[i])) for i in range(2, min(written, len(numbers) - 2))]
    return _Lane((int(clocks[0]), int(clocks[1])), (int(clocks[last]), int(clocks[last + 1])),
                 [*stamps, (int(clocks[last]), END)], int(above[0]), max(0, written - (len(numbers) - 2)))
