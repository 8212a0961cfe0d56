"""A pipe's chunk is committed by the number by which it was acquired.

Input: a program before the pass `expand_pipes`, and the op that makes each pipe. Output: nothing, or `ProtocolError`. For example:

    %x = pipe_acquire %p, chunk=%i
    pipe_commit %p, chunk=0             refused: chunk %i was acquired, which is another one in each round

Numbers are told apart where they certainly differ: two constants, two sums that differ by a constant, and a constant where the
other number counts the rounds of a loop.
"""

from __future__ import annotations

from ...errors import ProtocolError
from ...ir import Block, Op, Program, Value
from ..analysis import uses_of
from ..analysis.affine import Affine, affine
from ..analysis.pipes import pipe_label
from ..analysis.uses import Uses


def check_commits(program: Program, makes: dict[Value, Op]) -> None:
    """Raise `ProtocolError` for the first commit of another chunk than the one that was acquired before it in its block."""
    if program.named("pipe_commit"):
        _check(program.body, makes, uses_of(program))


def _check(block: Block, makes: dict[Value, Op], uses: Uses) -> None:
    acquired: dict[Op, Op] = {}
    for op in block.ops:
        if op.name == "pipe_acquire":
            acquired[makes[op.pipe]] = op
        elif op.name == "pipe_commit":
            acquire = acquired.pop(makes[op.pipe], None)
            if acquire is not None and _differ(uses, acquire, op):
                _refuse(makes[op.pipe], acquire, op)
        for inner in op.blocks:
            _check(inner, makes, uses)


def _differ(uses: Uses, acquire: Op, commit: Op) -> bool:
    first, second = _form(uses, acquire.chunk), _form(uses, commit.chunk)
    if first is None or second is None:
        return False
    between = second.plus(first, -1)
    if not between.terms:
        return between.constant != 0
    constant = not first.terms or not second.terms
    return constant and any(_counts_rounds(uses, value, commit) for value, _ in between.terms)


def _form(uses: Uses, chunk: Value | int) -> Affine | None:
    return Affine(chunk) if isinstance(chunk, int) else affine(uses, chunk)


def _counts_rounds(uses: Uses, value: Value, op: Op) -> bool:
    """True if a value is the index of a loop around an op."""
    return any(block.args and block.args[0] is value for loop in uses.loops(op) if loop.name == "for" for block in loop.blocks)


def _refuse(make: Op, acquire: Op, commit: Op) -> None:
    raise ProtocolError(f"{pipe_label(make)}: the chunk that is committed is not the one that was acquired at {acquire.site}; a "
                        "commit publishes the chunk of its number, and a chunk is acquired, filled and committed by one number.",
                        commit.site, acquire.site, hint=f"give the commit at {commit.site} the number of the acquire at "
                        f"{acquire.site}.")
