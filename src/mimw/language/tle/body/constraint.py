"""`tle.hardware_constraint`: what a raw function of the seed's form asks of the threads that run it.

Input: the decorator's arguments. Output: a note on the function, which a call is checked against. For example:

    @tle.raw.language(name="mlir")
    @tle.hardware_constraint(threads_dim=1, sync_scope="block")
    def add(x, y, output): ..           tle.call(add, args=.., hardware={"threads": (8, 8)}) is refused: one dimension, not two
"""

from __future__ import annotations

from dataclasses import dataclass

from ...core import host_constructible
from ..raw.function import RawFunction

SCOPES = ("thread", "warp", "block", "cluster", "grid")


@host_constructible
@dataclass(frozen=True)
class Constraint:
    """The number of dimensions of threads that a function uses, and the widest synchronisation in it."""

    threads_dim: int
    sync_scope: str


def hardware_constraint(threads_dim=1, sync_scope="block"):
    """Declare what a raw function needs of its threads; stands below `tle.raw.language`, or above it.

    args:      threads_dim - dimensions of the index space, 1 to 3; None leaves them open
               sync_scope  - the widest synchronisation in the body: "thread" | "warp" | "block" | "cluster" | "grid"
    returns:   a decorator that gives the function back
    errors:    ValueError for anything else
    """
    if threads_dim not in (None, 1, 2, 3) or isinstance(threads_dim, bool):
        raise ValueError(f"tle.hardware_constraint: threads_dim must be 1, 2 or 3, got {threads_dim!r}")
    if sync_scope not in SCOPES:
        raise ValueError(f"tle.hardware_constraint: sync_scope must be one of {', '.join(SCOPES)}, got {sync_scope!r}")

    def decorate(fn):
        if isinstance(fn, RawFunction):
            fn.hardware = Constraint(threads_dim, sync_scope)
        else:
            fn.__hardware__ = Constraint(threads_dim, sync_scope)
        return fn

    return decorate
