"""Stack for kernels that are deep: long expressions, and helpers that call helpers, each of them inlined while it is recorded.

Input: a block of code. Output: the same results where Python's own limit of 1000 calls inside each other would end it:

    with deep(): record_program(fn, ...)

A helper inside a helper takes fifteen calls of Triton's code generator, so that sixty of them were too many, and an expression of
three hundred terms. The limit is one of the process: it is as before when the last such block of all threads ends. It stays a
limit, since a recursion without an end must not take the machine's stack; calls of Python functions by Python need none of that.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

LIMIT = 20_000      # calls inside each other
_LOCK = Lock()
_blocks = 0         # of all threads
_before = 0


@contextmanager
def deep() -> Iterator[None]:
    global _blocks, _before
    with _LOCK:
        _blocks += 1
        if _blocks == 1:
            _before = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_before, LIMIT))
    try:
        yield
    finally:
        with _LOCK:
            _blocks -= 1
            if _blocks == 0 and sys.getrecursionlimit() == max(_before, LIMIT):     # else other code has set another one
                sys.setrecursionlimit(_before)


__all__ = ["LIMIT", "deep"]
