"""Products of pairs of CTAs that are done when their word is over, as commits and waits.

Input: a program. Output: the program in which no product waits:

    tcgen05_mma_pair %a, %b, %acc .. waits=True       %phase = barrier_phase %done; %turn = barrier_phase %called
                                                      barrier_arrive %done; remote_arrive %called of the even CTA
                                          becomes     tcgen05_mma_pair ..; tcgen05_commit_pair %done ..
                                                      barrier_wait %done, %phase; in the even CTA barrier_wait %called, %turn

Each such product has a barrier `done` of its own in every CTA, for two arrivals: the commit's, and this CTA's own. So the phase
stays while the CTA looks which one it is. The even CTA issues the next product only when both have called this one: a second
commit would take the place of the odd CTA's own arrival, which might then wait for ever. Both arrive before the even one issues, so
neither can be a call ahead at `called`. A CTA that does not call the product, the odd CTA under an `if` on the rank, waits for
nothing, and no CTA waits for it: there `called` is left out.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir import I32, Block, Builder, Op, Program, Value
from ..analysis.flows import Flows


def wait_pairs(program: Program) -> Program:
    """The program with such waits; the same object if there are none."""
    if not any(map(_waits, program.where(lambda row: {"dot", "pairs"} <= row.traits))):
        return program
    differs = {result for op in program.where(lambda row: "by_cta" in row.traits) for result in op.results}
    made, writer = Builder(), Builder()
    body = _block(program.body, made, writer, Flows(program).reached(differs), True)
    return replace(program, body=replace(body, ops=(*made.close([]), *body.ops)))


def _waits(op: Op) -> bool:
    return {"dot", "pairs"} <= op.row.traits and bool(op.attrs.get("waits"))


def _block(block: Block, made: Builder, writer: Builder, differs: set[Value], both: bool) -> Block:
    """The block with waits, whose barriers are `made`. `differs` are the values that differ between CTAs; `both`: both CTAs of a
    pair come here."""
    outside = writer.open()
    for op in block.ops:
        if _waits(op):
            _wait(op, made, writer, both and op.called not in differs)
        else:
            inside = both and not (op.name == "if" and op.condition in differs)
            writer.ops.append(op.with_blocks(lambda inner: _block(inner, made, writer, differs, inside)) if op.blocks else op)
    return block.with_ops(writer.close(outside))


def _wait(op: Op, made: Builder, writer: Builder, both: bool) -> None:
    site, number = op.site, len(made.ops)
    zero = writer.constant(0, I32, site)

    def barrier(name: str) -> tuple[Value, Value]:
        """(a barrier for two arrivals, its phase now)."""
        array = made.emit("alloc_barriers", (1, 2), site, label=f"{name}{number}")
        one = writer.emit("barrier_index", (array, zero), site)
        return one, writer.emit("barrier_phase", (one, ), site, label="phase")

    done, phase = barrier("pair_done")
    called = barrier("pair_called") if both else None
    writer.emit("barrier_arrive", (done, 1, op.called), site)
    if called:
        writer.emit("remote_arrive", (called[0], 1, op.leader, op.called), site)
    writer.ops.append(replace(op, attrs={name: value for name, value in op.attrs.items() if name != "waits"}))
    writer.emit("tcgen05_commit_pair", (done, (op.leader, op.peer), op.predicate), site)
    writer.emit("barrier_wait", (done, phase, op.called), site)
    if called:
        writer.emit("barrier_wait", (*called, op.predicate), site)
