"""Results of which a part was written by no program: a note, since a kernel may mean it.

Input: a launch, and the book of its writers. Output: a sentence for each such array. For example:

    unwritten(launch, writers)      ["no program wrote 64 of 128 elements of 'y': y[64:128]"]

An array is a result if the kernel stores to it and neither reads it nor changes it by atomics or reductions, all of which say that
it held something before. Of an array that is none, elements that nobody writes mean nothing. A result may well be written in part,
as a list that is filled as far as there is something to list: so this is no finding, and `mimw check` ends in 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...compiler.analysis.written import results
from ...ir.world import PerRank
from ...simulator import Writers
from .arrays import base_of, is_arraylike, place


def unwritten(launch: Any, writers: Writers) -> list[str]:
    """A sentence for each result of a launch that was not written as a whole."""
    return [text for name in results(launch.program) for rank, array in _arrays(launch.arguments.get(name))
            if (text := _told(name, rank, array, writers))]


def _arrays(argument: Any) -> Iterator[tuple[int | None, Any]]:
    """(rank, array) for each array of an argument; rank None on one GPU."""
    ranks = enumerate(argument) if isinstance(argument, PerRank) else ((None, argument), )
    for rank, value in ranks:
        base = base_of(value)
        if is_arraylike(base):
            yield rank, base


def _told(name: str, rank: int | None, array: Any, writers: Writers) -> str:
    missing = writers.numbers(*place(array)) == 0
    count = int(np.count_nonzero(missing))
    if not count:
        return ""
    whose = repr(name) + ("" if rank is None else f" of rank {rank}")
    if count == missing.size:
        return f"no program wrote any of the {count} elements of {whose}"
    box = tuple(_where(missing, axis) for axis in range(missing.ndim))
    where = f"{name}[{', '.join(f'{one.start}:{one.stop}' for one in box)}]"
    whole = count == math.prod(one.stop - one.start for one in box)
    return f"no program wrote {count} of {missing.size} elements of {whose}: {where if whole else f'some in {where}'}"


def _where(missing: np.ndarray, axis: int) -> slice:
    """From the first to the last along an axis. A list of the places of all, as `np.nonzero` makes it, takes 8 bytes of each
    element for each axis, and of a hundred million elements some seconds."""
    line = missing.any(tuple(other for other in range(missing.ndim) if other != axis)) if missing.ndim > 1 else missing
    return slice(int(line.argmax()), len(line) - int(line[::-1].argmax()))
