"""Barriers that a pipe has made, in the words of the pipe's user, who never wrote a barrier.

Input: an `alloc_barriers` op. Output: a `PipeSide`, or None if the author allocated the barriers. For example:

    side = pipe_side(op)
    side.slot(1)                         "slot 1 of pipe 'ring'"
    side.wanted(op, 1, 3)                "pipe 'ring', chunk 3: the reader waits for the writer's commit to slot 1"
    side.called(op, 1, 3)                "pipe 'ring', chunk 3: the writer commits slot 1", of a call that was made
    side.verb(op)                        "release", of an arrival at the barriers that say that a slot is free

A pipe has two arrays of barriers, one of a slot each: `full` ones, which `commit` completes and `wait` looks at, and
`free` ones, which `release` completes and `acquire` looks at.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import Op, Program, Value
from .pipes import label_of

FULL, FREE = "full", "free"
_BRINGS = {FULL: "commit", FREE: "release"}
_CALLS = {"acquire": "acquires", "commit": "commits", "close": "closes with", "wait": "waits for", "release": "releases"}


@dataclass(frozen=True)
class PipeSide:
    """One array of a pipe's barriers. `readers` is how many releases give a slot back, `names` those of the readers as declared."""

    pipe: str
    side: str
    readers: int
    names: tuple = ()

    @property
    def name(self) -> str:
        """The pipe in a table: "kv", or "line 12" if it has no name."""
        return self.pipe.removeprefix("the pipe of ").removeprefix("pipe ").strip("'")

    def __str__(self) -> str:
        """A name of the barriers by their use: "kv commit" for those that announce chunks, "kv release" for those that return
        slots."""
        return f"{self.name} {self.brings}"

    def slot(self, index: int | None) -> str:
        """The slot of barrier number `index`; None: whichever."""
        return f"slot {index} of {self.pipe}" if index is not None else f"a slot of {self.pipe}"

    def verb(self, op: Op) -> str:
        """The method of the pipe from which an op on the barriers comes, or the word that copies there."""
        return op.attrs.get("method", "copy")

    @property
    def brings(self) -> str:
        """The method that completes a slot's phase."""
        return _BRINGS[self.side]

    def wanted(self, op: Op, index: int, chunk: int | str | None = None) -> str:
        """A sentence that names the waiting end and its cause: "pipe 'kv', chunk 3: reader 'p' waits for the writer's commit
        to slot 1"."""
        what = f"the writer's commit to slot {index}"
        if self.side == FREE:
            what = f"the release of slot {index} by {self._releasing()}"
        return f"{self._whose(op, chunk)} waits for {what}"

    def called(self, op: Op, index: int, chunk: int | None = None) -> str:
        """A call that an end has made, of whichever method: "pipe 'kv', chunk 3: reader 'p' releases slot 1"."""
        return f"{self._whose(op, chunk)} {_CALLS[self.verb(op)]} slot {index}"

    def _whose(self, op: Op, chunk: int | str | None) -> str:
        """The chunk that an op on the barriers is about, and the end of the pipe from which it comes."""
        name = op.attrs.get("reader")
        reads = self.verb(op) in ("wait", "release")
        caller = "the writer" if not reads else f"reader {name!r}" if name else "the reader"
        return f"{self.chunk(chunk)}: {caller}"

    def chunk(self, number: int | str | None) -> str:
        """A chunk of the pipe: "pipe 'kv', chunk 3"."""
        return f"{self.pipe}, {'a chunk' if number is None else f'chunk {number}'}"

    def chunks(self, index: int, parity: int, capacity: int) -> str:
        """The chunk numbers that a wait with this parity on the barrier of slot `index` may have, where the number is not
        recorded."""
        turn = parity if self.side == FULL else 1 - parity
        first, round_ = index + capacity * turn, 2 * capacity
        return f"{first} (or {first + round_}, {first + 2 * round_}, ...)"

    def _releasing(self) -> str:
        """The readers whose releases give a slot back; those that share a seat take turns."""
        seats = [repr(seat) if isinstance(seat, str) else " or ".join(map(repr, seat)) for seat in self.names]
        return f"reader{'s' * (len(seats) > 1)} {' and '.join(seats)}" if seats else "the reader"

    def state(self, phase: int, arrived: int, pending: int) -> str:
        """A description of a slot after `phase` completed phases, `arrived` arrivals of the current phase, and `pending`
        bytes to come."""
        if self.side == FULL:
            begun = f", and of the next chunk {pending} bytes are still to come" if arrived or pending else ""
            return f"{_times(phase, 'chunk')} been committed there{begun}"
        begun = f", and since then released by {arrived} of its {self.readers} readers" if self.readers > 1 else ""
        return f"it has been released {'once' if phase == 1 else f'{phase} times'}{begun}"

    def too_many(self, index: int, chunk: int) -> tuple[str, str]:
        """The fault and its mend, for an arrival more than a phase takes."""
        if self.side == FULL:
            return (f"commits {self.slot(index)} again, for chunk {chunk}: a chunk is committed there and not complete yet",
                    "commit each chunk once, behind its own acquire")
        return (f"releases {self.slot(index)}, for chunk {chunk}, which all its readers have released",
                "release each chunk once a reader, behind the wait for it")


def _times(count: int, noun: str) -> str:
    return f"{count} {noun} has" if count == 1 else f"{count} {noun}s have"


def pipe_side(op: Op) -> PipeSide | None:
    """The role of the barriers of an `alloc_barriers` op in their pipe; None if the author allocated them."""
    side = op.attrs.get("side")
    return PipeSide(label_of(op.attrs["pipe"], op.site), side, op.arrive_count, op.attrs["readers"]) if side is not None else None


def pipe_arrays(program: Program, root: Value) -> tuple[Value, ...]:
    """Both arrays of barriers of the pipe that has the array `root`; one of them for a pipe that waits for no slot."""
    sides = pipe_sides(program)
    roots = list(sides)
    first = roots.index(root) - (sides[root].side == FREE)      # `expand_pipes` makes the free ones behind the full ones
    second = roots[first + 1:first + 2]
    return (roots[first], *(one for one in second if sides[one].side == FREE))


def pipe_sides(program: Program) -> dict[Value, PipeSide]:
    """The arrays of barriers of all pipes."""
    sides = {op.result: pipe_side(op) for op in program.where(lambda row: row.allocates == "barriers")}
    return {root: side for root, side in sides.items() if side is not None}
