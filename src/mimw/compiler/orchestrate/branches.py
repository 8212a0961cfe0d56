"""A branch that all programs of a launch take alike is taken once, by the host: plain program to plain program.

Input: a plain program. Output: `Taken`: the program with the ops of such branches in place of them, and what the host has to ask of
each launch. For example, of a kernel that has a way of its own for sizes that its tile divides:

    if M % 128 == 0 and K % 64 == 0:            becomes     a_desc = tl.make_tensor_descriptor(a, ..)
        a_desc = tl.make_tensor_descriptor(a, ..)           ..
        ..                                                  and the host asks that M % 128 is 0, and K % 64
    else: ..

So descriptors that such a branch makes stand in front of all loops, and its loads can go to a producer. A launch for which the
condition does not hold takes the plain kernel. Conditions are comparisons of numbers that arguments alone decide, and several of
these by `and`; a branch for which `!=` or `or` asks stays one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...ir import Block, Op, Program, Scalar, Value
from ...ir.flow import terminator
from ..analysis.address_forms import NoForm, Within
from ..analysis.comparisons import FAR, rest_of
from ..analysis.pointer_boxes import ranges_of
from ..analysis.remarks import Remark


@dataclass(frozen=True)
class Taken:
    """`program` without the branches that are taken; the same object if there is none. `assumed` is about the values of that
    program, which keeps what its conditions take."""

    program: Program
    assumed: tuple[Within, ...] = ()
    remarks: tuple[Remark, ...] = ()


def taken(program: Program) -> Taken:
    """The program with the first block of each branch at its top whose condition arguments decide, and that makes descriptors and
    multiplies."""
    assumed: list[Within] = []
    remarks: list[Remark] = []
    env: dict[Value, Value] = {}
    ops = tuple(_opened(program, program.body, assumed, remarks, env))
    if not remarks:
        return Taken(program)
    body = _renamed(Block(program.body.args, ops), env)
    return Taken(replace(program, body=body), tuple(dict.fromkeys(assumed)), tuple(remarks))


def _opened(program: Program, block: Block, assumed: list[Within], remarks: list[Remark], env: dict[Value, Value]) -> Iterator[Op]:
    """The ops of a block, with those of branches that are taken in their places."""
    for op in block.ops:
        asked = _asked(program, op)
        if asked is None:
            yield op
            continue
        assumed += asked
        remarks.append(Remark("this branch is taken at each launch for which its condition holds; other launches take the plain "
                              "kernel", op.site))
        inside = op.blocks[0]
        for one in _opened(program, inside, assumed, remarks, env):
            if one is not terminator(inside):
                yield one
        env.update(zip(op.results, inside.yielded))


def _asked(program: Program, op: Op) -> tuple[Within, ...] | None:
    """The conditions on a launch under which all programs take a branch; None of what stays one."""
    if op.name != "if":
        return None
    inside = {inner.name for top in op.blocks[0].ops for inner in top.walk()}
    if "make_tensor_descriptor" not in inside or "dot" not in inside:
        return None
    try:
        return _holds(program, op.condition)
    except NoForm:
        return None


def _holds(program: Program, condition: Value) -> tuple[Within, ...] | None:
    """The conditions on a launch under which a comparison of its arguments is true. Raises `NoForm`."""
    ranges = ranges_of(program)
    op = ranges.uses.definition.get(condition)
    if op is None or not isinstance(condition.type, Scalar):
        return None
    if op.name == "and":
        both = _holds(program, op.lhs), _holds(program, op.rhs)
        return None if None in both else (*both[0], *both[1])
    if not op.row.relation or "number" not in op.row.traits:
        return None
    rest, within = rest_of(ranges.forms, op)
    most = FAR
    if op.row.relation == "==":
        rest, most = ranges.forms.of(op.lhs).poly - ranges.forms.of(op.rhs).poly, 0
    if rest is None or not ranges.is_exact(rest) or ranges.unbounded(rest) is not None:
        return None
    return *within, Within(rest, 0, most, "the branch is not taken: its condition asks for another {poly}", op.site)


def _renamed(block: Block, env: dict[Value, Value]) -> Block:
    """The block with what branches gave in place of their results."""
    def now(arg):
        if isinstance(arg, tuple):
            return tuple(map(now, arg))
        while isinstance(arg, Value) and arg in env:
            arg = env[arg]
        return arg

    if not env:
        return block
    return block.with_ops(Op(op.name, now(op.args), op.results, tuple(_renamed(inner, env) for inner in op.blocks), op.attrs,
                             op.site) for op in block.ops)
