"""What Triton's allocator made of a program: its pieces of shared memory, named after the author's allocations and lines.

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

from ..analysis.shared import SharedEntry, SharedPlan
from ..ir import Program, Site

# What has scratch but no line of its own: the arguments that tasks are handed, and the word by which their warps are woken.
_OF_TASKS = ("warp_specialize", "func")
_LIBRARY = "/triton/language/"


@dataclass(frozen=True)
class Row:
    """Bytes [start, end) and what they are for: `entry` is the author's allocation, None for the scratch of Triton's `op` at
    the lines `sites` (several, if a helper is called from several). Scratch that is not needed at one time shares its bytes."""

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
    """All rows by offset, the largest of one place first. An allocation that Triton found nobody to use has none."""
    rows, left = _placed(plan, list(pieces))
    lines: dict[tuple[str, int, int], list[Site]] = {}
    for op in program.walk():
        lines.setdefault((op.site.file, op.site.line, op.site.column + 1), []).append(op.site)
    needs: dict[tuple, int] = {}
    for piece in left:
        key = (piece.start, piece.op.rpartition(".")[2], (piece.file, piece.line, piece.column))
        needs[key] = max(needs.get(key, 0), piece.end - piece.start)
    rows += [_scratch(*key, size, lines.get(key[2], ())) for key, size in needs.items()]
    return sorted(rows, key=lambda row: (row.start, -row.size))


def _placed(plan: SharedPlan, left: list) -> tuple[list[Row], list]:
    """The rows of the plan's allocations, and the pieces left over.

    A piece belongs to the allocation of its line and column; of several there (a helper called twice) to one of its size.
    """
    rows = []
    for entry in plan.entries:
        here = [piece for piece in left if piece.is_buffer and (piece.file, piece.line, piece.column) ==
                (entry.site.file, entry.site.line, entry.site.column + 1)]
        piece = next((piece for piece in here if piece.end - piece.start == entry.bytes), here[0] if here else None)
        if piece is not None:
            left.remove(piece)
            rows.append(Row(entry.name, entry.kind, piece.start, piece.start + entry.bytes, (entry.site, ), entry))
    return rows, left


def _scratch(start: int, op: str, place: tuple[str, int, int], size: int, sites: Iterable[Site]) -> Row:
    file, line, column = place
    found = tuple(dict.fromkeys(sites)) or ((Site(file, line, max(0, column - 1)), ) if line else ())
    if op in _OF_TASKS:
        op, name = "tasks", "starting the tasks"
    else:
        name = f"{op} of {short(found[0])}" if found else op
    return Row(name, "scratch", start, start + size, found, None, op)


def written(site: Site) -> Site:
    """The author's line: the first of the chain that does not stand in Triton's own library, as the inside of `tl.sum` does."""
    return next((here for here in site.chain() if _LIBRARY not in here.file), site)


def short(site: Site) -> str:
    """The author's line without the folder of its file."""
    here = written(site)
    return f"{here.file.rpartition('/')[2]}:{here.line}" if here.file else f"line {here.line}"
