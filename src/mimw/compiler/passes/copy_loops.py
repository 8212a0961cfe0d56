"""Loops whose trips copy into shared memory, wait for that, and arrive: which of them may leave their copies in flight.

Input: a `for` op of a program in which copies are by pointers, and the def-use index. Output: its `CopyLoop`, None where nothing is
copied and told of, or the reason for which the loop waits for its copies. For example:

    for %i ..: barrier_wait %free[%s]; async_load ..; async_wait 0; barrier_arrive %full[%s]
    copy_loop(uses, loop)       CopyLoop((barrier_arrive .., ), most=1), if %full has two barriers

An arrival says that the copies in front of it have landed. It may come later, with copies of later trips under way, if nothing in
the loop looks at shared memory, writes global memory or waits for something other than barriers: then only who waits for the
arrival can tell.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import Op, Value
from ...ir.ops import is_pure
from ..analysis.constants import constant_of
from ..analysis.uses import Uses
from .whole_trips import WholeTrips, made_inside, whole_trips

_MOST = 4      # arrivals that are kept back at one time: each costs code in front of every wait


@dataclass(frozen=True)
class Arrival:
    """An arrival of each trip, on `array[index]`; on `array` itself where the index is None. `values` are those of the index and of
    the op's chunk that belong to a trip, and `slots` the barriers that trips take in turn."""

    op: Op
    array: Value
    index: Value | int | None
    values: tuple[Value, ...]
    slots: int


@dataclass(frozen=True)
class CopyLoop:
    """`arrivals` of a trip in program order, how many may be kept back at `most`, and the `whole` trips, in which no block reaches
    over an edge; None if no copy asks."""

    arrivals: tuple[Arrival, ...]
    most: int
    whole: WholeTrips | None


class _Stays(Exception):
    """The reason for which a loop stays as it is."""


def copy_loop(uses: Uses, loop: Op) -> CopyLoop | str | None:
    """A loop's arrivals that may be kept back; a reason where it copies and arrives, and none may."""
    body = loop.blocks[0]
    copies = any(op.name == "async_load" for op in loop.walk())
    if not copies or not any(op.name == "barrier_arrive" for op in body.ops) or not _at_once(loop):
        return None
    try:
        inside = made_inside(loop)
        for op in body.ops:
            _check(op, top=True)
        arrivals = tuple(_arrival(uses, op, inside) for op in body.ops if op.name == "barrier_arrive")
        most = min(_MOST, _slots(uses, loop, arrivals, inside) * len(arrivals) - 1)
        if most < 1:
            raise _Stays("each trip fills the same buffer, or arrives on the same barrier")
        return CopyLoop(arrivals, most, _whole(uses, loop))
    except _Stays as why:
        return str(why)


def is_wait_for_all(op: Op) -> bool:
    """True of a wait for all copies so far, or the end of their group, that a copy's or a pipe's word put in."""
    return not op.row.copy and ("of_copy" in op.attrs or "of_chunk" in op.attrs)


def is_whole(op: Op) -> bool:
    """True of the choice between a copy of a block that lies in its tensor and of one that may not."""
    return op.name == "if" and "in_tensor" in op.attrs


def _at_once(loop: Op) -> bool:
    return any(op.name == "async_wait" and is_wait_for_all(op) for op in loop.walk())


def _check(op: Op, top: bool) -> None:
    """Raise for an op that could tell whether copies have landed, or that waits for something without a look ahead."""
    where = f"at line {op.site.line}"
    if op.name == "barrier_arrive":
        if not top or op.predicate is not None:
            raise _Stays(f"the arrival {where} depends on a condition")
        if op.barrier.type.per_thread:
            raise _Stays(f"each thread arrives for itself {where}")
    elif op.name == "barrier_wait":
        if not top or op.predicate is not None:
            raise _Stays(f"the wait {where} depends on a condition")
    elif op.blocks and not (top and is_whole(op)):
        raise _Stays(f"there is a branch or a loop {where}")
    elif not (op.blocks or _can_be_crossed(op)):
        raise _Stays(f"{op.row.word or op.name} {where} stands among its copies")
    for block in op.blocks:
        for inner in block.ops:
            _check(inner, top=False)


def _can_be_crossed(op: Op) -> bool:
    return (is_pure(op.name) or is_wait_for_all(op) or _fills(op) or bool(op.row.loads) or "terminator" in op.row.traits)


def _fills(op: Op) -> bool:
    """True of a copy by pointers, and of registers that are stored where one would have copied."""
    return op.name == "async_load" or bool(op.row.stores_registers)


def _arrival(uses: Uses, op: Op, inside: set[Value]) -> Arrival:
    made = uses.definition[op.barrier]
    if op.barrier not in inside:
        array, index = op.barrier, None
    elif made is None or made.name != "barrier_index" or made.barrier in inside:
        raise _Stays(f"the arrival at line {op.site.line} is not on an array of barriers")
    else:
        array, index = made.barrier, made.index
    values = tuple(value for value in (index, op.chunk) if value in inside)
    return Arrival(op, array, index, values, array.type.count if _changes(uses, index, inside) else 1)


def _changes(uses: Uses, index: Value | int | None, inside: set[Value]) -> bool:
    return index in inside and constant_of(uses, index) is None


def _slots(uses: Uses, loop: Op, arrivals: tuple[Arrival, ...], inside: set[Value]) -> int:
    """The trips in a row that fill other buffers and arrive on other barriers. A ring is gone round in order: where one is not, the
    wait in front of a copy into a buffer in use waits for the arrival of the copy that is there."""
    alone = any(_fills(op) and not _in_turn(uses, op.buffer, inside) for op in loop.walk())
    return min(1 if alone else arrival.slots for arrival in arrivals)


def _in_turn(uses: Uses, view: Value, inside: set[Value]) -> bool:
    """True if another buffer is meant in the next trip."""
    while (made := uses.definition.get(view)) is not None and made.row.view_of:
        if made.name == "buffer_index" and _changes(uses, made.index, inside):
            return True
        view = getattr(made, made.row.view_of)
    return False


def _whole(uses: Uses, loop: Op) -> WholeTrips | None:
    choices = [op for op in loop.blocks[0].ops if is_whole(op)]
    if not choices:
        return None
    found = whole_trips(uses, loop, tuple(op.condition for op in choices))
    if found is None:
        raise _Stays("its step is not a positive constant")
    if isinstance(found, Value):
        raise _Stays(f"in which trips the blocks reach over an edge is not known in front of it (line {uses.site(found).line})")
    return found
