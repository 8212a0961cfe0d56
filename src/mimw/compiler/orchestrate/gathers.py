"""Loads by pointers that are no box, for a producer that copies them by cp.async: rows that loaded numbers name, masks whose bound
is a loaded number.

Input: a program with boxes lifted, and its target. Output: the loads that cp.async can copy, why others cannot; and the program in
which each such load has its pieces along the last axis. For example:

    x = tl.load(a + rows[:, None] * K + ks[None, :], mask=rows[:, None] < M, other=0.0), with rows = tl.load(ids + ..)
    gathered(program, target)       {the load: None}, or a `Refused`
    turned(program, target)         of B[k, n], which lies along K: x = tl.trans(tl.load(tl.trans(pointers), tl.trans(mask)))

cp.async copies 4, 8 or 16 bytes from one address, or zeros, and thread by thread. So pieces of 4 bytes at least have to follow from
the program (`analysis.tile_runs`), and what stands for masked elements is 0. Unlike a box it takes nothing for granted of a launch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...ir import Builder, Op, Program, Scalar, Value
from ...ir.extents import is_odd
from ...target import Target
from ..analysis.pointer_boxes import is_plus_zero, is_tile_access
from ..analysis.tensor_boxes import Refused
from ..analysis.tile_runs import piece_of
from ..analysis.uses import Uses, uses_of
from .box_rewrite import CACHED
from .boxes import for_products
from .memory_order import awaited

CACHES = ("none", ".ca", ".cg")     # cache modifiers that `tlx.async_load` takes


def gathered(program: Program, target: Target) -> Mapping[Op, Refused | None]:
    """The loads by pointers of tiles of two axes that a product takes: with None where cp.async can copy them, else with the
    reason."""
    uses, wanted = uses_of(program), for_products(program)
    return {op: _why_not(program, uses, op, target) for op in program.where(lambda row: row.loads)
            if is_tile_access(op) and op in wanted and len(op.pointer.type.shape) == 2}


def turned(program: Program, target: Target) -> Program:
    """The program in which each gathered load has its pieces along its last axis; the same object where they lie there already."""
    along = {op for op, refused in gathered(program, target).items() if refused is None and piece_of(program, op)[0] == 0}
    if not along:
        return program
    b = Builder(program.site)

    def change(op: Op) -> None:
        given = {name: b.emit("trans", (getattr(op, name), (1, 0)), op.site) for name in ("pointer", "mask", "other")
                 if name in op.row.places and getattr(op, name) is not None}
        tile = Value(replace(op.result.type, shape=op.result.type.shape[::-1]), op.result.name)
        b.ops.append(replace(op.with_operands(**given), results=(tile, )))
        b.emit("trans", (tile, (1, 0)), op.site, results=op.results)

    return replace(program, body=b.anew(program.body, along, change))


def _why_not(program: Program, uses: Uses, op: Op, target: Target) -> Refused | None:
    """The reason for which cp.async cannot copy a load's tile; None if it can."""
    element = op.pointer.type.element.pointee
    if not isinstance(element, Scalar) or element.bits not in (8, 16, 32) or is_odd(op.pointer.type.shape):
        return Refused(f"a tile of {op.result.type} is none that a slot holds", op.site)
    if op.pointer.type.element.space not in ("global", "constant"):
        return Refused("it is no access to global memory", op.site)
    if bool(op.is_volatile) or str((op.cache_policy or CACHED)[1]).lower() not in CACHES:
        return Refused("it is volatile, or goes past the caches", op.site)
    if "other" in op.row.places and not is_plus_zero(uses, op.other):
        return Refused("what stands for elements outside of the mask is not 0, and cp.async writes zeros", op.site)
    if any(loop.attrs.get("tt.num_stages") == 1 for loop in uses.loops(op)):
        return Refused("its loop asks for a single stage, so nothing of it runs ahead", op.site)
    if (order := awaited(program, op)) is not None:
        return order
    _, piece = piece_of(program, op)
    least = min(target.copy_pieces)
    if piece < least:
        return Refused(f"its address or its mask may change every {piece} byte{'s' * (piece > 1)}, as far as the program shows, "
                       f"and cp.async copies {least} at least: strides, masks and first elements that 16 bytes divide would show "
                       "it", op.site)
    return None
