"""Families for AMD's chips that are made of words, with the frames of the other chips' families.

    program_of(3, "woven")[0].chip         # "gfx942"
"""

from __future__ import annotations

from ..blocks import block
from ..draws import Draws
from ..families import gemm, pipes, segment, start, stream
from ..maker import Limits, Maker
from . import CHIPS, family, onto_a_chip

BUFFERS = {"buffers": 1.5, "scheduling": 0.4, "laid_out": 0.2}


def begin(draws: Draws, limits: Limits, grids=((1,), (2,), (3,)), chips=CHIPS) -> tuple[Maker, tuple[int, ...]]:
    """A maker for one of the chips."""
    make, grid = start(draws, limits, grids)
    onto_a_chip(draws, make, chips)
    return make, grid


@family(1)
def moved(draws: Draws):
    """Blocks that the data mover loads, alone, fused and by descriptors at other places, and stores; in loops and branches."""
    limits = Limits(
        {"mover": 6, "tiles": 3, "sums": 1, "shapes": 1, "globals": 1, "stores": 1, "cp_async": 0.5},
        statements=(2, 6),
        depth=2,
        flavour="tlx",
        elements=("f32", "f16", "i32", "bf16"),
        shapes=((16, 32), (32, 64), (64, 16), (64,), (8, 128)),
        trips=(0, 4),
        portable=True,
    )
    make, grid = begin(draws, limits, chips=("gfx1250",))
    make.serial = True
    return make, grid, [segment(make, lambda: block(make, 2))], 0, False


@family(2)
def buffers(draws: Draws):
    """Words that take a base and 32-bit offsets, beside those that every chip has; in loops and branches, by one task or more."""
    limits = Limits(
        {"buffers": 8, "scheduling": 1, "laid_out": 0.5, "tiles": 3, "sums": 1, "shapes": 1, "shared": 1, "stores": 1,
         "carries": 0.5},
        statements=(2, 7),
        depth=2,
        flavour="tlx",
        shapes=((64,), (128,), (256,), (32, 32), (16, 64), (64, 16), (8, 128)),
        trips=(0, 4),
    )
    make, grid = begin(draws, limits)
    return make, grid, [segment(make, lambda: block(make, 2))], draws.pick([0, 0, 0, 2]), False


@family(2)
def woven(draws: Draws):
    """Tasks of TLX with rings between them, as `stream`."""
    return stream(draws, begin, BUFFERS)


@family(1.5)
def piped(draws: Draws):
    """Partitions of TLE with pipes between them, as `pipes`."""
    return pipes(draws, begin, BUFFERS)


@family(1)
def multiplied(draws: Draws):
    """Products in a loop, spread over tasks, as `gemm`."""
    return gemm(draws, begin)
