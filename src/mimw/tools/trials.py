"""The smaller launches that `mimw.check` also runs: as many rounds of each loop as break rings, and two tiles a program.

    gemm with K=1024, BK=64, four slots      0, 1, 2, 3, 4 and 5 rounds: K=0, 64, 128, 192, 256 and 320
    a persistent kernel with a tile each     half the grid, so that each program has two

Input: a launch made ready. Output: `Trial`s, each the same launch with other integer arguments or a smaller grid, and why others
were left out. Only arguments that bound loops are changed, only to smaller values, and not where others look tied to them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from math import isqrt

import numpy as np

from ..compiler.analysis import Loop, Uses, loops_of, rounds
from ..errors import BarrierMisuse, DataRace, Deadlock, Livelock, MimwError, PeerExited
from ..ir import Op, Task, Value
from ..ir.world import World
from ..runtime.simulate import Launch

MOST = 16           # trials of one launch
FEW = 6             # clusters of a launch in which they take over each other's work
_PROGRAMS = 256     # programs whose rounds are looked at


@dataclass(frozen=True)
class Trial:
    """One smaller launch. `rounds` says how often which loops go round in its first program, by source position; `sizes` are the
    arguments that differ, by name; `each` has by program id the rounds of all loops, of the first programs."""

    launch: Launch
    rounds: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    tiles: int = 0          # rounds of the loops over tiles, if the grid was made smaller for them
    each: dict[tuple[int, ...], tuple[int | None, ...]] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        sizes = [f"{name}={value}" for name, value in self.sizes.items()]
        if self.tiles:
            return ", ".join([f"{self.tiles} tiles a program", f"grid={self.launch.grid}", *sizes])
        counts = sorted(set(self.rounds.values()))
        return f"{' and '.join(map(str, counts))} round{'s' if counts != [1] else ''} ({', '.join(sizes)})"


def is_about_the_protocol(error: MimwError) -> bool:
    """True if an error at other sizes is one of the kernel's waits and arrivals. Others, such as an address outside an array, a
    race in global memory or an assertion, say that the kernel is not made for these sizes."""
    if isinstance(error, DataRace):
        return error.space != "global"
    return isinstance(error, (Deadlock, BarrierMisuse, PeerExited)) and not isinstance(error, Livelock)


def trials(launch: Launch) -> tuple[list[Trial], str]:
    """The trials of a launch; and, if there are none or some were left out, why."""
    return _Trials(launch).all()


def most_rounds(launch: Launch) -> int | None:
    """How often the loop of a launch goes round that does so most, in its first programs, of those that wait or start anything;
    None where that is not known."""
    found = rounds_by_program(launch)
    return max(found) if found else None


def rounds_by_program(launch: Launch) -> list[int] | None:
    """The same of each of the first programs, in the order in which they are started."""
    given = _Trials(launch).given
    return None if not given or any(None in counts for counts in given) else [max(counts) for counts in zip(*given)]


class _Trials:

    def __init__(self, launch: Launch):
        self.launch, self.program, self.uses = launch, launch.program, Uses(launch.program)
        self.loops = loops_of(self.program)
        self.params = {param.value: param for param in self.program.params if _is_count(launch.values.get(param.path))}
        self.values = {value: int(launch.values[param.path]) for value, param in self.params.items()}
        self.values |= {param.value: launch.gpus for param in self.program.params
                        if isinstance(launch.values.get(param.path), World)}       # no sizes: as many GPUs as ever
        self.given = self._rounds(self.values, launch.grid)
        self.refused: list[str] = []

    def all(self) -> tuple[list[Trial], str]:
        if not self.loops:
            return [], ("the seeds decide how many tiles a program has" if self._asks() else "no loop waits or starts anything")
        unknown = [loop.op.site for loop in self.loops if not loop.known]
        if unknown:
            return [], f"loaded values, or another loop, decide how many iterations the loop at {unknown[0]} has"
        found = list(self._by_rounds())
        found += self._by_tiles(found)
        if not found:
            why = "the compiler knows the iterations of each loop" if not any(
                loop.parameters & self.params.keys() for loop in self.loops) else "no argument may be smaller"
        else:
            why = ""
        if self.refused:
            why = f"{', '.join(self.refused)} would not fit all loops"
        return found[:MOST], why

    # ---- rounds -----------------------------------------------------------------------------------------------------

    def _by_rounds(self) -> Iterator[Trial]:
        grid = self._fewest_programs()
        wanted: dict[Value, set[int]] = {}
        for parameter in self.params:
            for loop, given in zip(self.loops, self.given):
                if parameter not in loop.parameters or loop.by_program or given[0] is None:
                    continue
                for count in sorted(count for count in _breaking(loop, self.uses) if count < given[0]):
                    value = self._value_for(loop, parameter, count)
                    if value is not None:
                        wanted.setdefault(parameter, set()).add(value)
        for parameter, sizes in wanted.items():
            for size in sorted(sizes):
                values = {**self.values, parameter: size}
                after = self._rounds(values, self.launch.grid)
                if self._is_free(parameter, after):
                    yield self._trial(values, grid, after)
                else:
                    self.refused.append(f"{self.params[parameter].name}={size}")

    def _value_for(self, loop: Loop, parameter: Value, count: int) -> int | None:
        """A smaller value of the parameter with which the loop goes round `count` times: in proportion to the value given, or the
        one that shares most with it, since these fit the kernel's tiles."""
        given = self.values[parameter]

        def goes(value: int) -> int:
            found = rounds(self.program, loop, {**self.values, parameter: value}, self.launch.grid, (0, 0, 0), self.uses)
            return -1 if found is None else max(0, found)

        def first(wanted: int) -> int:
            """The smallest value with at least so many rounds."""
            low, high = 0, given
            while low < high:
                middle = (low + high) // 2
                low, high = (low, middle) if goes(middle) >= wanted else (middle + 1, high)
            return low

        low, high = first(count), first(count + 1) - 1
        even = given // goes(given) * count if goes(given) > 0 else low
        fits = [even, *(-(-low // part) * part for part in _divisors(given)), low]
        value = next(value for value in fits if low <= value <= high or value == low)
        return value if value < given and goes(value) == count else None

    def _is_free(self, parameter: Value, after: list[tuple[int | None, ...]]) -> bool:
        """True if the parameter can mean something else alone: every task that uses a barrier in a loop of its depends on it, or
        none; no program is left without a tile that had one, and no loop would go round less often than never, or than there are
        rounds whose copies are started before it."""
        for loop, old, new in zip(self.loops, self.given, after):
            if any((before or 0) > 0 >= (now or 0) if loop.by_program else (now or 0) < min(loop.ahead, before or 0)
                   for before, now in zip(old, new)):
                return False
        for array in frozenset().union(*(loop.arrays for loop in self.loops)):
            users: dict[Task | None, bool] = {}
            for loop in self.loops:
                if array in loop.arrays:
                    task = self.uses.task(loop.op)
                    users[task] = users.get(task, False) or parameter in self._arguments(loop)
            if len(set(users.values())) > 1:
                return False
        return self._clusters_agree(after)

    def _arguments(self, loop: Loop) -> frozenset[Value]:
        """The parameters that decide how often the loop's body runs."""
        return frozenset().union(*(other.parameters for other in self.loops if other.op in (*loop.around, loop.op)))

    def _clusters_agree(self, after: list[tuple[int | None, ...]]) -> bool:
        """CTAs of a cluster that went round equally often still do."""
        size = self.program.cluster_size
        groups = [slice(first, first + size) for first in range(0, len(after[0]), size)] if size > 1 and after else []
        return all(len(set(new[group])) <= len(set(old[group])) for old, new in zip(self.given, after) for group in groups)

    # ---- tiles ------------------------------------------------------------------------------------------------------

    def _by_tiles(self, found: list[Trial]) -> list[Trial]:
        """Trials on a smaller grid, where programs share the tiles of the launch out among themselves and have one each."""
        shared = [index for index, loop in enumerate(self.loops) if loop.by_grid and loop.by_program]
        grid = self.launch.grid
        if not shared or self._talks() or any(extent > 1 for extent in grid[1:]) or self.given[shared[0]][0] != 1:
            return []
        step = self.program.cluster[0]

        def tiles(clusters: int) -> int:
            """Of the first program, on so many clusters."""
            return rounds(self.program, self.loops[shared[0]], self.values, (clusters * step, 1, 1), (0, 0, 0), self.uses) or 0

        low, high = 0, (grid[0] - 1) // step      # the most clusters with two tiles a program
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if tiles(middle) >= 2 else (low, middle - 1)
        smaller = (low * step, *grid[1:])
        after = self._rounds(self.values, smaller) if low else []
        if not low or any(after[index][0] != 2 or min(after[index]) < 1 for index in shared):
            return []
        inner = [trial for trial in found if trial.sizes and max(trial.rounds.values()) > 0]
        some = [self._values_of(inner[index]) for index in dict.fromkeys((0, len(inner) - 1))] if inner else [self.values]
        return [replace(self._trial(values, smaller, self._rounds(values, smaller)), tiles=2) for values in some]

    def _values_of(self, trial: Trial) -> dict[Value, int]:
        return {**self.values, **{value: int(trial.launch.values[param.path]) for value, param in self.params.items()}}

    # ---- launches ---------------------------------------------------------------------------------------------------

    def _rounds(self, values: dict[Value, int], grid) -> list[tuple[int | None, ...]]:
        """For each loop its rounds in the first programs of the launch."""
        every = _first_programs(grid) or [(0, 0, 0)]
        return [tuple(rounds(self.program, loop, values, grid, index, self.uses) for index in every) if loop.by_program else
                (rounds(self.program, loop, values, grid, every[0], self.uses), ) * len(every) for loop in self.loops]

    def _trial(self, values: dict[Value, int], grid, after) -> Trial:
        changed = {value: size for value, size in values.items() if size != self.values[value]}
        launch = replace(self.launch, grid=tuple(grid), values={
            **self.launch.values, **{self.params[value].path: size for value, size in changed.items()}})
        return Trial(launch, {str(loop.op.site): max(0, counts[0]) for loop, counts, old in zip(self.loops, after, self.given)
                              if counts[0] is not None and counts[0] != old[0]},
                     {self.params[value].name: size for value, size in changed.items()},
                     each=dict(zip(_first_programs(grid), zip(*after))))

    def _fewest_programs(self) -> tuple[int, ...]:
        """One cluster, if what a program does has nothing to do with the others; a few along x, if one may do the work of
        others."""
        if self._talks() or any(loop.by_grid for loop in self.loops):
            return self.launch.grid
        least = self.program.cluster
        if self._asks():
            least = (FEW * least[0], *self.launch.grid[1:])
        return tuple(min(extent, ctas) for extent, ctas in zip(self.launch.grid, least))

    def _asks(self) -> bool:
        """True if programs take over the work of others that have not started."""
        return any("steals" in op.row.traits for op in self.program.walk())

    def _talks(self) -> bool:
        """True if programs may wait for each other through global memory, or all together."""
        return self.program.cooperative or any("atomic" in op.row.traits and "pointer" in op.row.places
                                               or op.row.loads and op.is_volatile for op in self.program.walk())


def _first_programs(grid) -> list[tuple[int, int, int]]:
    """The ids of the first programs of a grid, x fastest."""
    x, y, z = (*grid, 1, 1)[:3]
    return [(*reversed(index), ) for index in islice(np.ndindex(z, y, x), _PROGRAMS)]


def _is_count(value) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_)) and value > 0


def _breaking(loop: Loop, uses: Uses) -> set[int]:
    """The numbers of rounds at which rings break: around nothing, one, and each number of slots."""
    sizes = {_count(uses.definition[array]) for array in loop.arrays}
    return {0, 1, 2} | {size + more for size in sizes for more in (-1, 0, 1)}


def _count(alloc: Op) -> int:
    return max(1, alloc.count)


def _divisors(number: int) -> Iterator[int]:
    """The divisors of a number, the largest first."""
    small = [part for part in range(1, isqrt(number) + 1) if number % part == 0]
    yield from sorted({number // part for part in small} | set(small), reverse=True)


