"""Checks a program after every pass: each op has a row, its types follow the row's rule, each value is defined first.

A complaint is a bug of ours, never of the user's, and shows the program with the guilty op marked.
"""

from __future__ import annotations

from ..errors import InvalidProgram
from .core import Block, Op, Program, Value
from .ops import OPS, result_types
from .printer import print_op

_BLOCKS = {"if": (2, ), "for": (1, ), "while": (2, ), "reduce": (1, ), "scan": (1, ), "map_elementwise": (1, )}


def verify(program: Program) -> None:
    """Raise `InvalidProgram` at the first op that breaks a rule."""
    _block(program.body, {param.value for param in program.params}, in_task=False)


def _complain(op: Op, problem: str) -> None:
    raise InvalidProgram(problem, op=print_op(op), site=op.site)


def _block(block: Block, defined: set[Value], in_task: bool) -> None:
    defined = defined | set(block.args)
    for index, op in enumerate(block.ops):
        _op(op, defined, in_task)
        if op.name in ("yield", "condition") and index != len(block.ops) - 1:
            _complain(op, "a terminator stands before the end of its block")
        defined.update(op.results)


def _op(op: Op, defined: set[Value], in_task: bool) -> None:
    row = OPS.get(op.name)
    if row is None:
        _complain(op, f"no op is named {op.name!r}")
    if len(op.args) > len(row.params):
        _complain(op, f"{len(op.args)} arguments for the parameters {row.params}")
    for operand in op.operands:
        if operand not in defined:
            _complain(op, f"{operand!r} is used before it is defined")
    expected = result_types(op.name, op.args, op.attrs)
    if tuple(result.type for result in op.results) != tuple(expected):
        _complain(op, f"results should have the types {tuple(map(str, expected))}")
    if op.name in _BLOCKS and len(op.blocks) not in _BLOCKS[op.name]:
        _complain(op, f"{len(op.blocks)} regions")
    if op.name == "warp_specialize":
        if in_task:
            _complain(op, "task regions do not nest")
        if len(op.attrs["tasks"]) != len(op.blocks):
            _complain(op, "as many tasks as regions are needed")
    for block in op.blocks:
        _block(block, defined, in_task or op.name == "warp_specialize")
    _yields(op)


def _yields(op: Op) -> None:
    wanted = {"if": op.results, "for": op.results, "while": (), "warp_specialize": op.results}.get(op.name)
    if wanted is None:
        return
    for block in op.blocks[:1] if op.name == "warp_specialize" else op.blocks:
        if op.name != "while" and [value.type for value in block.yielded] != [value.type for value in wanted]:
            _complain(op, f"a region yields {[str(v.type) for v in block.yielded]}")
