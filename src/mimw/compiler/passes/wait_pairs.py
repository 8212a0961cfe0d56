"""Products of pairs of CTAs, or of odd extents, that are done when their word is over, as commits and waits.

Input: a program. Output: the program in which no product waits:

    tcgen05_mma_pair %a, %b, %acc .. waits=True       %phase = barrier_phase %done; %turn = barrier_phase %called
                                                      barrier_arrive %done; remote_arrive %called of the even CTA
                                          becomes     tcgen05_mma_pair ..; tcgen05_commit_pair %done ..
                                                      barrier_wait %done, %phase; in the even CTA barrier_wait %called, %turn

Each such product has a barrier `done` of its own in every CTA, for two arrivals: the commit's, and this CTA's own. So the phase
stays while the CTA looks which one it is. The even CTA issues the next product only when both have called this one: a second
commit would take the place of the odd CTA's own arrival, which might then wait for ever. Both arrive before the even one issues, so
neither can be a call ahead at `called`. A CTA that does not call the product, the odd CTA under an `if` on the rank, waits for
nothing, and no CTA waits for it: there `called` is left out. So it is for a product of one CTA, which Triton waits for by itself
where its extents are powers of two; of others it has no product.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir import I32, Block, Builder, Op, Program, Value
from ...ir.extents import is_odd
from ..analysis.flows import Flows


def wait_pairs(program: Program) -> Program:
    """The program with such waits; the same object if there are none."""
    if not any(map(_waits, program.where(lambda row: "dot" in row.traits))):
        return program
    differs = {result for op in program.where(lambda row: "by_cta" in row.traits) for result in op.results}
    made, writer = Builder(), Builder()
    body = _block(program.body, made, writer, Flows(program).reached(differs), True)
    return replace(program, body=replace(body, ops=(*made.close([]), *body.ops)))


def _waits(op: Op) -> bool:
    return bool(op.attrs.get("waits")) and "dot" in op.row.traits and ("pairs" in op.row.traits or _is_odd(op))


def _is_odd(op: Op) -> bool:
    """True of a product that assembly does, since an extent is no power of two."""
    return "exact" in op.row.attributes and any(is_odd(operand.type.shape) for operand in (op.a, op.b, op.acc))


def _block(block: Block, made: Builder, writer: Builder, differs: set[Value], both: bool) -> Block:
    """The block with waits, whose barriers are `made`. `differs` are the values that differ between CTAs; `both`: both CTAs of a
    pair come here."""
    outside = writer.open()
    for op in block.ops:
        if _waits(op) and "pairs" not in op.row.traits:
            _wait_alone(op, made, writer)
        elif _waits(op):
            _wait(op, made, writer, both and op.called not in differs)
        else:
            inside = both and not (op.name == "if" and op.condition in differs)
            writer.ops.append(op.with_blocks(lambda inner: _block(inner, made, writer, differs, inside)) if op.blocks else op)
    return block.with_ops(writer.close(outside))


def _barriers(op: Op, made: Builder, writer: Builder, *names: str) -> list[tuple[Value, Value]]:
    """(a barrier for two arrivals, its phase now) of each name."""
    number, zero, found = len(made.ops), writer.constant(0, I32, op.site), []
    for name in names:
        array = made.emit("alloc_barriers", (1, 2), op.site, label=f"{name}{number}")
        one = writer.emit("barrier_index", (array, zero), op.site)
        found.append((one, writer.emit("barrier_phase", (one, ), op.site, label="phase")))
    return found


def _wait_alone(op: Op, made: Builder, writer: Builder) -> None:
    ((done, phase), ) = _barriers(op, made, writer, "done")
    writer.emit("barrier_arrive", (done, 1, op.predicate), op.site)
    writer.ops.append(_without_wait(op))
    writer.emit("tcgen05_commit", (done, op.predicate), op.site)
    writer.emit("barrier_wait", (done, phase, op.predicate), op.site)


def _without_wait(op: Op) -> Op:
    return replace(op, attrs={name: value for name, value in op.attrs.items() if name != "waits"})


def _wait(op: Op, made: Builder, writer: Builder, both: bool) -> None:
    site = op.site
    (done, phase), *called = _barriers(op, made, writer, "pair_done", *["pair_called"] * both)
    writer.emit("barrier_arrive", (done, 1, op.called), site)
    if called:
        writer.emit("remote_arrive", (called[0][0], 1, op.leader, op.called), site)
    writer.ops.append(_without_wait(op))
    writer.emit("tcgen05_commit_pair", (done, (op.leader, op.peer), op.predicate), site)
    writer.emit("barrier_wait", (done, phase, op.called), site)
    if called:
        writer.emit("barrier_wait", (*called[0], op.predicate), site)
