"""The section of `mimw explain` on shared memory: which bytes hold what, as Triton's allocator decided, and for how long."""

from __future__ import annotations

from typing import Any

HEADING = "Shared memory"


def memory_text(compiled: Any) -> str:
    """The storage map of a compiled kernel, with what Triton takes for itself as `scratch`.

    Only NVIDIA's allocator can be asked again; for other chips the allocations follow each other in program order, and the text
    says so.
    """
    from ..analysis import shared_plan
    from ..report import storage_map
    from ..triton_port.allocation import allocation

    plan = shared_plan(compiled.program)
    if compiled.target.backend != "cuda":
        return storage_map(stacked(plan)) + "in program order; Triton decides the final offsets\n"
    pieces = allocation(compiled.stage("ttgir"), compiled.target.arch)
    rows, left = placed(plan, pieces)
    length = sum(1 for _ in compiled.program.walk())
    return storage_map(rows + scratch(left, pieces, compiled.metadata.shared, length))


def placed(plan: Any, pieces: list) -> tuple[list[tuple], list]:
    """The allocations of a program at their final offsets, as `report.storage_map` takes them, and the pieces left over.

    A piece belongs to the allocation of its line and column; of several there (a helper called twice) to one of its size.
    """
    rows, left = [], list(pieces)
    for entry in plan.entries:
        here = [piece for piece in left if piece.is_buffer and (piece.file, piece.line, piece.column) ==
                (entry.site.file, entry.site.line, entry.site.column + 1)]
        piece = next((piece for piece in here if piece.end - piece.start == entry.bytes), here[0] if here else None)
        if piece is not None:  # else Triton found nobody who uses it
            left.remove(piece)
            rows.append((entry.name, piece.start, entry.bytes, entry.first, entry.last, entry.kind))
    return rows, left


def scratch(left: list, pieces: list, total: int, length: int) -> list[tuple]:
    """Rows for what no allocation of the author's explains, by where it starts.

    Triton tells no size of scratch: it reaches at most to the next buffer, or to the end. How long it is needed is not told
    either, so it is drawn over all `length` ops.
    """
    rows = []
    for start in sorted({piece.start for piece in left}):
        ops = dict.fromkeys(piece.op for piece in left if piece.start == start)
        end = min([piece.start for piece in pieces if piece.is_buffer and piece.start > start] + [total])
        name = ", ".join(ops) if len(ops) < 4 else f"{len(ops)} ops"
        rows.append((name, start, max(1, end - start), 0, length - 1, "scratch"))
    return rows


def stacked(plan: Any) -> list[tuple]:
    """The allocations of a program one behind the other."""
    rows, offset = [], 0
    for entry in plan.entries:
        rows.append((entry.name, offset, entry.bytes, entry.first, entry.last, entry.kind))
        offset += entry.bytes
    return rows
