"""Few tiles of a grid, for a kernel whose programs take tiles in turn: what a proof runs, and what its pipes are sized by.

Input: a plain kernel's grid. Output: a part of it. For example:

    tiles_of((64, 32), 5)       ((2, 2), 2): two by two tiles, and two programs, of which each has two
    few_tiles(one, (64, 32))    (8, 1): of causal attention, the first block of rows with more keys than a pipe has slots, and
                                those in front of it
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from ...compiler.analysis import loops_of, rounds
from ...compiler.analysis.trips import axes_of_lengths, number
from ...ir import Program, Value
from ...runtime.simulate import Launch
from ..trials import rounds_by_program

NONE: Mapping[str, int] = MappingProxyType({})
TILES = 5           # that two programs take in turn, where programs do
WIDEST = 16         # tiles along an axis that says how long loops are


def tiles_of(grid: tuple[int, ...], tiles: int = TILES, each: int = 2) -> tuple[tuple[int, ...], int]:
    """A part of a grid of at most so many tiles, with two or more along each axis if it can; and how many programs, two at most,
    have `each` so many tiles."""
    x, y, z = (*map(int, grid), 1, 1)[:3]
    first = min(x, tiles if y * z == 1 else 2)
    second = min(y, tiles // first if z == 1 else max(1, tiles // first // 2))
    few = first, second, min(z, max(1, tiles // (first * second)))
    return few[:len(grid)], programs_of_few(few, each)


def programs_of_few(few: tuple[int, ...], each: int = 2) -> int:
    """The programs, two at most, that have `each` so many of these tiles."""
    return max(1, min(2, prod(few) // each))


def each_alone(one: Any) -> Launch:
    """The launch of a `Written` kernel in which programs have one tile each, at most a few of them where programs take tiles in
    turn: the rounds of its loops are those of the tiles."""
    if not one.is_persistent:
        return one.launch()
    few = few_tiles(one, one.plain.launch.grid)
    return one.launch(None, few, prod(few))


def few_tiles(one: Any, grid: tuple[int, ...], tiles: int = TILES) -> tuple[int, ...]:
    """A part of the grid of a `Written` whose programs take tiles in turn. Where one axis of the grid says how often loops go
    round, as in causal attention, the part lies along that axis, up to a tile whose loops fill the deepest pipe."""
    axes = one.plain.program.kept(axes_of_lengths)
    if len(axes) != 1 or (axis := min(axes)) >= len(grid):
        return tiles_of(grid, tiles)[0]

    def part(count: int) -> tuple[int, ...]:
        return tuple(min(extent, count) if at == axis else 1 for at, extent in enumerate(map(int, grid)))

    return part(max(tiles, min(one.short_tiles + 1, WIDEST)))


def short_tiles(one: Any) -> int:
    """Of the first tiles along the axis that says how long loops are, those whose loops do not fill the deepest pipe."""
    axis, = one.plain.program.kept(axes_of_lengths)
    few = tuple(min(extent, WIDEST) if at == axis else 1 for at, extent in enumerate(map(int, one.plain.launch.grid)))
    every = rounds_by_program(one.launch(None, few, prod(few))) or []
    return sum(rounds * one.plan.together <= slots(one) for rounds in every)


def slots(one: Any) -> int:
    """The slots of the deepest pipe of a `Written` that goes round."""
    return max((ring.stages for ring in one.made.rings.roots if not ring.once), default=0)


def tiles_taken(launch: Launch) -> int:
    """The number of tiles that the first program of a launch takes in turn, 0 where that is not known: the rounds of a loop whose
    bounds follow from the program's number and from how many there are."""
    program = launch.program
    values = _numbers(program, launch.values)
    loops = [loop for loop in loops_of(program) if loop.by_program and loop.by_grid]
    found = [rounds(program, loop, values, launch.grid, (0, 0, 0)) for loop in loops]
    return max((count or 0 for count in found), default=0)


def columns_of(program: Program, columns: Value | None, launch: Launch, sizes: Mapping[str, int] = NONE) -> int | None:
    """The tiles of a row in a launch with these sizes, where the kernel itself makes rows of its number along x (`row_of_tiles`);
    None elsewhere, and where that is no number above 0."""
    if columns is None:
        return None
    values = _numbers(program, launch.values)
    values |= {param.value: sizes[param.name] for param in program.params if param.name in sizes}
    found = number(program, columns, values, launch.grid)
    return found if found and found > 0 else None


def _numbers(program: Program, values: Mapping[Any, Any]) -> dict[Value, int]:
    """The parameters that are numbers in a launch with these values."""
    given = {param.value: values.get(param.path) for param in program.params}
    return {name: int(value) for name, value in given.items()
            if isinstance(value, (int, np.integer)) and not isinstance(value, bool)}
