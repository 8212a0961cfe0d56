"""Where a benchmark stands: before each row a line to stderr, with the time that is left by the rows that are done.

    for name in each(["GH1", "GH2", "GH3"]):        [1/3] GH1 ...
        measure(name)                               [2/3] GH2 ... about 1 min 40 s left

Input: the cases, one by one, and a clock. Output: the cases, and the lines. They come whether or not somebody looks: a log of a
machine far away shows by them what it is at.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any


def each(cases: Iterable, name: Callable[[Any], str] | None = None, quiet: bool = False,
         clock: Callable[[], float] = time.monotonic) -> Iterator:
    """The cases in turn, each behind its line; a line says `name` of the case. Of several ranks all but one are `quiet`."""
    cases, start = list(cases), clock()
    for done, case in enumerate(cases):
        if not quiet:
            said = name(case) if name else " ".join(map(str, case)) if isinstance(case, tuple) else str(case)
            left = f" about {spoken((clock() - start) / done * (len(cases) - done))} left" if done else ""
            print(f"[{done + 1}/{len(cases)}] {said} ...{left}", file=sys.stderr, flush=True)
        yield case


def spoken(seconds: float) -> str:
    """`40 s`, `1 min 40 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"
