"""Families of programs for AMD's chips: tasks and pipes, buffer words, copies past the registers, two halves of the waves, the data
mover of gfx1250.

They are drawn by name, or by `python -m tests.fuzz --family amd`; the seeds of the other families stay what they were. A family is
a function of `Draws` that gives what `families.make_program` takes: a maker with its segments, or a `Sketch`.

    program_of(3, "moved")[0].chip         # "gfx1250"
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from ..draws import Draws

CHIPS = ("gfx950", "gfx942", "gfx1250")
NOT_AT_HAND = "no AMD chip is at hand"
AMD: dict[str, tuple[float, Callable]] = {}
FILES = ("frames", "direct", "halves")


def family(weight: float = 1.0):
    """Register the decorated function."""

    def register(function: Callable) -> Callable:
        AMD[function.__name__] = weight, function
        return function

    return register


def onto_a_chip(draws: Draws, made, chips=CHIPS) -> None:
    """Let a maker or a sketch be for one of the chips; nothing of it can be launched."""
    made.chip = draws.pick(chips)
    made.skips["gpu"] = NOT_AT_HAND


for _name in FILES:
    import_module(f".{_name}", __package__)
