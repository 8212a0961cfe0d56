"""An asynchronous dot's result may not be looked at before it has been waited for.

Input: a program. Output: nothing, or `AsyncDotReadEarly` with the lines of the use, of the dot, and of a wait that
waits for too little. For example:

    acc = tlx.async_dot(a, b, acc); tl.store(p, acc)      refused: async_dot_wait(0, acc) has to stand between

Nor may the next trip of a loop write the registers from which a dot still reads its first operand: `AsyncDotOverwritten`.

The tensor core is still writing those registers. Until the wait, the value may be the accumulator of a further dot, go
round a loop or through an `if`, and nothing else (PTX ISA, `wgmma.mma_async`: accessing the registers before
`wgmma.wait_group` is undefined).
"""

from __future__ import annotations

from ...errors import AsyncDotOverwritten, AsyncDotReadEarly
from ...ir import Op, Program, Tensor, Value
from ...ir.flow import handed_to
from ...target import Target
from ..analysis import Uses, uses_of


def check_async_dot(program: Program, target: Target) -> None:
    """Raise `AsyncDotReadEarly` at the first op that reads a result still being computed; names that op, the dot, and the
    wait between them if one waits for too little."""
    if not program.named("async_dot"):
        return
    uses = uses_of(program)
    for dot in program.named("async_dot"):
        _check_operand(uses, dot)
    running = _running(uses)
    for op in uses.ops:
        for index, value in enumerate(op.operands):
            if value in running and not _may_take(op, index):
                _refuse(op, value, *running[value])


def _check_operand(uses: Uses, dot: Op) -> None:
    """Raise `AsyncDotOverwritten` if a trip of a loop certainly comes to write the registers of operand A while the dot of the trip
    before may still read them. PTX leaves that undefined, ptxas says nothing, and an H200 multiplied the wrong numbers.

    Decided where the dot stands in the loop's own block, and no dot or wait stands in regions on the way; else it counts as right.
    A dot that is done by other instructions (fp32 in full) has read its operands at once.
    """
    place = uses.place[dot]
    if place.parent is None or place.parent.name != "for" or not isinstance(dot.a.type, Tensor):
        return
    if dot.a.type.element.name == "fp32" and dot.precision != "tf32":
        return
    ops, made = list(place.block.ops), uses.definition.get(dot.a)
    if made is None and dot.a not in place.block.args or made is not None and uses.place[made].block is not place.block:
        return      # made in front of the loop
    behind = ops[ops.index(dot) + 1:]
    way = behind if made is None else behind + ops[:ops.index(made)]
    if any(inner.row.layout in ("mma", "mma_wait") for op in way if op.blocks for inner in op.walk()):
        return
    younger = 0
    for op in way:
        if op.name == "async_dot_wait" and op.pending <= younger:
            return
        younger += op.name == "async_dot"
    raise AsyncDotOverwritten(
        f"the next trip of the loop at {place.parent.site} writes the registers of the first operand "
        f"while the asynchronous dot at {dot.site} may still read them: no wait on the way has finished it.", dot.site,
        (made or place.parent).site,
        hint="wait with async_dot_wait(0, ...) in the trip of the dot, or store the operand to shared memory: "
        "one buffer a trip under way.")


def _running(uses: Uses) -> dict[Value, tuple[Op, Op | None]]:
    """Every value that may still be in the making, with its dot and the wait (if any) that it has passed too early."""
    running: dict[Value, tuple[Op, Op | None]] = {}
    pending = []

    def mark(value: Value, dot: Op, wait: Op | None) -> None:
        if value not in running:
            running[value] = (dot, wait)
            pending.append(value)

    for op in uses.program.named("async_dot"):
        mark(op.result, op, None)
    while pending:
        value = pending.pop()
        dot, wait = running[value]
        for use in uses.of(value):
            if use.op.name == "async_dot_wait":
                if _certainly_too_early(uses, use.op):
                    mark(use.op.result, dot, use.op)
            else:
                for successor in handed_to(use.op, use.index, uses.place[use.op].parent):
                    mark(successor, dot, wait)
    return running


def _certainly_too_early(uses: Uses, wait: Op) -> bool:
    """True if the dot that a wait is for is among the `pending` newest when the wait lets go.

    Decided only where dot and wait stand in one block, with no dots in regions between them; else it counts as in time.
    """
    value, block = wait.value, uses.place[wait].block
    while (op := uses.definition[value]) is not None and op.name == "async_dot_wait":
        value = op.value
    if op is None or op.name != "async_dot" or uses.place[op].block is not block:
        return False
    between = block.ops[block.ops.index(op) + 1:block.ops.index(wait)]
    if any(inner.name == "async_dot" for other in between if other.blocks for inner in other.walk()):
        return False
    return sum(other.name == "async_dot" for other in between) < wait.pending


def _may_take(op: Op, index: int) -> bool:
    """True if an op may take a product in the making as its operand `index`: as a sum to go on with, to wait for, or to hand on."""
    if op.name == "async_dot":
        return op.operands[index] is op.acc and index == len(op.operands) - 1
    return op.name == "async_dot_wait" or op.row.hands_over and not (op.name == "condition" and index == 0)


def _refuse(op: Op, value: Value, dot: Op, wait: Op | None) -> None:
    name = f"'{value.name}'" if value.name else "a value"
    if wait is None:
        raise AsyncDotReadEarly(
            f"'{op.name}' uses {name} while the asynchronous dot at {dot.site} is still computing it.", op.site, dot.site,
            hint="pass the result through async_dot_wait(0, ...) first; until then it may only be the accumulator of another "
            "async_dot or be carried through a loop.")
    raise AsyncDotReadEarly(
        f"'{op.name}' uses {name}, which async_dot_wait({wait.pending}, ...) at {wait.site} has not finished: "
        f"the dot at {dot.site} is among the newest {wait.pending}, which that wait leaves running.", op.site, dot.site, wait.site,
        hint="wait with async_dot_wait(0, ...) before this use.")
