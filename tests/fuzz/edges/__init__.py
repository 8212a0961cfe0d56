"""Families at the edges: each a frame of its own, with the numbers, shapes and rates at which kernels go wrong.

They are drawn by name, or by `python -m tests.fuzz --family edges`; the seeds of the other families stay what they were. A family
is a function of `Draws` that gives a `Sketch`:

    program_of(3, "boxes")[0].kernel
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

EDGES: dict[str, tuple[float, Callable]] = {}
FILES = ("numbers", "folds", "functions", "tickets", "boxes", "picks", "rates", "rounds", "overlays", "planes", "locals", "bodies",
         "extents", "extents_words")


def family(weight: float = 1.0):
    """Register the decorated function."""

    def register(function: Callable) -> Callable:
        EDGES[function.__name__] = weight, function
        return function

    return register


for _name in FILES:
    import_module(f".{_name}", __package__)
