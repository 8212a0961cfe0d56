"""The section about words that become others on the chip, with their lines.

Input: a program before any pass, and a chip. Output: a line for each word and what it becomes; "" if there is none. For example:

    async_dot                gemm.py:31, :44    a product at once of what the buffers hold
"""

from __future__ import annotations

from pathlib import Path

from ...compiler.analysis.mapped_words import mapped_words
from ...ir import Program, Site
from ...target import Target

HEADING = "Calls that this chip replaces by others"


def mapped_text(program: Program, target: Target) -> str:
    places: dict[tuple[str, str], list[Site]] = {}
    for one in mapped_words(program, target):
        places.setdefault((one.word, one.becomes), []).append(one.site)
    rows = [(word, lines_of(sites), becomes) for (word, becomes), sites in places.items()]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)] if rows else ()
    return "\n".join("  ".join((*(text.ljust(width) for text, width in zip(row, widths)), row[-1])) for row in rows)


def lines_of(sites: list[Site]) -> str:
    """The places, a file once."""
    files: dict[str, list[str]] = {}
    for site in sites:
        lines = files.setdefault(Path(site.file).name, [])
        if f":{site.line}" not in lines:
            lines.append(f":{site.line}")
    return "; ".join(f"{file}{', '.join(lines)}" for file, lines in files.items())
