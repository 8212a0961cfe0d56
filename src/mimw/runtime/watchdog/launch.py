"""A launch that is watched: what was asked for, and what the device says of it.

Input: a kernel, its arguments and its grid. Output: a `Launch`, which names itself in reports:

    'gemm' on grid (132, 1, 1), launched at script.py:40 with K=1024, BM=64
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import triton

from ..host import is_array

trying: ContextVar[str] = ContextVar("trying", default="")      # the configuration that an autotuner measures
_SHOWN = 12     # arguments that are named at most
_FOREIGN = (str(Path(__file__).parent.parent), str(Path(triton.__file__).parent))


@dataclass(eq=False)
class Launch:
    """`extents` are known once Triton has asked the grid, `compiled` once the launch has returned. `before` and `after` are events
    of the stream, `memory` is the table of stamps, `since` is when the launch was first seen to run, `tuned` the configuration that
    an autotuner tries with it."""

    fn: Any
    args: tuple
    meta: Mapping[str, Any]
    grid: Any
    stream: int = 0
    tuned: str = field(default_factory=lambda: trying.get())
    extents: tuple[int, ...] = ()
    compiled: Any = None
    before: Any = None
    after: Any = None
    memory: Any = None
    since: float | None = None
    where: str = field(default_factory=lambda: _caller())

    def asked_grid(self) -> Callable:
        """The grid as Triton takes it; asking notes what it was."""
        def extents(arguments):
            found = self.grid(arguments) if callable(self.grid) else self.grid
            self.extents = (found, ) if isinstance(found, int) else tuple(map(int, found))
            return found
        return extents

    @property
    def grid3(self) -> tuple[int, int, int]:
        """CTAs along x, y, z: a mesh counts its clusters in the grid."""
        x, y, z = (*self.extents, 1, 1)[:3]
        program = getattr(self.compiled, "stamped", None)
        return (x * program.cluster_size, y, z) if program is not None and program.launch_facts.grid_of_clusters else (x, y, z)

    def __str__(self) -> str:
        grid = f" on grid {self.grid3}" if self.extents else ""
        named = {**dict(zip(self.fn.arg_names, self.args)), **self.meta}
        told = [f"{name}={_short(value)}" for name, value in named.items()][:_SHOWN]
        more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
        return (f"{self.fn.__name__!r}{grid}, launched at {self.where} with {', '.join(told)}{more}"
                + (f", as an autotuner tries the configuration {self.tuned}" if self.tuned else ""))


def _short(value: Any) -> str:
    if hasattr(value, "base") and hasattr(value, "block_shape"):
        return f"descriptor of {_short(value.base)}"
    if is_array(value):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _caller() -> str:
    """The line of the user's that launched: the innermost one that is neither ours nor Triton's."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((*_FOREIGN, "<")):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else "an unknown line"
