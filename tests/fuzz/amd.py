"""Families of programs for AMD's chips: copies by the tensor data mover of gfx1250, beside words that every chip has.

They are drawn by name, or by `python -m tests.fuzz --family amd`; the seeds of the other families stay what they were.

    program_of(3, "moved")[0].chip         # "gfx1250"
"""

from __future__ import annotations

from collections.abc import Callable

from .blocks import block
from .draws import Draws
from .families import segment, start
from .maker import Limits

AMD: dict[str, tuple[float, Callable]] = {}


def family(weight: float):
    """Register the decorated function, as `families.family` does."""

    def register(function: Callable) -> Callable:
        AMD[function.__name__] = weight, function
        return function

    return register


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
    make, grid = start(draws, limits)
    make.chip, make.serial = "gfx1250", True
    make.skips["gpu"] = "no chip with a tensor data mover is at hand"
    return make, grid, [segment(make, lambda: block(make, 2))], 0, False
