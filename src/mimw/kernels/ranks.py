"""Arguments of a launch on several GPUs, made once for all kernels: of one process's own arrays, or of those of a simulated world.

Input: the world, a function, and arrays. Output: what the function makes of the arrays; in a simulated world of those of each rank:

    described = at_each(world, lambda one: TensorDescriptor.from_tensor(one, [64, 64]), a)
    at_one(a).shape                 a's, or the first rank's: of what is the same at all ranks
    size_of(world)                  how many ranks
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mimw


def at_each(world: Any, make: Callable, *arrays: Any) -> Any:
    """make(*arrays), or in a `mimw.World` a value for each rank."""
    if not isinstance(world, mimw.World):
        return make(*arrays)
    return world.each([make(*(one[rank] if _is_per_rank(one) else one for one in arrays)) for rank in range(len(world))])


def at_one(array: Any) -> Any:
    """The array itself, or the first rank's."""
    return array[0] if _is_per_rank(array) else array


def size_of(world: Any) -> int:
    """How many ranks a world has."""
    return len(world) if isinstance(world, mimw.World) else world.size


def _is_per_rank(value: Any) -> bool:
    """What `mimw.World` makes: one value for each rank."""
    return hasattr(value, "is_symmetric")


__all__ = ["at_each", "at_one", "size_of"]
