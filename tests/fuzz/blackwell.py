"""Families of programs for sm_100a: tensor memory and its products, rows picked by TMA, work that CTAs take over from others.

They are drawn by name, or by `python -m tests.fuzz --family blackwell`; the seeds of the other families stay what they were.

    program_of(3, "tensor")[0].chip         # "sm_100a"
"""

from __future__ import annotations

from collections.abc import Callable

from .blocks import block
from .draws import Draws
from .families import STREAM, carried_block, segment, start
from .maker import Limits
from .pipelines import drawn, pipeline

CHIP = "sm_100a"
BLACKWELL: dict[str, tuple[float, Callable]] = {}
TILES = ((128, 32), (64, 32), (128, 16), (64, 64), (128, 64))


def family(weight: float):
    """Register the decorated function, as `families.family` does."""

    def register(function: Callable) -> Callable:
        BLACKWELL[function.__name__] = weight, function
        return function

    return register


def begin(draws: Draws, limits: Limits, grids=((1,), (2,), (3,))):
    """A maker for the chip; no such chip is there to launch on."""
    make, grid = start(draws, limits, grids)
    make.chip = CHIP
    make.skips["gpu"] = "no chip with tensor memory is at hand"
    return make, grid


@family(3)
def tensor(draws: Draws):
    """Arrays in tensor memory, their parts, views and aliases, and products into them; in loops, branches and tasks."""
    limits = Limits(
        {"tensor": 5, "products": 4, "tiles": 2, "shared": 0.5, "stores": 1, "barriers": 0.5, "sums": 0.3, "dots": 0.3},
        statements=(2, 6),
        depth=2,
        flavour="tlx",
        elements=("f32", "f16", "i32", "bf16"),
        shapes=TILES,
        trips=(0, 4),
    )
    make, grid = begin(draws, limits)
    return make, grid, [segment(make, lambda: block(make, 2))], draws.pick([0, 2, 3]), False


@family(1)
def rows(draws: Draws):
    """Rows gathered and scattered by TMA, beside everything else; on both chips that have the words."""
    limits = Limits({**STREAM, "rows": 14, "pointers": 0, "tle_tiles": 0}, statements=(2, 6), depth=2, trips=(0, 4))
    make, grid = begin(draws, limits)
    if draws.chance(50):
        make.chip = "sm_90a"
        del make.skips["gpu"]
    return make, grid, [segment(make, lambda: block(make, 2))], draws.pick([0, 0, 2, 3]), False


@family(1)
def taken(draws: Draws):
    """The programs of `stream`, by CTAs that take over those which have not started."""
    limits = Limits({**STREAM, "tensor": 1, "products": 1}, trips=(0, 4), shape_count=3)
    make, grid = begin(draws, limits, grids=((3,), (5,), (6,)))
    make.claims = "claims"
    return make, grid, [segment(make, lambda: carried_block(make))], draws.pick([0, 2, 3]), False


@family(3)
def accumulators(draws: Draws):
    """Load, multiply, read: rings of operands in shared memory and of sums in tensor memory, between tasks of one CTA."""
    return _woven(draws, paired=False, claiming=False)


@family(2)
def pairs(draws: Draws):
    """The same on pairs of CTAs, one of which issues the products of both."""
    return _woven(draws, paired=True, claiming=False)


@family(1.5)
def claimed(draws: Draws):
    """The same, of CTAs or pairs that take over the work of those that have not started."""
    return _woven(draws, paired=draws.chance(30), claiming=True)


def _woven(draws: Draws, paired: bool, claiming: bool):
    plan = drawn(draws, paired, claiming)
    cluster = draws.pick([2, 2, 4]) if paired else 1
    make, _ = begin(draws, Limits({}), grids=((plan.groups * cluster,),))
    make.cluster = cluster
    return pipeline(draws, make, plan)
