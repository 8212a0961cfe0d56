"""Which programs of several GPUs have to run together: those that signal and wait for each other through words of memory.

Input: a launch on several GPUs. Output: for each cluster's number the numbers of the clusters that it has to do with. For example:

    tlx.signal(peer + pid); tlx.wait_signal(flag + pid, 1)        {0: (0, ), 1: (1, ), ...}: programs of one id, at all ranks
    tlx.signal(peer); tlx.wait_signal(flag, tl.num_programs(0))   {0: (0, 1, 2, ...), ...}: all of them

A barrier of ranks is among programs of one id. A program runs at all ranks or at none, so only words that programs of different ids
touch join them. Words are found by their addresses (`addresses`); where these depend on data, a sample is refused.
"""

from __future__ import annotations

import numpy as np

from ...errors import SimulatorMisuse
from ...ir import Op
from ...runtime.simulate import Launch
from ...simulator.machine.tasks import Task
from .across import HINT
from .addresses import STEPS, Plan, Unknown, Walk
from .clusters import cluster_count


def together(launch: Launch) -> list[tuple[int, ...]]:
    """By the number of a cluster, the numbers of those that have to run with it, itself among them, in order."""
    program, count = launch.program, cluster_count(launch)
    waits = [op for op in program.walk() if op.name == "signal_wait"]
    tells = [op for op in program.walk() if "atomic" in op.row.traits and ("pointer", "write") in op.row.touches]
    everywhere = next((op for op in program.walk() if op.name == "multicast_pointer"), None)
    if waits and everywhere is not None:
        raise SimulatorMisuse(f"{launch.name} cannot be checked by a sample of its CTAs: it is not known which of them wait for "
                              f"each other's signals, since {everywhere.site} signals all ranks at once", everywhere.site,
                              hint=HINT)
    groups = list(range(count))         # a forest: of each cluster another one of its group, or itself
    if waits:
        try:
            walk = _Words(launch, Plan(launch, [*waits, *tells]))
            for number in range(count):
                if walk.steps > STEPS:
                    raise Unknown(f"the grid of {count} clusters takes too long to look through")
                walk.number = number
                walk.cluster(number)
        except Unknown as unknown:
            raise SimulatorMisuse(f"{launch.name} cannot be checked by a sample of its CTAs: it is not known which of them wait "
                                  f"for each other's signals, as {unknown}", waits[0].site, hint=HINT) from unknown
        for word in walk.waited:
            for number in walk.touched[word]:
                groups[_first(groups, number)] = _first(groups, walk.touched[word][0])
    found: dict[int, list[int]] = {}
    for number in range(count):
        found.setdefault(_first(groups, number), []).append(number)
    return [tuple(found[_first(groups, number)]) for number in range(count)]


def _first(groups: list[int], number: int) -> int:
    while groups[number] != number:
        groups[number] = number = groups[groups[number]]
    return number


class _Words(Walk):
    """Notes which clusters touch each word, and which words are waited for."""

    number = 0

    def __init__(self, launch: Launch, plan: Plan):
        super().__init__(launch, plan)
        self.waited: set[int] = set()
        self.touched: dict[int, list[int]] = {}

    def visit(self, task: Task, op: Op) -> None:
        words = np.unique(np.asarray(task.env[op.pointer], np.uint64).reshape(-1)).tolist()
        if op.name == "signal_wait":
            self.waited.update(words)
        for word in words:
            numbers = self.touched.setdefault(word, [])
            if not numbers or numbers[-1] != self.number:
                numbers.append(self.number)
