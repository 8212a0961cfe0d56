"""Demands of the library on its arguments that no contract can say, since they follow from how a launch is cut.

Input: arrays by name, or numbers. Output: nothing, or a ValueError that names the argument. For example:

    persistent(programs)                        a number of programs, 1 or more
    lie("tma", a=a)                             arrays that lie in memory as the word of contracts says
    enough(flags=(flags, 264))                  arrays of so many elements, or more
    work_fits(room, {"rows": ((64, 128), "float16")})       arrays of a launch's workspace
"""

from __future__ import annotations

from operator import index
from typing import Any

from .contract import by
from .contract.memory import wrong
from .contract.types import of


def counted(name: str) -> str:
    """The rule of contracts for how many programs, or multiprocessors, share the tiles."""
    return (f"{name} is not None and whole({name}) and {name} >= 1 -- it must be a whole number of 1 or more, or nothing would be "
            "computed")


PROGRAMS = counted("programs")


def persistent(programs: Any, name: str = "programs") -> int:
    """The number of programs that may share the tiles. ValueError unless it is a whole number of 1 or more."""
    if not hasattr(programs, "__index__") or index(programs) < 1:
        raise ValueError(f"{name} is {programs}; it must be a whole number of 1 or more, or nothing would be computed")
    return index(programs)


def lie(word: str, **arrays: Any) -> None:
    """ValueError for an array that lies otherwise in memory."""
    for name, array in arrays.items():
        if how := wrong(word, array):
            raise ValueError(f"{name} {how}")


def enough(**arrays: tuple[Any, int]) -> None:
    """ValueError for an array with fewer elements than the number beside it."""
    for name, (array, least) in arrays.items():
        if array.shape[0] < least:
            raise ValueError(f"{name} has {array.shape[0]} elements; the launch needs {least}")


def work_fits(work: dict[str, Any], wanted: dict[str, tuple[tuple[int, ...], str]]) -> None:
    """ValueError for an array of `room` with another shape or type than the one wanted of its name."""
    for name, (shape, type_) in wanted.items():
        if tuple(work[name].shape) != shape or of(work[name]) != type_:
            raise ValueError(f"room[{name!r}] is {by(work[name])} of {work[name].dtype}; it must be {' x '.join(map(str, shape))} "
                             f"of {type_}")
