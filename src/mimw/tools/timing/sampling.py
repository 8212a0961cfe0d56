"""Programs that stand for all of a grid: which of them are simulated, and how long the others take.

Input: the clusters of a launch in the order in which they start, and how much work each has. Output: a `Sample`. For example, of a
causal grid, where the program with the last rows has 32 times the work of the one with the first:

    works = works_of(program, costs, values, grid, order)       [1250.0, 1760.0, ...] cycles of an SM's units, None if all are alike
    sample = stratified(order, works, groups, slots, count)     one of each eighth of the programs, by work
    sample.cycles(end, ends)                                    what an SM takes for its share of all of them

Programs that differ in work by loops whose bounds follow from the program's number are told apart (`analysis.trips`). The GPU
starts the next cluster wherever one has ended, so an SM's share is what falls to it if each goes to the first that is free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from math import prod

from ...compiler.analysis import uses_of
from ...compiler.analysis.trips import Loop, known_loops, rounds
from ...ir import Block, Op, Program, Tensor, Value
from ...simulator.costs import Model

MOST_CLUSTERS = 1 << 14     # of a grid whose work is looked at
ALIKE = 0.02                # works that differ by less are one
_START = 1000.0             # cycles of a program without its loops' work: to start, to load its first tile, to store its last one


@dataclass(frozen=True)
class Sample:
    """`chosen` clusters that are simulated in that order, `slots` at a time, the work of each, and of all that an SM runs."""

    chosen: list
    works: list[float]
    total: float
    slots: int

    def cycles(self, end: float, ends: Sequence[float], busy: float) -> float:
        """What the SM takes for all, if the chosen ones end at `ends`, in the order in which they started, all that they have
        stored has left at `end`, and the unit with the most to do worked for `busy`. Those behind the first ones, when the SM is
        full, say what one more takes; less than that unit's time it is not."""
        left, done = self.total - sum(self.works), sorted(zip(ends, self.works))
        begun, later = done[:self.slots], done[self.slots:]
        if left <= 0 or not done:
            return end
        if not later:
            return end * self.total / sum(self.works)
        each = (done[-1][0] - begun[-1][0]) / sum(work for _, work in later)
        return end + left * max(each, busy / sum(self.works))


def works_of(program: Program, costs: Model, values: Mapping[Value, int], grid, order: Sequence[list]) -> list[float] | None:
    """The work of each cluster by the rounds of its loops; None if it is the same, as far as programs' numbers and arguments say,
    and of grids so large that their programs even out."""
    loops = {loop.op: loop for loop in known_loops(program)}
    if not any(loop.by_program for loop in loops.values()) or len(order) > MOST_CLUSTERS:
        return None
    body, uses = _Body(costs, loops), uses_of(program)
    known = {value: int(number) for value, number in values.items() if isinstance(number, int) or hasattr(number, "__index__")}

    def work(index) -> float:
        def times(loop: Loop) -> int:
            return max(0, rounds(program, loop, known, grid, index, uses) or 0)
        return _START + body.work(program.body, times)

    found = [sum(map(work, cluster)) for cluster in order]
    return None if max(found) - min(found) <= ALIKE * max(found) else found


def even(order: Sequence[list], groups: int, slots: int, most: int) -> Sample:
    """Of clusters that are alike those of the first SM, at most so many of them, spread evenly."""
    mine = order[::groups]
    count = min(len(mine), max(most, 3 * slots))
    chosen = [mine[round(i * (len(mine) - 1) / max(1, count - 1))] for i in range(count)]
    return Sample(chosen, [1.0] * count, float(len(mine)), slots)


def stratified(order: Sequence[list], works: Sequence[float], groups: int, slots: int, most: int) -> Sample:
    """Of clusters that differ the middle one of each of so many equal parts, by work. Where all start at once, the launch lasts as
    long as the one with the most."""
    by_work, together = sorted(range(len(order)), key=works.__getitem__), len(order) <= groups * slots
    count = min(-(-len(order) // groups), max(most, 3 * slots))
    picked = {by_work[int((i + 0.5) * len(order) / count)] for i in range(count)}
    if together:
        picked = {by_work[-1], *sorted(picked, key=works.__getitem__)[:slots - 1]}
    picked = sorted(picked)
    own = [works[number] for number in picked]
    total = sum(own) if together else slots * longest(works, groups * slots)
    return Sample([order[number] for number in picked], own, total, slots)


def longest(works: Sequence[float], servers: int) -> float:
    """The work of the server that ends last, if each piece goes to the one that is free first."""
    free = [0.0] * servers
    heapify(free)
    for work in works:
        heapreplace(free, free[0] + work)
    return max(free)


class _Body:
    """The work of blocks, in cycles of an SM whose units work one after the other."""

    def __init__(self, costs: Model, loops: Mapping[Op, Loop]):
        self.costs, self.loops = costs, loops
        self.own: dict[Block, tuple[float, list[Op]]] = {}

    def work(self, block: Block, times) -> float:
        own, inside = self._own(block)
        return own + sum(times(self.loops[op]) * self.work(op.blocks[0], times) for op in inside)

    def _own(self, block: Block) -> tuple[float, list[Op]]:
        """What does not depend on rounds, and the loops that do."""
        if block not in self.own:
            inside = [op for op in block.ops if op in self.loops]
            plain = [op for op in block.ops if op not in self.loops]
            deeper = [self._own(inner) for op in plain for inner in op.blocks if "combines" not in op.row.traits]
            self.own[block] = (sum(map(self._cycles, plain)) + sum(own for own, _ in deeper),
                               [*inside, *(op for _, loops in deeper for op in loops)])
        return self.own[block]

    def _cycles(self, op: Op) -> float:
        tiles = [value.type for value in (*op.results, *op.operands) if isinstance(value, Value) and isinstance(value.type, Tensor)]
        if not tiles:
            return 0.0
        if "dot" in op.row.traits and op.results:
            return prod(op.results[0].type.shape) * op.a.type.shape[-1] / self.costs[f"tensor.macs_{op.a.type.element.bits}"]
        return max(tile.numel for tile in tiles) / self.costs["rate.float"]
