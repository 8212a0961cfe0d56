"""The protocol of a task that cannot go on: what the report of a deadlock reads of it.

Input: nothing; `deadlock.cause` and `deadlock.waiting_lines` take such tasks. Output: types. Two classes provide them:

    simulator.machine.tasks.Task            a task of a machine in which nobody can go on
    runtime.watchdog.hung.HungTask          a task of a real launch, as read from the words of a GPU that hangs
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol, runtime_checkable

from ...ir import Op, Program
from .tasks import PipeCall, Wait


@runtime_checkable
class StuckTask(Protocol):
    """A task of a CTA, or the kernel's body (`is_body`). `wait` says what it waits for, unless it runs or is `finished`."""

    wait: Wait | None
    finished: bool

    @property
    def name(self) -> str: ...

    @property
    def where(self) -> str:
        """The task for messages: "task 'load' of CTA (0, 0, 0)"."""

    @property
    def is_body(self) -> bool: ...

    @property
    def cta(self) -> StuckCta: ...

    @property
    def machine(self) -> StuckLaunch: ...

    @property
    def calls(self) -> Sequence[PipeCall] | None:
        """The latest calls of pipes' methods, the latest last; None where nobody notes them."""


@runtime_checkable
class StuckCta(Protocol):
    """A CTA of such tasks. `str` names it: "CTA (0, 0, 0)"."""

    refused: Op | None          # the op that saw first that a request for the work of another cluster was refused

    @property
    def tasks(self) -> Sequence[StuckTask]: ...

    @property
    def cluster(self) -> StuckCluster: ...


@runtime_checkable
class StuckCluster(Protocol):
    """The CTAs that may arrive on each other's barriers."""

    @property
    def ctas(self) -> Sequence[StuckCta]: ...


@runtime_checkable
class StuckLaunch(Protocol):
    """A launch of such tasks; `blocked` are those that wait."""

    program: Program

    @property
    def blocked(self) -> Collection[StuckTask]: ...
