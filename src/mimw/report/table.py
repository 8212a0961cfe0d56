"""Tables as plain text, the same in a terminal, a log and a golden.

Input: headers and rows. Output: aligned columns under a ruled header, as `table(("task", "warps"), [("mma", 8)],
right=("warps", ))`:

      task   warps
      ────────────
      mma        8
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO


@dataclass(frozen=True)
class Table:
    """A table as data, which `str` draws as text and a page as HTML; the columns named in `right` are set to the right."""

    headers: tuple[str, ...]
    rows: tuple[tuple, ...]
    right: tuple[str, ...] = ()

    def __str__(self) -> str:
        return table(self.headers, self.rows, self.right)


def table(headers: Sequence[str], rows: Sequence[Sequence[object]], right: Sequence[str] = (), indent: int = 2) -> str:
    """Aligned columns under a ruled header; the columns named in `right` are set to the right."""
    from rich import box
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table

    drawn = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for header in headers:
        drawn.add_column(header, justify="right" if header in right else "left", no_wrap=True)
    for row in rows:
        drawn.add_row(*(str(cell) for cell in row))
    out = StringIO()
    # In a notebook rich would show the table beside the text, and leave it out of the text, unless this argument is False.
    Console(file=out, width=400, color_system=None, force_terminal=False, force_jupyter=False, markup=False, highlight=False).print(
        Padding(drawn, (0, 0, 0, indent), expand=False))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())
