"""Tracebacks of refusals, which end at the call that the user wrote: what lies below it is ours, and says nothing of the mistake.

Input: a function that users call. Output: the same function, whose refusals have a traceback of the user's frames alone:

    @ends_at_call
    def simulate(kernel, grid, *args): ...          Traceback: File "mine.py", line 20: mimw.simulate(add, (1, ), x)

MIMW_TRACEBACK=full keeps all frames and all causes. So does a bug of ours of which no file for a report could be written.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from ..errors import InternalError, MimwError

P = ParamSpec("P")
R = TypeVar("R")


def whole_tracebacks() -> bool:
    """True if the environment asks for Python's own tracebacks."""
    return bool(os.environ.get("MIMW_TRACEBACK"))


def cut(error: MimwError) -> None:
    """Take the frames below here off the traceback of `error`, and those of its cause. The handler that calls this must end in a
    bare `raise`, which adds no frame of its own: the next one is the caller's."""
    if whole_tracebacks() or isinstance(error, InternalError) and not error.reported:
        return
    error.__traceback__ = error.__context__ = None
    cause = error.__cause__
    if isinstance(cause, MimwError) or type(cause).__module__.startswith("triton."):    # it says what `error` says with the line
        error.__cause__ = None
    elif cause is not None:
        cause.__traceback__ = cause.__cause__ = cause.__context__ = None


def ends_at_call(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, whose refusals end at its caller's line."""

    @functools.wraps(function)
    def call(*args: P.args, **keywords: P.kwargs) -> R:
        try:
            return function(*args, **keywords)
        except MimwError as error:
            cut(error)
            raise

    return call
