"""The order of effects of a launch, task by task, and whether two programs have the same one.

Input: a launch, and which ops of its program count, by which number. Output: the numbers that each task ran; then what differs:

    recorded = order_of_run(launch, {op: number for number, op in enumerate(launch.program.walk())})
    difference(recorded, compiled)          "" or "task 1 of CTA (0, 0, 0): barrier_wait at kernel.py:9 where ..."

Counted are ops with a fixed place (`analysis.order`): copies, barriers, fences, products that run on, writes to memory of the
kernel's own. Loops that were unrolled or split have the same order as before, as it is that of what ran. An op of the recorded
program may become several in a row: numbers that follow themselves count once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from mimw.compiler.analysis.barrier_ops import task_names
from mimw.compiler.analysis.order import Order, order_of
from mimw.ir import Op, Program
from mimw.runtime.simulate import Launch
from mimw.simulator import Hooks, run
from mimw.tools.search.clusters import cluster_at

Key = tuple[tuple[int, ...], int]


@dataclass
class Watcher:
    """Notes what the tasks of a run do: for each CTA and task the numbers of the ops, in order. The kernel's body is task -1; the
    default task is 0, and the others follow in their order."""

    numbers: Mapping[Op, int]
    places: Mapping[str, int]
    seen: dict[Key, list[int]] = field(default_factory=dict)

    def does(self, task: Any, op: Op) -> None:
        number = self.numbers.get(op)
        if number is None:
            return
        done = self.seen.setdefault((task.cta.index, -1 if task.is_body else self.places[task.name]), [])
        if not done or done[-1] != number:
            done.append(number)

    def waits(self, task: Any, wait: Any) -> None:
        """Waiting is no effect."""

    def lands(self, operation: Any) -> None:
        """When a copy lands the seed decides."""

    def completes(self, barrier: Any, task: Any, op: Op) -> None:
        """Phases complete by what tasks do."""


def places_of(program: Program) -> dict[str, int]:
    """The place of each task among those of its region, by name: the default task's is 0."""
    places: dict[str, int] = {}
    for region in program.named("warp_specialize"):
        others = 1
        for task, name in zip(region.attrs["tasks"], task_names(region), strict=True):
            places[name] = 0 if task.is_default else others
            others += not task.is_default
    return places


def fixed(program: Program) -> dict[Op, int]:
    """The ops of a recorded program that have a fixed place, with their numbers."""
    return {op: number for number, op in enumerate(program.walk()) if order_of(op) is Order.FIXED}


def order_of_run(launch: Launch, numbers: Mapping[Op, int], seed: int = 1) -> dict[Key, list[int]]:
    """What each task did of the ops in `numbers`."""
    watcher = Watcher(numbers, places_of(launch.program))
    run(launch.program, launch.grid, launch.values, seed=seed, memory=launch.memory,
        hooks=Hooks(observer=watcher, clusters=_clusters(launch)))
    return watcher.seen


def _clusters(launch: Launch) -> tuple:
    """The clusters that run: all, but of a kernel that draws its work the first alone, since who gets which part depends on the
    time that ops take."""
    draws = any("steals" in op.row.traits for op in launch.program.walk())
    return (cluster_at(launch, 0), ) if draws else ()


@dataclass(frozen=True)
class Kept:
    """What became of the recorded ops with a fixed place: `numbers` are those of the compiled ops that count; `dropped` are the
    recorded ops that have no op there, `doubled` those that have several of one name; `added` the compiled ops with a fixed place
    that come from no recorded op, or are fences and barriers beside one."""

    numbers: dict[Op, int]
    dropped: Counter[str]
    doubled: Counter[str]
    added: Counter[str]


def kept(recorded: Program, compiled: Program, said: Mapping[Op, int]) -> Kept:
    """The ops of `compiled` that stand for ops of `recorded`; `said` are the numbers that their locations say."""
    wanted = {number: op for op, number in fixed(recorded).items()}
    found = {op: said.get(op, -1) for op in compiled.walk() if order_of(op) is not Order.FREE}
    numbers = {op: number for op, number in found.items()
               if number in wanted and op.name in (wanted[number].name, *_own(op))}
    names = Counter((number, op.name) for op, number in numbers.items())
    there = set(numbers.values())
    return Kept(numbers, Counter(op.name for number, op in wanted.items() if number not in there),
                Counter(wanted[number].name for number in {number for (number, _), count in names.items() if count > 1}),
                Counter(op.name for op, number in found.items()
                        if op not in numbers and (number < 0 or not _own(op)) and order_of(op) is Order.FIXED))


def _own(op: Op) -> tuple[str, ...]:
    """The name of an op that may stand for a recorded one of another name: any but fences and barriers of threads, which lowering
    and Triton put beside ops, with the locations of these."""
    return () if op.name in ("barrier", "fence") else (op.name, )


def difference(recorded: Mapping[Key, list[int]], compiled: Mapping[Key, list[int]], ops: list[Op], there: set[int]) -> str:
    """The first place in which two orders differ, "" for none. `ops` are those of the recorded program by number; `there` the
    numbers that the compiled program has."""
    for key in sorted(set(recorded) | set(compiled)):
        one, other = _without(recorded.get(key, []), there), compiled.get(key, [])
        for at, (wanted, found) in enumerate(zip_longest(one, other)):
            if wanted != found:
                named = ["nothing" if number is None else f"{ops[number].name} at {ops[number].site}" for number in (wanted, found)]
                return f"task {key[1]} of CTA {key[0]}, effect {at}: {named[0]} is recorded, and compiled is {named[1]}"
    return ""


def _without(numbers: list[int], there: set[int]) -> list[int]:
    """The numbers that are there; those that then follow themselves count once."""
    left: list[int] = []
    for number in numbers:
        if number in there and (not left or left[-1] != number):
            left.append(number)
    return left
