"""The protocols between the parts of a machine: which names each part may use of another one.

Input: a machine, a cluster, a task; the parts that use them stand in files below. Output: types for these files. For example:

    Task(machine: Scheduler, ...)                       a task does not import the machine that runs it
    PendingDot.refuse(task: Reader, op)                 nor a value the task that reads it
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Protocol

from ...ir import Block, Op, Program, Value
from ...ir.trace import Trace
from .code import Code


class Scheduler(Protocol):
    """The machine as its tasks, and the words that run in them, see it. `machine.machine.Machine` says what each name means."""

    program: Program
    grid: tuple[int, int, int]
    memory: Any
    gpus: Sequence[Any]
    ctas: dict[int, Any]
    runnable: list[Any]
    blocked: dict[Any, None]
    watching: dict[Any, None]
    inflight: Any
    rank_barriers: dict[tuple, Any]
    left: dict[tuple, list[int]]
    signal_times: dict[int, float]
    order: Any              # a `memory_model.Order`, or an `Unordered`
    random: Random
    guide: Any
    hooks: Any
    enabled: Any
    trace: Trace | None
    links: Any
    uneven: Any
    step: int
    polls: int
    begun: int
    max_trips: int
    check_unwritten: bool
    computes_all: bool
    tells_threads_apart: bool

    @property
    def request_latency(self) -> float: ...

    def code(self, block: Block, num_warps: int) -> Code: ...

    def spawn(self, task: Any, block: Block) -> Any: ...

    def wake(self, task: Any) -> None: ...

    def wrote(self) -> None: ...

    def start(self, operation: Any) -> Any: ...

    def land(self, operation: Any) -> None: ...

    def take_waiting(self, gpu: Any) -> list: ...

    def record(self, cta: Any, lane: str, kind: str, start: float, end: float, label: str, op: Op | None,
               size: int = 0) -> None: ...


class CtaGroup(Protocol):
    """A cluster as a CTA of it sees it: `machine.clusters.Cluster`."""

    ctas: list[Any]
    barrier: Any

    def barrier_of(self, ranks: tuple[int, ...]) -> Any: ...


class Reader(Protocol):
    """A task as the values that it reads see it: `machine.tasks.Task`."""

    env: dict[Value, Any]

    @property
    def where(self) -> str: ...

    @property
    def machine(self) -> Scheduler: ...
