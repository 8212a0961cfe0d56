"""The section of `mimw explain` on shared memory traffic: which op reads or writes which buffer, and the bank conflicts.

Input: a compiled kernel. Output: a line for each access to a whole buffer, with the excess accesses of one wavefront:

       0  line 11    local_load   tile             blocked(each (1,), threads (32,), warps (4,), order (0,))

On NVIDIA the count is Triton's. On AMD it is that of `constraints.bank_counts`, which knows the phases of each chip, and of what a
matrix instruction takes the layout is the finished module's.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

from ...ir import Op, Value
from ...ir.layouts import RegisterLayout, SharedLayout

HEADING = "Bank conflicts (excess accesses a wavefront, in the layouts above; Triton may improve on those)"


@dataclass(frozen=True)
class _Row:
    """An op that reads or writes the whole buffer `alloc`, seen in the layout `shared`, by a tile in the layout `tile`."""

    op: Op
    alloc: Value
    tile: RegisterLayout
    shared: SharedLayout


def conflict_text(compiled: Any) -> str:
    """One line for each local_load and local_store of a whole buffer, and one for each buffer whose layout was found for its
    accesses as Triton left them; empty without any."""
    rows = _rows(compiled)
    counts = (_by_triton if compiled.target.backend == "cuda" else _by_phases)(rows, compiled) if rows else []
    lines = [f"{'?' if count is None else count:>4}  line {row.op.site.line:<5} {row.op.name:<12} "
             f"{row.alloc.name or 'a buffer':<16} {tile}" for row, (count, tile) in zip(rows, counts, strict=True)]
    return "\n".join(lines + [
        f"{alloc.name or 'a buffer'}: {now} wavefronts a warp for all its accesses in the layout that was found for them, "
        f"{before} in its default" for alloc, (now, before) in compiled.layouts.wavefronts.items()])


def _rows(compiled: Any) -> list[_Row]:
    from ...compiler.constraints.views import find_views
    from ...compiler.lowering import transposed

    views, layouts = find_views(compiled.program), compiled.layouts
    rows = []
    for op in compiled.program.walk():
        if not op.row.moves_whole_buffers:
            continue
        buffer = op.buffer
        if len(views.get(buffer, ())) != 1:
            continue
        (view, ) = views[buffer]
        whole = view.alloc.type.shape
        if view.alloc in layouts.wavefronts or view.alloc not in layouts.shared or len(view.dims) != len(whole):
            continue
        if tuple(whole[dim] for dim in view.dims) != buffer.type.shape:
            continue
        tile = layouts.registers[op.result] if op.results else layouts.wanted(op, op.operands.index(op.value))
        rows.append(_Row(op, view.alloc, tile, transposed(layouts.shared[view.alloc], view.dims)))
    return rows


def _by_triton(rows: list[_Row], compiled: Any) -> list[tuple[int | None, str]]:
    from ...compiler.pipeline import gpu_target
    from ...compiler.triton_port.bank_conflicts import bank_conflicts

    accesses = [(row.tile, row.shared, row.op.buffer.type.shape, 8 * row.op.buffer.type.element.bytes) for row in rows]
    return [(count, str(row.tile)) for row, count in zip(rows, bank_conflicts(accesses, gpu_target(compiled.target)), strict=True)]


def _by_phases(rows: list[_Row], compiled: Any) -> list[tuple[int | None, str]]:
    """Turns that phases take besides the first, on average and rounded up."""
    from ...compiler.constraints.bank_counts import TileAccess, bank_access, conflicts
    from ...compiler.pipeline.feedback import operand_reads

    operands, found = operand_reads(compiled.program, compiled.stages["ttgir"]), []
    for row in rows:
        type_ = row.op.buffer.type
        read = operands.get(row.alloc) if row.op.results else None
        seen = TileAccess(row.tile, writes=bool(row.op.row.writes)) if read is None else read
        shape, layout = (type_.shape, row.shared) if read is None else (row.alloc.type.shape, compiled.layouts.shared[row.alloc])
        access = bank_access(seen, shape, type_.element.bytes, compiled.target)
        counted = access and conflicts(access, layout, shape, type_.element.bytes, compiled.target)
        what = row.tile if read is None else f"operand {'AB'[read.operand]} of a matrix instruction"
        found.append((counted and ceil(counted[0] / counted[1]) - 1, str(what)))
    return found
