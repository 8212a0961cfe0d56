"""Operands of AMD's matrix instructions: which lane holds what of a tile.

Input: a layout as a module's text has it, and the shape of a tile. Output: a `Linear`, or None for instructions that are no square
of 16 or 32. For example:

    operand_layout("#ttg.dot_op<{opIdx = 0, parent = #ttg.amd_mfma<{.., instrShape = [32, 32, 16], ..}>, kWidth = 8}>", (64, 64))

of which a lane holds 8 elements of a row, 32 lanes are 32 rows, and the others the next 8 elements of these.

The maps are those of Triton's `mfmaDotToLinearLayout` and `wmmaDotOperandToLinearLayout`; its binding `to_linear_layout` says the
same, but a process that has called it complains of leaks when it ends.
"""

from __future__ import annotations

import json
import re

from ...ir.layouts import Linear

_OPERAND = re.compile(r"#ttg\.dot_op<\{opIdx = ([01]), parent = #ttg\.amd_(mf|wm)ma<\{(.*)\}>, kWidth = (\d+)\}>$")
_SQUARES = ([16, 16], [32, 32])


def operand_layout(text: str, shape: tuple[int, ...]) -> Linear | None:
    """The layout of an operand; None for what is no operand of such an instruction, or not followed here."""
    found = _OPERAND.match(text)
    if found is None or "tilesPerWarp" in text or len(shape) != 2:
        return None
    operand, kind, parent, wide = int(found[1]), found[2], found[3], int(found[4])
    extents = _numbers("instrShape", parent)
    if extents[:2] not in _SQUARES:
        return None
    side, lanes = extents[0], 64 if kind == "mf" else 32
    rows, depth = shape[operand], shape[1 - operand]

    def at(row: int, k: int) -> tuple[int, int]:
        """A step in the tile, none where it leaves the tile."""
        inside = (row if row < rows else 0, k if k < depth else 0)
        return inside if operand == 0 else inside[::-1]

    own = [at(0, k) for k in _bits(1, wide)]
    across = [at(row, 0) for row in _bits(1, side)] + [at(0, k) for k in _bits(wide, wide * lanes // side)]
    steps = _mfma_warps(parent, operand, side) if kind == "mf" else [side * step[operand] for step in _numbers("warp", parent)]
    apart = side << sum(step > 0 for step in steps)
    own += [at(0, k) for k in _bits(wide * lanes // side, depth)] + [at(row, 0) for row in _bits(apart, rows)]
    return Linear(tuple(own), tuple(across), tuple(at(step, 0) for step in steps), shape)


def _mfma_warps(parent: str, operand: int, side: int) -> list[int]:
    """The rows (columns of B) by which the bits of a wave's number step: waves along N first, then those along M."""
    counts = _numbers("warpsPerCTA", parent)
    return [size if axis == operand else 0 for axis in (1, 0) for size in _bits(side, side * counts[axis])]


def _bits(first: int, end: int) -> list[int]:
    """`first`, twice that, and so on below `end`."""
    found = []
    while first < end:
        found.append(first)
        first *= 2
    return found


def _numbers(name: str, text: str) -> list:
    return json.loads(re.search(name + r" = (\[[\d, \[\]]*\])", text)[1])
