"""Functions for torch to hold: ways to functions of ours, which are blocked when the process ends.

Input: a function. Output: one that calls it:

    library.impl("matmul", held(run), "CPU")

Torch's registries never let go of what was registered, and so of all that a function's globals lead to: kernels, and with them
Triton's bindings, which tell of each object of theirs that outlives Python, some 30 lines. This module's globals lead to nothing
else than the table, which is emptied first.
"""

import atexit
from collections.abc import Callable

_FUNCTIONS: list[Callable] = []
atexit.register(_FUNCTIONS.clear)


def held(function: Callable) -> Callable:
    """A function that calls `function` until the process ends."""
    place = len(_FUNCTIONS)
    _FUNCTIONS.append(function)

    def call(*args, **keywords):
        return _FUNCTIONS[place](*args, **keywords)

    return call


__all__ = ["held"]
