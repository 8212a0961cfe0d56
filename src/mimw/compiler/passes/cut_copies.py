"""Asynchronous copies whose mask cuts through the piece that the chip moves at least.

Input: a program and its target. Output: the copies by threads that have to go through registers. For example:

    tlx.async_load(p + at, tile, mask=at < n)       of bf16: cp.async moves two elements at once, and n may be odd
"""

from __future__ import annotations

from ...ir import Op, Program
from ...target import Target
from ..analysis import uses_of
from ..analysis.mask_runs import mask_run
from ..analysis.tile_runs import runs_of


def cut_copies(program: Program, target: Target) -> frozenset[Op]:
    """Every copy of a tile of pointers into a buffer that has to go through registers because of its mask."""
    uses, found = uses_of(program), set()       # `mask_run` is asked first: it looks at one mask, `runs_of` at the whole program
    for op in uses.ops:
        if op.row.copy != "in" or "mask" not in op.row.places or op.mask is None:
            continue
        size = op.pointer.type.element.pointee.bytes
        least = min((piece // size for piece in target.copy_pieces if piece % size == 0), default=None)
        if least is None or mask_run(uses, op.mask) < least and runs_of(program)[op.mask].axes[-1].same < least:
            found.add(op)
    return frozenset(found)
