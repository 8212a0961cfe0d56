"""Layout check of accumulators in flight: no conversion touches an accumulator between its `async_dot` and the wait, while
the registers are still being written.

Input: a program and the layouts of its tiles. Output: nothing, or a `LayoutConflict`. An example of a conflict:

    %acc = async_dot %a %b               accumulates in mma(...)
    %acc2 = async_dot %c %d %acc         on other warps: wants another mma(...), so a conversion of unfinished registers
"""

from __future__ import annotations

from ...errors import LayoutConflict
from ...ir.core import Op, Program, Value
from ...ir.flow import all_carries
from .explain import at
from .tiles import Tiles


def check_in_flight(program: Program, tiles: Tiles) -> None:
    """Raise `LayoutConflict` for the first conversion of a result that may still be computed.

    The result of `async_dot`, and what a region hands on of it, may not be converted at all. The result of a wait that
    leaves groups pending may be the finished one of several; it is only refused where the chain of dots goes on.
    """
    carries = all_carries(program)
    running = _reach(program, carries, {op.result: op for op in program.walk()
                                         if op.row.layout == "mma" and not op.attrs.get("emulated")})
    pending = _reach(program, carries, {op.result: running[op.value] for op in program.walk()
                                        if op.row.layout == "mma_wait" and op.pending and op.value in running})
    handovers = {(carry.op, carry.index) for carry in carries}
    for (op, index), wanted in tiles.wants.items():
        value = op.operands[index]
        chain = op.row.layout == "mma" or (op, index) in handovers
        start = running.get(value) or (pending.get(value) if chain else None)
        if start is not None and wanted != tiles[value].layout:
            raise _conflict(start, op, index, wanted, tiles)


def _reach(program: Program, carries, starts: dict[Value, Op]) -> dict[Value, Op]:
    """`starts` and all that regions hand on of them."""
    reached, count = dict(starts), -1
    while count != len(reached):
        count = len(reached)
        for carry in carries:
            if carry.source in reached:
                reached.setdefault(carry.target, reached[carry.source])
    return reached


def _conflict(start: Op, op: Op, index: int, wanted, tiles: Tiles) -> LayoutConflict:
    have = tiles[start.result].layout
    other = op
    if op.row.layout != "mma":
        meeting = [choice for choice in tiles.choices.values() if choice.layout == wanted and choice.origin is not None]
        other = meeting[0].origin if meeting else op
    why = "accumulates in" if other.row.layout == "mma" else "wants"
    return LayoutConflict(
        "an accumulator would change its layout while it is being computed:\n"
        f"  {at(start.site)} async_dot accumulates in {have}\n"
        f"  {at(other.site)} {other.name} {why} {wanted}", start.site, other.site,
        hint="put async_dot_wait(0, ...) between them.")
