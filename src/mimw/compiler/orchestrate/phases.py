"""Arrays of buffers and barriers that are used in turn: the slot of a turn, and the parity of its phase.

Input: arrays, a turn's number, their length. Output: ops, with a comment each. For example, of turn `n` of 3 slots:

    phases.wait(full, n, 3, site, "..")      barrier_wait full[n % 3], n // 3 & 1
    phases.wait(free, n, 3, site, "..", before=True)     .. of the other parity: the first turns find all slots free

`Slots` are the buffers of a ring whose slots the tensor core gives back, with the barriers between TMA and the tensor core.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import I32, Builder, Op, Value
from ...ir.site import Site


@dataclass(frozen=True)
class Slots:
    """A ring's buffers, one array a load; `full`, at which TMA arrives; and `free`, at which the tensor core does, None for a ring
    that is filled once."""

    fields: tuple[Value, ...]
    full: Value
    free: Value | None


class Phases:
    """Writes into `writer`; `notes` has the comments, by op."""

    def __init__(self, writer: Builder, notes: dict[Op, str]):
        self.writer, self.notes = writer, notes

    def slot(self, number: Value, depth: int, site: Site) -> Value:
        """The slot of a turn."""
        return self.writer.constant(0, I32, site) if depth == 1 else self.writer.by_constant("srem", number, depth, site)

    def of(self, buffers: Value, number: Value, depth: int, site: Site, label: str = "") -> Value:
        """The buffer of a turn."""
        return self.writer.emit("buffer_index", (buffers, self.slot(number, depth, site)), site, label=label)

    def barrier(self, barriers: Value, number: Value, depth: int, site: Site) -> Value:
        """The barrier of a turn."""
        return self.writer.emit("barrier_index", (barriers, self.slot(number, depth, site)), site)

    def wait(self, barriers: Value, number: Value, depth: int, site: Site, note: str, before: bool = False) -> None:
        """Wait for the arrival of this turn, or `before` it for that of the turn in which the slot was used last."""
        barrier, writer = self.barrier(barriers, number, depth, site), self.writer
        round_ = number if depth == 1 else writer.by_constant("sdiv", number, depth, site)
        phase = writer.by_constant("and", round_, 1, site)
        if before:
            phase = writer.by_constant("xor", phase, 1, site)
        self.emit("barrier_wait", (barrier, phase), site, note)

    def arrive(self, barriers: Value, number: Value, depth: int, site: Site, note: str) -> None:
        """Arrive at the barrier of a turn."""
        self.emit("barrier_arrive", (self.barrier(barriers, number, depth, site), 1), site, note)

    def emit(self, name: str, args: tuple, site: Site, note: str = "", **attrs) -> None:
        """An op without results, with a comment."""
        self.writer.emit(name, args, site, **attrs)
        if note:
            self.notes[self.writer.ops[-1]] = note
