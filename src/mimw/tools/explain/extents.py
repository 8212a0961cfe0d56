"""The section about tiles whose extents are no powers of two, and the share of each that is idle.

Input: a program before any pass. Output: a line for each shape of such tiles; "" if there is none. For example:

    [64, 176]    in [64, 256]: 31% of its elements idle        kernel.py:12, :18
"""

from __future__ import annotations

from ...ir import Op, Program, Site
from ...ir.extents import idle_share, odd_tiles, padded
from .mapped import lines_of

HEADING = "Tiles of other extents than powers of two"


def extents_text(program: Program) -> str:
    """The shapes, each with the tile that holds it and where such tiles are made."""
    shapes = dict.fromkeys(type_.shape for type_ in odd_tiles(program))
    rows = [(str([*shape]), f"in {[*padded(shape)]}: {idle_share(shape):.0%} of its elements idle",
             lines_of(_places(program, shape))) for shape in shapes]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)] if rows else ()
    return "\n".join("    ".join((*(text.ljust(width) for text, width in zip(row, widths)), row[-1])) for row in rows)


def _places(program: Program, shape: tuple[int, ...]) -> list[Site]:
    return list(dict.fromkeys(op.site for op in program.walk() if _makes(op, shape)))


def _makes(op: Op, shape: tuple[int, ...]) -> bool:
    return any(getattr(value.type, "shape", ()) == shape for value in op.results)
