"""The GPUs of a machine: one as a rule, or several that run the same launch side by side, each with global memory of its own.

Input: the rank of a GPU, what its launch's parameters hold there, and its global memory. Output: what a CTA knows of where it runs.
For example, two GPUs:

    Gpu(0, {%x: uint64(address)}, memory_of_0, others=True)
    Gpu(1, {%x: uint64(another)}, memory_of_1, others=True).label      " of rank 1"
    Gpu(0, {}, memory).label                                           "", where there is one GPU only

The scheduler makes no difference between tasks of one GPU and of several: one seed is one interleaving of all of them
(docs/DISTRIBUTED.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...ir import Value
from .launches import Waiting


@dataclass(eq=False)
class Gpu:
    """One GPU. `arguments` holds what parameters are at this rank and differs between ranks, `memory` the global memory as CTAs
    here reach it; `waiting` are the clusters of this GPU's grid that have not started, `grid_barrier` the barrier of that grid."""

    rank: int
    arguments: dict[Value, Any]
    memory: Any
    others: bool = False            # whether it is one of several
    steps_left: int | None = None   # until this rank dies (`uneven`)
    late: int = 0                   # how many steps the others make before this rank's first
    waiting: Waiting = field(default_factory=lambda: Waiting(iter(())))
    grid_barrier: Any = None

    @property
    def label(self) -> str:
        """The rank of this GPU, to stand behind the name of what is on it; "" where there is only one."""
        return f" of rank {self.rank}" if self.others else ""
