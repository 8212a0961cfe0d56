"""The ops of raw bodies as the table in docs/RAW_BODIES.md has them.

Input: nothing. Output: `python docs/support/raw_ops.py` writes the lines between the page's marks; a test compares them:

    | `scf` | `condition`, `else_`, `for_`, `if_`, `while_`, `yield_` |
"""

from __future__ import annotations

from pathlib import Path

from mimw.language.tle.body.dialect import DIALECTS, Op

PAGE = Path(__file__).parents[1] / "RAW_BODIES.md"
_BEGIN, _END = "<!-- ops -->\n", "<!-- end of ops -->"


def table() -> str:
    """A line for each dialect that has ops."""
    rows = {name: sorted(op for op, value in vars(dialect).items() if isinstance(value, Op)) for name, dialect in DIALECTS.items()}
    return "".join(f"| `{name}` | {', '.join(f'`{op}`' for op in ops)} |\n" for name, ops in rows.items() if ops)


def shown() -> str:
    """What the page has."""
    return PAGE.read_text().split(_BEGIN)[1].split(_END)[0]


if __name__ == "__main__":
    before, rest = PAGE.read_text().split(_BEGIN)
    PAGE.write_text(before + _BEGIN + table() + _END + rest.split(_END)[1])
