"""The protocol of a session: what texts and pages read of a run that stands still.

Input: nothing; `looks.where(session)` and `page.page(session)` take such an object. Output: a type. `session.Session` provides it:

    session.event, session.actor, session.player.machine.blocked
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ...errors import SimulationError
from ...ir import Op
from ...runtime.simulate import Launch
from ...target import Target
from .events import Event
from .expressions import Names, Place
from .player import Player


class Standing(Protocol):
    """A run that stands at event `number`. `session.Session` says what each name means."""

    launch: Launch
    seed: Any
    target: Target | None
    note: str
    depth: int | None
    names: Names
    player: Player
    last_error: SimulationError | None

    @property
    def number(self) -> int: ...

    @property
    def event(self) -> Event | None: ...

    @property
    def error(self) -> SimulationError | None: ...

    @property
    def actor(self) -> tuple[tuple[int, ...], str]: ...

    @property
    def op(self) -> Op | None: ...

    def places(self) -> list[Place]: ...

    def again(self, look: Callable[[int, Event], bool]) -> None: ...

    def goto(self, number: int) -> Any: ...
