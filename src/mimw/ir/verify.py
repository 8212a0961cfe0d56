"""Checks a program after every pass: each op has a row, its operands, attributes and results are what the row declares, and each
value is defined first.

Input: a program. Output: nothing, or `InvalidProgram` with the guilty op:

    InvalidProgram at kernel.py:7: operand 'barrier' is a value of type buffer<bf16[64]>, and should be Barrier
      >> barrier_wait barrier=%tile, phase=%0

A complaint is a bug of ours, never of the user's.
"""

from __future__ import annotations

from weakref import WeakSet

from ..errors import InvalidProgram
from .core import Block, Op, Program, Value
from .operands import attribute_problem, problem
from .ops import OPS, result_types
from .printer import print_op

_BLOCKS = {"if": (2, ), "for": (1, ), "while": (2, ), "reduce": (1, ), "scan": (1, ), "map_elementwise": (1, )}
_RIGHT: WeakSet[Program] = WeakSet()


def verify(program: Program, known: set[Op] | None = None) -> None:
    """Raise `InvalidProgram` at the first op that breaks a rule.

    `known` are ops that are right in themselves, and gains those of this program: an op never changes, so a run of passes looks at
    each op's own row once, and after every pass only at the order of definitions and uses. Nor does a program change: one that was
    right is right.
    """
    known = set() if known is None else known
    if program in _RIGHT:
        known.update(program.walk())
        return
    _block(program.body, {param.value for param in program.params}, False, known)
    _RIGHT.add(program)


def _complain(op: Op, what: str) -> None:
    raise InvalidProgram(what, op=print_op(op), site=op.site)


def _block(block: Block, outside: set[Value], in_task: bool, known: set[Op]) -> None:
    defined = outside | set(block.args)
    for index, op in enumerate(block.ops):
        if op not in known:
            _op(op)
            known.add(op)
        for operand in op.operands:
            if operand not in defined:
                _complain(op, f"{operand!r} is used before it is defined")
        if op.name in ("yield", "condition") and index != len(block.ops) - 1:
            _complain(op, "a terminator stands before the end of its block")
        if op.blocks:
            if op.name == "warp_specialize" and in_task:
                _complain(op, "task regions do not nest")
            for inner in op.blocks:
                _block(inner, defined, in_task or op.name == "warp_specialize", known)
        defined.update(op.results)


def _op(op: Op) -> None:
    """What can be said of an op without what is around it."""
    row = OPS.get(op.name)
    if row is None:
        raise InvalidProgram(f"no op is named {op.name!r}", op=op.name, site=op.site)
    wrong = problem(row.operands, op.args) or attribute_problem(row.attributes, op.attrs)
    if wrong:
        _complain(op, wrong)
    expected = result_types(op.name, op.args, op.attrs)
    if tuple(result.type for result in op.results) != tuple(expected):
        _complain(op, f"results should have the types {tuple(map(str, expected))}")
    if op.name in _BLOCKS and len(op.blocks) not in _BLOCKS[op.name]:
        _complain(op, f"{len(op.blocks)} regions")
    if op.name == "warp_specialize" and len(op.attrs["tasks"]) != len(op.blocks):
        _complain(op, "as many tasks as regions are needed")
    if op.blocks:
        _yields(op)


def _yields(op: Op) -> None:
    wanted = {"if": op.results, "for": op.results, "while": (), "warp_specialize": op.results}.get(op.name)
    if wanted is None:
        return
    for block in op.blocks[:1] if op.name == "warp_specialize" else op.blocks:
        if op.name != "while" and [value.type for value in block.yielded] != [value.type for value in wanted]:
            _complain(op, f"a region yields {[str(v.type) for v in block.yielded]}")
