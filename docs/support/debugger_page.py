"""Writes docs/debugged.html, the page of a debugged run, for the site to show.

    python docs/support/debugger_page.py            write the page
    python docs/support/debugger_page.py --check    exit with 1 if the debugger says something else today

Input: a kernel of tests/kernels with a `breakpoint()`. Output: what `mimw debug FILE:case --do 'c; page docs/debugged.html'`
writes. The page is kept, as nothing is simulated while the site is built.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from mimw.tools.debugger.page import page  # noqa: E402
from tests.kernels import debugged  # noqa: E402

PAGE = ROOT / "docs" / "debugged.html"


def text() -> str:
    """The page. It names files from the root of the repository, whose folder is nobody's affair."""
    before = os.getcwd()
    os.chdir(ROOT)
    try:
        with debugged.session() as session:
            session.go()
            return page(session).html()
    finally:
        os.chdir(before)


def data(html: str) -> dict:
    """What a page knows of its run, whatever it looks like: its style may change, and the kept page has its own."""
    return json.loads(re.search(r'id="data">(.*?)</script>', html, re.DOTALL)[1])


def main(arguments: list[str]) -> int:
    if arguments == ["--check"]:
        return int(data(PAGE.read_text()) != data(text()))
    PAGE.write_text(text())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
