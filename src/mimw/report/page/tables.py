"""Tables and texts of the page: what they name is linked to the lines where it is used.

Input: tables as data, texts, and the keys of names. Output: HTML. For example:

    table_html(Table(("buffer", "bytes"), (("tile", 512), )), {"tile": "0.7 0.9"})      <table>... <tr data-l="0.7 0.9" ...>
    text_html("a loop at gemm.py:41", lines)                                            <pre>a loop at <a href="#L0.41" ...
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from ...compiler.analysis import barrier_arrays, uses_of
from ...compiler.analysis.barrier_ops import task_names
from ...ir import Program
from ..table import Table
from .lines import Lines, attribute
from .maps import StorageMap


def table_html(table: Table, names: Mapping[str, str]) -> str:
    """The table; a row whose first cell is a known name is linked to the lines of that name."""
    right = {index for index, header in enumerate(table.headers) if header in table.right}
    head = "".join(f'<th scope="col"{_side(index in right)}>{escape(header)}</th>' for index, header in enumerate(table.headers))
    rows = "".join(_row(row, right, names.get(str(row[0]), "")) for row in table.rows)
    return (f'<div class="scroll" tabindex="0" role="group" aria-label="table of {escape(table.headers[0])}"><table>'
            f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>")


def _row(row: tuple, right: set[int], keys: str) -> str:
    cells = "".join(f"<td{_side(index in right)}>{_cell(cell)}</td>" for index, cell in enumerate(row))
    linked = f'{attribute(keys)} tabindex="0" aria-label="{escape(str(row[0]))}: show its lines"' if keys else ""
    return f"<tr{linked}>{cells}</tr>"


def _cell(cell: object) -> str:
    return f"{cell:,}" if isinstance(cell, int) else escape(str(cell))


def _side(is_number: bool) -> str:
    return ' class="number"' if is_number else ""


def text_html(text: str, lines: Lines) -> str:
    """A text as it stands, with links where it names lines of the page."""
    return f'<pre class="text" tabindex="0">{lines.linked(text)}</pre>'


def task_keys(program: Program, lines: Lines) -> dict[str, str]:
    """The lines of each task, by the name that its lane has in a timeline."""
    inside: dict[str, list] = {"default": []}
    for region in program.named("warp_specialize"):
        for name, block in zip(task_names(region), region.blocks):
            if not region.attrs.get("internal"):
                inside.setdefault(name, []).extend(one for op in block.ops for one in op.walk())
    known = {op for ops in inside.values() for op in ops}
    outside = [op for op in program.walk() if op not in known and op.site is not program.site]
    inside["default"] += outside
    return {name: lines.keys(*dict.fromkeys(op.site for op in ops)) for name, ops in ({"kernel": outside} | inside).items()}


def name_keys(program: Program, tasks: Mapping[str, str], maps: list[StorageMap], lines: Lines) -> dict[str, str]:
    """The lines of all that tables name: buffers, barriers, pipes and tasks."""
    found = {region.name: lines.keys(*region.sites) for one in maps for region in one.regions}
    for array in barrier_arrays(program, uses_of(program)):
        keys = lines.keys(array.op.site, *(access.op.site for access in array.accesses))
        side = array.pipe
        for name in (array.name, str(side), side.name) if side is not None else (array.name, ):
            found[name] = " ".join(dict.fromkeys(f"{found.get(name, '')} {keys}".split()))
    return {**found, **tasks}
