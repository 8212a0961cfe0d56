"""docs/ASSEMBLERS.md: what ptxas is known to get wrong, as a table made from the data of `mimw.tools.assemblers`.

    python docs/support/assemblers.py             write the table of the page
    python docs/support/assemblers.py --check     1 if it is stale
    python docs/support/assemblers.py --print     the table, printed

Input: src/mimw/tools/assemblers/known.toml. Output: a row for each entry. Needs only Python and the package.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from mimw.tools.assemblers import Defect, known

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from docs.support.marked import write_or_check
from docs.support.spaces import table

PAGE = Path(__file__).parents[1] / "ASSEMBLERS.md"
BEGIN, END = "<!-- made by docs/support/assemblers.py -->\n", "<!-- end of what is made -->\n"
_THREAD = re.compile(r"https://github\.com/([^/]+/[^/]+)/(?:issues|pull)/(\d+)")


def source(text: str) -> str:
    """A thread by its short name, another address or a file of the repository as code: the site has no links to other ones."""
    thread = _THREAD.fullmatch(text)
    return f"{thread[1]}#{thread[2]}" if thread else f"`{text}`"


def row(defect: Defect) -> list[str]:
    mend = " ".join(part for part in (f"ptxas {defect.fixed}." if defect.fixed else "", defect.mend) if part)
    return [f"`{defect.name}`", " ".join(f"`{chip}`" for chip in defect.chips), defect.kind, f"{defect.what} {defect.code}",
            defect.versions, mend, defect.mimw, "a program" if defect.probe else "version", ", ".join(map(source, defect.sources))]


def text() -> str:
    """The table of the page."""
    return table(["fault", "chips", "kind", "what goes wrong, of which code", "versions", "mend", "what mimw does", "told by",
                  "source"], [row(defect) for defect in known().values()])


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="1 if the page is stale")
    parser.add_argument("--print", action="store_true", help="print the table instead of writing it")
    options = parser.parse_args(words)
    if options.print:
        print(text())
        return 0
    return write_or_check(PAGE, BEGIN, END, text(), options.check)


if __name__ == "__main__":
    sys.exit(main())
