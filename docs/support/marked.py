"""The part of a page of docs/ that a script makes, between two marks: written, or compared.

    write_or_check(PAGE, BEGIN, END, text(), check=True)        1 if the page says something else

Input: the page, the lines in front of the part and behind it, the part. Output: the page, wrapped, or an exit status.
"""

from __future__ import annotations

from pathlib import Path

from docs.support.reflow import reflow


def write_or_check(page: Path, begin: str, end: str, text: str, check: bool) -> int:
    """Put `text` between `begin` and `end`; with `check` leave the page alone, and give 1 if it is stale."""
    now = page.read_text()
    before, _, rest = now.partition(begin)
    made = reflow(before + begin + text + end + rest.partition(end)[2])
    if check:
        return int(made != now)
    page.write_text(made)
    return 0
