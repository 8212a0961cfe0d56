"""Python's garbage collector rests while a launch is simulated or a kernel is compiled.

A run makes many objects and, as the tests hold it to, no cycles that grow with it: what it drops is free at once, and looking for
more takes 8 % of the time, 15 to 25 % where it looks for races. What is made of a kernel stays until the kernel is done, and
looking through it is a seventh of the recording. One that rested already goes on resting.

    with resting_collector(): ...
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_LOCK = Lock()
_runs = 0            # of all threads
_was_on = False


@contextmanager
def resting_collector() -> Iterator[None]:
    global _runs, _was_on
    with _LOCK:
        _runs += 1
        if _runs == 1:
            _was_on = gc.isenabled()
            gc.disable()
    try:
        yield
    finally:
        with _LOCK:
            _runs -= 1
            if _runs == 0 and _was_on:
                gc.enable()
