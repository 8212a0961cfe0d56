"""The section of `mimw explain` on shared memory traffic: which op reads or writes which buffer, and the bank conflicts.

Input: a compiled kernel. Output: a line for each access to a whole buffer, with the excess accesses of one wavefront:

       0  line 11    local_load   tile             blocked(each (1,), threads (32,), warps (4,), order (0,))
"""

from __future__ import annotations

from typing import Any

HEADING = "Bank conflicts (excess accesses a wavefront, in the layouts above; Triton may improve on those)"


def conflict_text(compiled: Any) -> str:
    """One line for each local_load and local_store of a whole buffer, and one for each buffer whose layout was found for its
    accesses as Triton left them; empty without any."""
    from ...compiler.constraints.views import find_views
    from ...compiler.lowering import transposed
    from ...compiler.pipeline import gpu_target
    from ...compiler.triton_port.bank_conflicts import bank_conflicts

    if compiled.target.backend != "cuda":
        return ""
    views, layouts = find_views(compiled.program), compiled.layouts
    rows, accesses = [], []
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
        shared = transposed(layouts.shared[view.alloc], view.dims)
        rows.append((op, view.alloc, tile))
        accesses.append((tile, shared, buffer.type.shape, 8 * buffer.type.element.bytes))
    counts = bank_conflicts(accesses, gpu_target(compiled.target)) if accesses else []
    found = [f"{alloc.name or 'a buffer'}: {now} wavefronts a warp for all its accesses in the layout that was found for them, "
             f"{before} in its default" for alloc, (now, before) in layouts.wavefronts.items()]
    return "\n".join([
        f"{'?' if count is None else count:>4}  line {op.site.line:<5} {op.name:<12} {alloc.name or 'a buffer':<16} {tile}"
        for (op, alloc, tile), count in zip(rows, counts, strict=True)] + found)
