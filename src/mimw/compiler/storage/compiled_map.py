"""Pieces of shared memory from Triton's allocator, named after the author's allocations and lines.

Input: a program, its shared plan and the pieces (`triton_port.allocation.Piece`). Output: rows, one for each allocation
and one for each line that needs scratch:

    compiled_rows(program, plan, pieces)
    Row("tile", "buffer", 0, 32768, the line of the allocation)
    Row("convert_layout of kernel.py:9", "scratch", 32768, 36864, line 9)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ...ir import Program, Site
from .lifetimes import SharedEntry, SharedPlan

# What has scratch but no line of its own: the arguments that tasks are handed, and the word by which their warps are woken.
_OF_TASKS = ("warp_specialize", "func")
_LIBRARY = "/triton/language/"


@dataclass(frozen=True)
class Row:
    """Bytes [start, end) and their use: `entry` is the author's allocation, None for the scratch of Triton's `op`; `sites`
    holds its line, if there is one. Pieces of scratch that are not needed together share bytes."""

    name: str
    kind: str
    start: int
    end: int
    sites: tuple[Site, ...] = ()
    entry: SharedEntry | None = None
    op: str = ""

    @property
    def size(self) -> int:
        return self.end - self.start


def compiled_rows(program: Program, plan: SharedPlan, pieces: Iterable[Any]) -> list[Row]:
    """All rows by offset, the largest of one place first. An allocation without a use in Triton's module has none."""
    ops = list(program.walk())
    entries = {entry.value: entry for entry in plan.entries}
    rows: list[Row] = []
    needs: dict[tuple, int] = {}
    for piece in pieces:
        made = ops[piece.number] if 0 <= piece.number < len(ops) else None
        entry = next((entries[result] for result in made.results if result in entries), None) if made and piece.is_buffer else None
        if entry is not None:
            rows.append(Row(entry.name, entry.kind, piece.start, piece.start + entry.bytes, (entry.site, ), entry))
            continue
        site = made.site if made else Site(piece.file, piece.line, max(0, piece.column - 1)) if piece.line else None
        key = (piece.start, piece.op.rpartition(".")[2], site)
        needs[key] = max(needs.get(key, 0), piece.end - piece.start)
    rows += [_scratch(*key, size) for key, size in needs.items()]
    return sorted(rows, key=lambda row: (row.start, -row.size))


def _scratch(start: int, op: str, site: Site | None, size: int) -> Row:
    if op in _OF_TASKS:
        op, name = "tasks", "starting the tasks"
    else:
        name = f"{op} of {short(site)}" if site else op
    return Row(name, "scratch", start, start + size, (site, ) if site else (), None, op)


def written(site: Site) -> Site:
    """The author's line: the first of the chain that does not stand in Triton's own library, as the inside of `tl.sum` does."""
    return next((line for line in site.chain() if _LIBRARY not in line.file), site)


def short(site: Site) -> str:
    """The author's line without the folder of its file."""
    line = written(site)
    return f"{line.file.rpartition('/')[2]}:{line.line}" if line.file else f"line {line.line}"
