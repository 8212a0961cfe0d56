"""Says which elements of a tile the 32 lanes of a warp hold in one register, so that the simulator reduces what the GPU
reduces.

Input: a program after all other passes and its target. Output: the program with attrs `lanes` on each `warp_redux` of a
tile, and on assembly of the author's that has a `redux.sync`: by how much the row-major position of an element grows with
each bit of the lane. An example:

    warp_redux of fp32[128, 2], loaded from tensor memory        lanes=(2, 4, 8, 16, 32): 32 rows of one column
"""

from __future__ import annotations

from dataclasses import replace

from ..constraints import Layouts, solve_layouts
from ..ir import Block, Op, Program, Tensor
from ..ir.linear import linear_of, positions
from ..target import Target


def place_lanes(program: Program, target: Target) -> Program:
    """The program with the lanes of each `warp_redux`; the same object where none stands in it."""
    reduced = [op for op in program.walk() if _reduces(op) and isinstance(op.operands[0].type, Tensor)]
    if not reduced:
        return program
    layouts = solve_layouts(program, target)
    lanes = {op: found for op in reduced if (found := _lanes(op, layouts)) is not None}
    return replace(program, body=_block(program.body, lanes))


def _reduces(op: Op) -> bool:
    """True of a reduction over the lanes of a warp, also where it stands in the author's assembly."""
    return op.name == "warp_redux" or "assembly" in op.row.places and bool(op.values) and "redux.sync" in op.assembly


def _lanes(op: Op, layouts: Layouts) -> tuple[int, ...] | None:
    """By how much the position grows with each bit of the lane; None for a layout whose map is not known."""
    shape = op.operands[0].type.shape
    known = linear_of(layouts.wanted(op, 0), shape)
    return None if known is None else tuple(positions(known.lanes, shape))


def _block(block: Block, lanes: dict[Op, tuple[int, ...]]) -> Block:
    return replace(block, ops=tuple(_op(op, lanes) for op in block.ops))


def _op(op: Op, lanes: dict[Op, tuple[int, ...]]) -> Op:
    if op in lanes:
        return op.with_attrs(lanes=lanes[op])
    return op.with_blocks(lambda block: _block(block, lanes))
