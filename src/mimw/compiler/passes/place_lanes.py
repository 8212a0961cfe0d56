"""Says which elements of a tile the lanes of a warp hold, so that the simulator reduces and votes as the GPU does.

Input: a program after all other passes and its target. Output: the program with attrs `lanes` on each `warp_redux` of a tile, and
on assembly of the author's that has a `redux.sync`: by how much the row-major position of an element grows with each bit of the
lane; and with attrs `spread` on each `vote_ballot` of a tile that is not spread element by element over the threads: the same for
the bits of register, lane and warp. An example:

    warp_redux of fp32[128, 2], loaded from tensor memory        lanes=(2, 4, 8, 16, 32): 32 rows of one column
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...ir import Block, Op, OpDef, Program, Tensor
from ...ir.linear import linear_of, positions
from ...target import Target
from ..constraints import Layouts, solve_layouts

_VOTE = "vote_ballot"


def place_lanes(program: Program, target: Target) -> Program:
    """The program with the lanes of each reduction and vote of a warp; the same object where there is nothing to say."""
    asking = [op for op in program.where(_may_reduce)
              if (_reduces(op) or op.name == _VOTE) and isinstance(op.operands[0].type, Tensor)]
    if not asking:
        return program
    layouts = solve_layouts(program, target)
    found = {op: attrs for op in asking if (attrs := _attributes(op, layouts))}
    return replace(program, body=_block(program.body, found)) if found else program


def _may_reduce(row: OpDef) -> bool:
    return row.name == "warp_redux" or row.name == _VOTE or "assembly" in row.places


def _reduces(op: Op) -> bool:
    """True of a reduction over the lanes of a warp, also where it stands in the author's assembly."""
    return op.name == "warp_redux" or "assembly" in op.row.places and bool(op.values) and "redux.sync" in op.assembly


def _attributes(op: Op, layouts: Layouts) -> dict[str, Any]:
    """The attributes of an op that describe its lanes; none for a layout whose map is not known."""
    shape = op.operands[0].type.shape
    known = linear_of(layouts.wanted(op, 0), shape)
    if known is None:
        return {}
    lanes = tuple(positions(known.lanes, shape))
    if op.name != _VOTE:
        return {"lanes": lanes}
    spread = (tuple(positions(known.registers, shape)), lanes, tuple(positions(known.warps, shape)))
    return {} if _one_by_one(spread) else {"spread": spread}


def _one_by_one(spread: tuple[tuple[int, ...], ...]) -> bool:
    """True if thread t holds element t, t + threads, ..: the lanes count first, then the warps, then the registers."""
    registers, lanes, warps = spread
    bits = [step for step in (*lanes, *warps, *registers) if step]
    return bits == [1 << bit for bit in range(len(bits))]


def _block(block: Block, found: dict[Op, dict[str, Any]]) -> Block:
    return block.with_ops(_op(op, found) for op in block.ops)


def _op(op: Op, found: dict[Op, dict[str, Any]]) -> Op:
    if op in found:
        return op.with_attrs(**found[op])
    return op.with_blocks(lambda block: _block(block, found))
