"""Which launches a proof compares: as many trips as break rings, a few programs of each, and tiles that programs take in turn.

Input: a `Written` kernel. Output: pairs of a launch of the plain kernel and one of the kernel in place of it. For example:

    launches(one)       [[Pair({"K": 0}, (64, ), first and last programs, the same)], [Pair({"K": 64}, ..)], ..]

A kernel whose programs take tiles in turn is compared with a program a tile, so that the same few tiles of a large grid are
computed by both; and over a few tiles with two programs, each of which then has two tiles or more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice, product
from math import prod
from typing import Any

import numpy as np

from ...runtime.simulate import Launch
from ..trials import trials
from .loaded import data_decide, shorter, spread
from .tiles import columns_of, few_tiles, programs_of_few, slots, tiles_of
from .written import Written, written

PROGRAMS = 4        # of a grid that are compared, from its beginning, besides the last one


@dataclass(frozen=True)
class Pair:
    """A launch of the plain kernel over `grid`, of which `programs` run, and one of the kernel in place of it, of which `ours` run;
    () for all. `most` programs take the tiles in turn, None where each has one. `instead` of a launch that is only compared in
    place of smaller ones."""

    sizes: dict[str, int]
    grid: tuple[int, ...]
    programs: tuple
    ours: tuple
    most: int | None = None
    instead: bool = False

    @property
    def has_several(self) -> bool:
        """True if programs have several tiles each."""
        return self.most is not None and self.most < prod(self.grid)


def launches(one: Written) -> tuple[list[list[Pair]], str]:
    """The launches to be compared, each with others to be taken in place of it if the plain kernel is not made for it; and which
    ones there are not."""
    launch = one.launch()
    found, why = trials(launch)
    if one.plan.together > 1:       # trips one by one as well: groups of them, and what is left
        alone = written(one.plain, replace(one.plan, together=1))
        found += [trial for trial in trials(alone.launch())[0] if trial.sizes not in [other.sizes for other in found]] \
            if alone.kernel is not None else []
    parameters = set(one.plain.parameters)
    by_data = data_decide(one)
    listed = [({}, launch.grid, False)] if _is_short(launch) else []
    listed += [(dict(trial.sizes), trial.launch.grid, False) for trial in found if parameters.issuperset(trial.sizes)]
    if fewer := shorter(one, slots(one)) if by_data else []:
        listed += [(sizes, launch.grid, False) for sizes in fewer]
        why = ""
    listed.append(({}, launch.grid, True))
    if one.is_persistent:
        every = {(*sizes.items(), instead): (sizes, instead) for sizes, _, instead in listed}.values()
        return [pairs for sizes, instead in every for pairs in _in_turn(one, sizes, instead)], why
    return [[Pair(sizes, tuple(grid), some := spread(grid, slots(one) + 2) if by_data and programs_of(launch, grid) else
                  programs_of(launch, grid), some, None, instead)]
            for sizes, grid, instead in listed], why


def _in_turn(one: Written, sizes: dict[str, int], instead: bool) -> list[list[Pair]]:
    """A program a tile, the same ones as of the plain kernel; and few programs with several tiles each, along all axes or one."""
    grid = tuple(map(int, one.plain.launch.grid))
    columns = columns_of(one.tiles.program, one.tiles.columns, one.plain.launch, sizes)
    some = programs_of(one.plain.launch, grid)
    corners = one.tiles.order.corners(grid, columns) if some else ()
    along = (tuple(extent if at == axis else 1 for at, extent in enumerate(grid)) for axis in range(len(grid)))
    few = few_tiles(one, grid)
    fewer = dict.fromkeys(((few, programs_of_few(few, one.tiles_each)), *(
        tiles_of(part, each=one.tiles_each) for part in (grid, *along))))
    several = [Pair(sizes, few, (), (), most, instead) for few, most in fewer if prod(few) > 1]
    if one.tiles.columns is not None and columns is None:       # of no columns there is no tile to be compared by itself
        return [several] if several else []
    whole = [Pair(sizes, grid, places, tuple((one.tiles.order.number(place, grid, columns), 0, 0) for place in places), prod(grid),
                  instead) for places in dict.fromkeys((tuple(dict.fromkeys(some + corners)), some))]
    return [whole, several][:1 + (prod(grid) > 1)]      # ends of bands as well, where these sizes let their tiles not overlap


def have_several(line: Mapping[str, Any], several: int = 2) -> bool:
    """True of a line of the certificate in which a program has several tiles."""
    return 0 < line.get("most", 0) * (several - 1) < prod(line["grid"])


def _is_short(launch: Launch) -> bool:
    """True of a launch that is as small as its trials: some thousand steps."""
    return all(abs(int(value)) <= 1024 for value in launch.values.values() if isinstance(value, (int, np.integer)))


def programs_of(launch: Launch, grid: tuple[int, ...]) -> tuple[tuple[int, int, int], ...]:
    """The first programs of a grid and the last one; () for all, where programs may wait for each other."""
    if launch.program.cooperative or any("atomic" in op.row.traits for op in launch.program.walk()):
        return ()
    x, y, z = (*grid, 1, 1)[:3]
    first = [(i, j, k) for k, j, i in islice(product(range(z), range(y), range(x)), PROGRAMS)]
    return tuple(dict.fromkeys((*first, (x - 1, y - 1, z - 1))))
