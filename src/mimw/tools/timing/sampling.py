"""Programs that stand for all of a grid: which of them are simulated, and how long the others take.

Input: the clusters of a launch in the order in which they start, and how much work each has. Output: a `Sample`. For example, of a
causal grid, where the program with the last rows has 32 times the work of the one with the first:

    works = works_of(program, costs, values, grid, order)       [1250.0, 1760.0, ...] cycles of an SM's units, None if all are alike
    sample = stratified(order, works, groups, slots, count)     one of each eighth of the programs, by work
    sample.of_others(end, alone)                                what the launch takes

Programs that differ in work by loops whose bounds follow from the program's number are told apart (`analysis.trips`). The GPU
starts the next cluster wherever one has ended, so an SM's share is what falls to it if each goes to the first that is free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from heapq import heapify, heappop, heappush
from math import prod
from types import MappingProxyType

from ...compiler.analysis import uses_of
from ...compiler.analysis.flows import Flows
from ...compiler.analysis.trips import Loop, Numbers, axes_of_lengths, known_loops
from ...ir import Block, Op, Program, Tensor, Value
from ...ir.flow import induction
from ...simulator.costs import Model

MOST_CLUSTERS = 1 << 14     # of a grid whose work is looked at
ROUNDS, OF_OTHERS = 3, 5    # of what an SM holds at once: simulated at least, if there are so many; of programs that differ
MOST_TILES = 1 << 8         # that a program takes in turn, of which each is looked at
HALVINGS = 20               # of the range of how many clusters an SM runs as fast as one
ALIKE = 0.02                # works that differ by less are one
NONE: Mapping[Value, int] = MappingProxyType({})
_START = 1000.0             # cycles of a program without its loops' work: to start, to load its first tile, to store its last one


@dataclass(frozen=True)
class Sample:
    """`chosen` clusters that are simulated in that order on one SM, `slots` at a time, and how many there are for an SM. Of
    clusters that differ, the `works` of these and of `all` of the launch, which `groups` SMs run."""

    chosen: list
    number: int
    slots: int
    works: Sequence[float] = ()
    all: Sequence[float] = ()
    groups: int = 1

    @property
    def differs(self) -> bool:
        """True if what the chosen ones take says what others take by their work."""
        return len(self.all) > self.groups * self.slots

    def of_alike(self, end: float, ends: Sequence[float], busy: float) -> float:
        """The time of the SM for all, if the chosen ones end at `ends`, all that they have stored has left at `end`, and the unit
        with the most to do worked for `busy`. Those behind the first ones, when the SM is full, say what one more takes; less than
        the busiest unit's time it is not."""
        count = len(self.chosen)
        if count == self.number or self.works:
            return end                  # of clusters that all start together the one with the most work is among the chosen
        ends, left, later = sorted(ends), self.number - count, count - self.slots
        if later <= 0 or len(ends) < count:     # or running clusters have taken over the work of others
            return end * self.number / count
        return end + left * max((ends[-1] - ends[self.slots - 1]) / later, busy / len(ends))

    def of_others(self, end: float, alone: Sequence[float]) -> float:
        """The time of the launch, if the chosen ones end at `end` and each would take so long with the SM to itself: others take so
        long, and so much longer for more work. How many the SM runs as fast as one alone follows from `end`."""
        slope, start = _line(self.works, alone)
        times, low, high = [start + slope * work for work in self.works], 1.0, float(self.slots)
        for _ in range(HALVINGS):
            at_once = (low + high) / 2
            late = last_end(times, 1, self.slots, at_once) > end
            low, high = (at_once, high) if late else (low, at_once)
        return last_end([start + slope * work for work in self.all], self.groups, self.slots, high) / \
            last_end(times, 1, self.slots, high) * end


def _line(works: Sequence[float], times: Sequence[float]) -> tuple[float, float]:
    """(slope, start) of the line through times by work, by least squares; neither is negative."""
    mean, middle = sum(works) / len(works), sum(times) / len(times)
    spread = sum((work - mean) ** 2 for work in works)
    slope = sum((work - mean) * time for work, time in zip(works, times)) / spread if spread else 0.0
    slope = min(max(0.0, slope), middle / mean)
    return slope, middle - slope * mean


