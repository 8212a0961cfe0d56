"""Products of pairs of CTAs that are done when their word is over, as commits and waits.

Input: a program. Output: the program in which nobody waits by a product:

    tcgen05_mma_pair %a, %b, %acc .. waits=True       %phase = barrier_phase %done; %turn = barrier_phase %called
                                                      barrier_arrive %done; remote_arrive %called of the even CTA
                                          becomes     tcgen05_mma_pair ..; tcgen05_commit_pair %done ..
                                                      barrier_wait %done, %phase; in the even CTA barrier_wait %called, %turn

Each such product has a barrier `done` of its own in every CTA, for two arrivals: the commit's, and this CTA's own. So the phase
stays while the CTA looks which one it is. The even CTA issues the next product only when both have called this one: a second
commit would take the place of the odd CTA's own arrival, which might then wait for ever. Both arrive before the even one issues, so
neither can be a call ahead at `called`. Who does not call the product, the odd CTA under an `if` that asks for the rank, waits for
nothing and is waited for by nobody: there `called` is left out.
"""

from __future__ import annotations

from dataclasses import replace

from ..analysis.flows import Flows
from ..ir import Block, Op, Program, Value
from ..ir.types import I32, Barrier


def wait_pairs(program: Program) -> Program:
    """The program with such waits; the same object if there are none."""
    if not any(_waits(op) for op in program.walk()):
        return program
    ranks = {result for op in program.walk() if _own(op) for result in op.results}
    made: list[Op] = []
    body = _block(program.body, made, Flows(program).reached(ranks), True)
    return replace(program, body=replace(body, ops=(*made, *body.ops)))


def _own(op: Op) -> bool:
    """Whether the CTAs of a pair get different values out of the op itself."""
    if op.name == "cluster_cta_rank":
        return True
    return op.name == "get_program_id"


def _waits(op: Op) -> bool:
    return {"dot", "pairs"} <= op.row.traits and bool(op.attrs.get("waits"))


def _block(block: Block, made: list[Op], ranks: set[Value], both: bool) -> Block:
    """The block with waits. `ranks` are the values that differ between CTAs; `both`: both CTAs of a pair come here."""
    ops: list[Op] = []
    for op in block.ops:
        if _waits(op):
            ops += _waited(op, made, both and op.called not in ranks)
        elif op.blocks:
            inside = both and not (op.name == "if" and op.condition in ranks)
            ops.append(op.with_blocks(lambda inner, inside=inside: _block(inner, made, ranks, inside)))
        else:
            ops.append(op)
    return replace(block, ops=tuple(ops))


def _waited(op: Op, made: list[Op], both: bool) -> list[Op]:
    before, number = [], len(made)
    zero = Value(I32)
    before.append(Op("constant", (0, I32), (zero, ), site=op.site))

    def barrier(name: str) -> tuple[Value, Value]:
        """(a barrier for two arrivals, its phase now)."""
        array, one, phase = Value(Barrier(1), f"{name}{number}"), Value(Barrier(0)), Value(I32, "phase")
        made.append(Op("alloc_barriers", (1, 2), (array, ), site=op.site))
        before.append(Op("barrier_index", (array, zero), (one, ), site=op.site))
        before.append(Op("barrier_phase", (one, ), (phase, ), site=op.site))
        return one, phase

    product = replace(op, attrs={name: value for name, value in op.attrs.items() if name != "waits"})
    done, phase = barrier("pair_done")
    called = barrier("pair_called") if both else None
    arrive = [Op("barrier_arrive", (done, 1, op.called), site=op.site)]
    behind = [Op("barrier_wait", (done, phase, op.called), site=op.site)]
    if called:
        arrive.append(Op("remote_arrive", (called[0], 1, op.leader, op.called), site=op.site))
        behind.append(Op("barrier_wait", (*called, op.predicate), site=op.site))
    commit = Op("tcgen05_commit_pair", (done, (op.leader, op.peer), op.predicate), site=op.site)
    return [*before, *arrive, product, commit, *behind]
