"""Checks a program after every pass: each op has a row, its operands, attributes, results and regions are what the row declares,
and each value is defined first.

Input: a program. Output: nothing, or `InvalidProgram` with the guilty op:

    InvalidProgram at kernel.py:7: operand 'barrier' is a value of type buffer<bf16[64]>, and should be Barrier
      >> barrier_wait barrier=%tile, phase=%0

A complaint is a bug of ours, never of the user's. Of a run of passes only what a pass has changed is looked at (`Known`), and of a
block that it left as it was only whether what the block uses is still defined before it.
"""

from __future__ import annotations

from weakref import WeakSet

from ..errors import InvalidProgram
from .core import Block, Op, Program, Value
from .flow import argument_types, region_name, terminator, yielded_types
from .operands import attribute_problem, problem
from .ops import OPS, result_types
from .printer import print_op
from .types import Type

_TERMINATORS = frozenset(name for name, row in OPS.items() if "terminator" in row.traits)
_RIGHT: WeakSet[Program] = WeakSet()


class Known(set[Op]):
    """Ops that are right in themselves, for a run of passes. A pass that changes one op in a loop makes the loop anew, and every
    region around it. So `faces` has what can be wrong of an op with regions besides what is in them, as keys; each op that is kept
    there keeps its attributes from becoming another object of the same id. `blocks` has, for each block that was right (in a task
    or in none), what it uses of what is outside: where that is defined, the same block is right again."""

    def __init__(self) -> None:
        super().__init__()
        self.faces: dict[tuple, Op] = {}
        self.blocks: dict[tuple[Block, bool], set[Value]] = {}


def verify(program: Program, known: set[Op] | None = None) -> None:
    """Raise `InvalidProgram` at the first op that breaks a rule.

    `known` are ops that are right in themselves, and gains those of this program: an op never changes, so a run of passes looks at
    each op's own row once, and after every pass only at the order of definitions and uses in the blocks that are new. Nor does a
    program change: one that was right is right.
    """
    known = set() if known is None else known
    if program in _RIGHT:
        known.update(program.walk())
        return
    _block(program.body, {param.value for param in program.params}, False, known)
    _RIGHT.add(program)


def _complain(op: Op, what: str) -> None:
    raise InvalidProgram(what, op=print_op(op), site=op.site)


def _block(block: Block, defined: set[Value], in_task: bool, known: set[Op]) -> set[Value]:
    """The values that the block uses from outside. `defined` are the values that may be used where the block begins, and the
    same values again when the block has been checked."""
    blocks = known.blocks if isinstance(known, Known) else {}
    if (seen := blocks.get((block, in_task))) is not None and defined.issuperset(seen):
        return seen
    used: set[Value] = set()
    inside, last = [arg for arg in block.args if arg not in defined], len(block.ops) - 1
    defined.update(inside)
    for index, op in enumerate(block.ops):
        if op not in known:
            face = _face(op) if op.blocks and isinstance(known, Known) else None
            if face is None or face not in known.faces:
                _op(op)
            known.add(op)
            if face is not None:
                known.faces[face] = op
        operands = op.operands
        if not defined.issuperset(operands):
            operand = next(operand for operand in operands if operand not in defined)
            _complain(op, f"{operand!r} is used before it is defined")
        used.update(operands)
        if index != last and op.name in _TERMINATORS:
            _complain(op, "a terminator stands before the end of its block")
        if op.blocks:
            if op.name == "warp_specialize" and in_task:
                _complain(op, "task regions do not nest")
            for inner in op.blocks:
                used |= _block(inner, defined, in_task or op.name == "warp_specialize", known)
        for result in op.results:
            if result not in defined:
                inside.append(result)
                defined.add(result)
    defined.difference_update(inside)
    used.difference_update(inside)
    blocks[block, in_task] = used
    return used


def _face(op: Op) -> tuple:
    """The key of the checks of `_op` on an op with regions: equal for two ops that differ only inside their regions."""
    return op.name, op.args, op.results, id(op.attrs), tuple((block.args, terminator(block)) for block in op.blocks)


def _op(op: Op) -> None:
    """Check an op by itself, without its context."""
    row = OPS.get(op.name)
    if row is None:
        raise InvalidProgram(f"no op is named {op.name!r}", op=op.name, site=op.site)
    wrong = problem(row.operands, op.args) or attribute_problem(row.attributes, op.attrs)
    if wrong:
        _complain(op, wrong)
    expected = result_types(op.name, op.args, op.attrs)
    if tuple(result.type for result in op.results) != tuple(expected):
        _complain(op, f"results should have the types {tuple(map(str, expected))}")
    if row.regions or op.blocks:
        _regions(op)


def _regions(op: Op) -> None:
    """The blocks of an op: as many as its row names, with the arguments and the terminators that values are handed on by."""
    if op.name == "warp_specialize":
        if len(op.attrs["tasks"]) != len(op.blocks):
            _complain(op, "as many tasks as regions are needed")
    elif len(op.blocks) != len(op.row.regions):
        _complain(op, f"{len(op.blocks)} regions, and there should be {len(op.row.regions)}")
    for index, (block, taken) in enumerate(zip(op.blocks, argument_types(op))):
        if _types(block.args) != taken:
            given = _listed(_types(block.args))
            _complain(op, f"its region '{region_name(op, index)}' takes {given}, and should take {_listed(taken)}")
    for index, (block, wanted) in enumerate(zip(op.blocks, yielded_types(op))):
        last, name = terminator(block), region_name(op, index)
        if last is not None and (last.name == "condition") != (name == "before"):
            _complain(op, f"its region '{name}' ends in a {last.name}")
        given = _types(last.values) if last is not None else ()
        if wanted is not None and given != wanted:
            _complain(op, f"its region '{name}' yields {_listed(given)}, and should yield {_listed(wanted)}")
        if name == "before" and last is None:
            _complain(op, "its region 'before' has no condition")


def _types(values: tuple[Value, ...]) -> tuple[Type, ...]:
    return tuple(value.type for value in values)


def _listed(types: tuple[Type, ...]) -> str:
    return f"({', '.join(map(str, types))})"
