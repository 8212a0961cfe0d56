"""Writes docs/race.html, the page of a check that found a race, for the site to show.

    python docs/support/report_page.py            write the page
    python docs/support/report_page.py --check    exit with 1 if a check says something else today

Input: a kernel of tests/kernels with a planted mistake. Output: what `mimw check FILE:CASE --html docs/race.html` writes.
The page is kept, as nothing is simulated while the site is built.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import mimw  # noqa: E402
from tests.kernels import tma_pipeline  # noqa: E402

PAGE = ROOT / "docs" / "race.html"


def text() -> str:
    """The page. It names files from the root of the repository, whose folder is nobody's affair."""
    kernel, grid, args, meta = tma_pipeline.released_before_the_wait()
    report = mimw.check(kernel, grid, *args, seeds=1, shrink=False, rounds=False, jobs=1, **meta)
    before = os.getcwd()
    os.chdir(ROOT)
    try:
        with tempfile.TemporaryDirectory() as folder:
            report.save_html(Path(folder, PAGE.name))
            return Path(folder, PAGE.name).read_text()
    finally:
        os.chdir(before)


def words(page: str) -> str:
    """What a page says, whatever it looks like: its style may change, and the kept page has its own."""
    return re.sub(r"<(style|script)\b.*?</\1>|<[^>]*>", " ", page, flags=re.DOTALL)


def main(arguments: list[str]) -> int:
    if arguments == ["--check"]:
        return int(words(PAGE.read_text()).split() != words(text()).split())
    PAGE.write_text(text())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