def works_of(program: Program, costs: Model, values: Mapping[Value, int], grid, order: Sequence[list]) -> list[float] | None:
    """The work of each cluster by the rounds of its loops; None if it is the same, as far as programs' numbers and arguments say,
    and of grids so large that their programs even out."""
    loops = {loop.op: loop for loop in known_loops(program)}
    if not any(loop.by_program for loop in loops.values()) or len(order) > MOST_CLUSTERS:
        return None
    known = {value: int(number) for value, number in values.items() if isinstance(number, int) or hasattr(number, "__index__")}
    body, axes = _Body(program, costs, loops, known, grid), sorted(program.kept(axes_of_lengths))

    @cache
    def work(*places: int) -> float:
        index = [0, 0, 0]
        for axis, place in zip(axes, places):
            index[axis] = place
        return _START + body.work(program.body, body.numbers(index))

    found = [sum(work(*(index[axis] for axis in axes)) for index in cluster) for cluster in order]
    return None if max(found) - min(found) <= ALIKE * max(found) else found


def even(order: Sequence[list], groups: int, slots: int, most: int) -> Sample:
    """Of clusters that are alike those of the first SM, at most so many of them, spread evenly."""
    mine = order[::groups]
    count = min(len(mine), max(most, ROUNDS * slots))
    return Sample([mine[round(i * (len(mine) - 1) / max(1, count - 1))] for i in range(count)], len(mine), slots)


def stratified(order: Sequence[list], works: Sequence[float], groups: int, slots: int, most: int) -> Sample:
    """Of clusters that differ the middle one of each of so many equal parts, by work. Where all start at once, the launch lasts as
    long as the one with the most."""
    by_work, number = sorted(range(len(order)), key=works.__getitem__), -(-len(order) // groups)
    count = min(number, max(most, OF_OTHERS * slots))
    picked = {by_work[int((i + 0.5) * len(order) / count)] for i in range(count)}
    if len(order) <= groups * slots:
        picked = {by_work[-1], *sorted(picked, key=works.__getitem__)[:slots - 1]}
    picked = sorted(picked)
    return Sample([order[one] for one in picked], number, slots, [works[one] for one in picked], works, groups)


def last_end(times: Sequence[float], sms: int, slots: int, at_once: float) -> float:
    """The end of the last of clusters that would take so long alone. They start in this order, each where one has ended; an SM runs
    so many `at_once` as fast as one, and more of them share that."""
    left: list[list[float]] = [[] for _ in range(min(sms, len(times)))]
    waiting, seen = iter(times), [0.0] * len(left)
    for number, time in zip(range(len(left) * slots), waiting):
        left[number % len(left)].append(time)

    def next_end(sm: int) -> tuple[float, int]:
        return seen[sm] + min(left[sm]) * max(1.0, len(left[sm]) / at_once), sm

    events = [next_end(sm) for sm in range(len(left))]
    heapify(events)
    now = 0.0
    while events:
        now, sm = heappop(events)
        done = min(left[sm])
        left[sm] = [time - done for time in left[sm]]
        left[sm].remove(0.0)
        left[sm] += [time for _, time in zip(range(1), waiting)]
        seen[sm] = now
        if left[sm]:
            heappush(events, next_end(sm))
    return now


class _Body:
    """The work of blocks, in cycles of an SM whose units work one after the other."""

    def __init__(self, program: Program, costs: Model, loops: Mapping[Op, Loop], known: Mapping[Value, int], grid):
        self.costs, self.loops, self.known, self.grid = costs, loops, known, grid
        self.uses, self.flows = uses_of(program), program.kept(Flows)
        self.own: dict[Block, tuple[float, list[Op]]] = {}
        self.counted: dict[Op, bool] = {}

    def work(self, block: Block, numbers: Numbers) -> float:
        """The work of a block in a program whose scalars have these values."""
        own, inside = self._own(block)
        return own + sum(self._loop(op, numbers) for op in inside)

    def _loop(self, op: Op, numbers: Numbers) -> float:
        body, times = op.blocks[0], max(0, numbers.rounds(self.loops[op]) or 0)
        if times > MOST_TILES or not self._counts_rounds(op):
            return times * self.work(body, numbers)
        start, step = map(numbers.of, (op.start, op.step))
        return sum(self.work(body, self.numbers(numbers.index, {induction(op): start + step * trip})) for trip in range(times))

    def numbers(self, index, counter: Mapping[Value, int] = NONE) -> Numbers:
        """The scalars of a program, in that round of a loop which its counter says."""
        return Numbers(self.uses, {**self.known, **counter}, self.grid, index)

    def _counts_rounds(self, op: Op) -> bool:
        """True if the loop's counter says how often loops in it go round: that of tiles that a program takes in turn."""
        if op not in self.counted:
            inner = self._own(op.blocks[0])[1] if self.loops[op].by_grid else []
            reached = self.flows.reached({induction(op)}) if inner else set()
            self.counted[op] = any(not reached.isdisjoint((one.start, one.end)) for one in inner)
        return self.counted[op]

    def _own(self, block: Block) -> tuple[float, list[Op]]:
        """The work that does not depend on rounds, and the loops that do."""
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
