"""The grammar: one function a word, or a few words that only work together. Each draws its operands and adds steps.

    @word("tiles", 2)
    def flip(make): ...          # called with the `Maker`; gives nothing, or False if it cannot be used here

`WORDS[group]` holds (weight, function) pairs; a family weighs the groups.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

WORDS: dict[str, list[tuple[float, Callable]]] = {}


def word(group: str, weight: float = 1.0):
    """Register the decorated function."""

    def register(function: Callable) -> Callable:
        WORDS.setdefault(group, []).append((weight, function))
        return function

    return register


def load_all() -> None:
    """Import the files that fill `WORDS`."""
    for name in (
        "tiles",
        "shapes",
        "sums",
        "globals",
        "shared",
        "views",
        "aliases",
        "pointers",
        "copies",
        "barriers",
        "layouts",
        "carries",
        "dots",
        "cluster",
        "matrix_cores",
        "misc",
        "tensor",
        "tensor_views",
        "products",
        "rows",
        "mover",
        "buffers",
        "scheduling",
    ):
        import_module(f".{name}", __package__)
