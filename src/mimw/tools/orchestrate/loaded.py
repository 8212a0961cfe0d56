"""Loops that go round as often as loaded numbers say: which arrays those are, and launches with smaller numbers in them.

Input: a `Written` kernel. Output: changes of its arguments for a proof, and how often loops went round in a run. For example, of
`for k in range(0, tl.load(lengths + batch), 128)`:

    deciding(program)                       {"lengths"}
    shorter(one, 3)                         [{"lengths": 0}, {"lengths": 128}, {"lengths": 256}, ..]: no number above that
    changed(arguments, {"lengths": 128})    copies of the arguments, with lengths of at most 128
    rounds = Rounds(); run(.., hooks=Hooks(observer=rounds)); rounds.most       {(0, 0, 2): 3}

Arguments that bound loops `tools/trials.py` changes. What is in an array only a run shows, so rounds are counted there: those of
each wait for a pipe's chunk. Smaller numbers are others of the same kind, as of shorter sequences: a launch at which the plain
kernel fails is not compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import islice, product
from math import inf
from typing import Any

import numpy as np

from ...compiler.analysis.uses import uses_of
from ...compiler.analysis.written import accessed, parameters_behind
from ...ir import Op, Program, Value
from ...ir.flow import all_carries, terminator
from ...runtime.host import HostArray, is_array
from ...simulator import Hooks, run
from ..search.protocol import TileData
from ..trials import most_rounds
from .inputs import copies
from .tiles import each_alone, slots

FIRST = 4       # programs from the beginning of a grid that are looked at


class _Enough(Exception):
    """A wait has come more often than it was asked about."""


class Rounds:
    """Counts how often tasks wait for chunks, as an observer of a run, which ends once a wait has come more often than `up_to`."""

    def __init__(self, up_to: float = inf):
        self.counts: Counter = Counter()
        self.up_to = up_to

    def does(self, task: Any, op: Op) -> None:
        if op.name == "barrier_wait" and op.attrs.get("method") == "wait":
            self.counts[task.cta.index, op] += 1
            if self.counts[task.cta.index, op] > self.up_to:
                raise _Enough

    def waits(self, task: Any, wait: Any) -> None: ...

    def lands(self, operation: Any) -> None: ...

    def completes(self, barrier: Any, task: Any, op: Op) -> None: ...

    @property
    def most(self) -> dict[tuple[int, ...], int]:
        """By program: how often the wait that came most often did."""
        found: dict[tuple[int, ...], int] = {}
        for (index, _), count in self.counts.items():
            found[index] = max(count, found.get(index, 0))
        return found


def data_decide(one: Any) -> bool:
    """True if it is not known without a run how often the loops of a `Written` go round."""
    return most_rounds(each_alone(one)) is None


def deciding(program: Program) -> set[str]:
    """The parameters from whose arrays the bounds of loops are loaded."""
    uses, found, seen, sources = uses_of(program), set(), set(), {}
    for carry in all_carries(program):
        sources.setdefault(carry.target, []).append(carry.source)
    todo: list[Value] = []
    for loop in program.where(lambda row: "loop" in row.traits):
        todo += [loop.start, loop.end, loop.step] if loop.name == "for" else [terminator(loop.blocks[0]).condition]
    while todo:
        value = todo.pop()
        if value in seen:
            continue
        seen.add(value)
        op = uses.definition.get(value)
        todo += sources.get(value, ())
        if op is not None and op.row.loads:
            for address in accessed(op, "read"):
                found |= parameters_behind(program, address) or set()
        elif op is not None and not op.blocks:
            todo += op.operands
    return found


def spread(grid: tuple[int, ...], along: int) -> tuple[tuple[int, int, int], ...]:
    """Programs of a grid: the first ones, some along each axis, and the last one: what they do may depend on each of their
    numbers."""
    x, y, z = (*map(int, grid), 1, 1)[:3]
    first = [(i, j, k) for k, j, i in islice(product(range(z), range(y), range(x)), FIRST)]
    lines = [tuple(place if axis == at else 0 for at in range(3)) for axis, extent in enumerate((x, y, z))
             for place in range(min(extent, along))]
    return tuple(dict.fromkeys((*first, *lines, (x - 1, y - 1, z - 1))))


def most_counted(one: Any, up_to: float = inf) -> int:
    """The most rounds of a loop of a `Written` at its own launch, in the programs of `spread`; counted in a run on copies of its
    arrays, without arithmetic on tiles. With `up_to` the number right above it stands for all that are: long loops of large arrays
    take seconds, and whether they fill a pipe shows at once."""
    # Nothing is computed of floats, and random numbers for gigabytes take seconds.
    of_zeros = one.plain.with_values(copies(one.plain.arguments, drawn=False), drawn=False)
    launch, rounds = each_alone(replace(one, plain=of_zeros)), Rounds(up_to)
    some = tuple((index, ) for index in spread(launch.grid, slots(one) + 2))
    with suppress(_Enough):
        run(launch.program, launch.grid, launch.values, memory=launch.memory,
            hooks=Hooks(clusters=some, skipped=TileData(launch), observer=rounds))
    return max(rounds.most.values(), default=0)


def shorter(one: Any, depth: int) -> list[dict[str, int]]:
    """Most values of the numbers in arrays that decide how often loops go round, so that they do about as often as break pipes of
    so many slots; none if the launch itself does not fill them."""
    full, found = most_counted(one), []
    for name in sorted(deciding(one.plain.program)) if full > depth else ():
        array = _numbers(one.plain.arguments.get(name))
        high = 0 if array is None or not array.size else int(array.max())
        caps = [-(-high * count // full) for count in sorted({0, 1, 2, depth - 1, depth, depth + 1}) if count <= full]
        ragged = [caps[2] - 3] if len(caps) > 2 else []
        found += [{name: cap} for cap in dict.fromkeys((*caps, *ragged)) if 0 <= cap < high]
    return found


def changed(arguments: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, Any]:
    """Copies of the arguments with other numbers: of an argument that is an array none is above the size."""
    made = copies(arguments)
    for name, size in sizes.items():
        array = _numbers(made[name])
        if array is None:
            made[name] = size
        else:
            np.minimum(array, size, out=array)
    return made


def _numbers(value: Any) -> np.ndarray | None:
    """The array of an argument that is one of integers; None for others."""
    if not is_array(value):
        return None
    array = np.asarray(value.array if isinstance(value, HostArray) else value)
    return array if array.dtype.kind in "iu" else None
