"""On which chips a word works: what docs/tlx.md and docs/tle.md say, which compiling a probe of each word has found out.

Input: a page of such tables. Output: by word its rows, each with what it is about and a cell for each chip. For example:

    rows(Path("docs/tlx.md"))["barrier_arrive"]
    [Works("", {"sm_80": "-", "sm_90a": "yes", ...}), Works("remote", {...})]
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_NAME = re.compile(r"[\w.]+")


@dataclass(frozen=True)
class Works:
    """One row: `about` names a part of what the word does, "" the word itself."""
    about: str
    cells: dict[str, str]

    def text(self) -> str:
        """`on sm_90a, sm_100a; not on sm_80`, with what is about a part in front."""
        said = {"on": "yes", "not on": "-", "not yet on": "NotYet"}
        parts = [f"{how} {', '.join(where)}" for how, cell in said.items()
                 if (where := [chip for chip, found in self.cells.items() if found == cell])]
        return (f"{self.about}: " if self.about else "") + "; ".join(parts)


@dataclass(frozen=True)
class Page:
    families: dict[str, list[str]]      # heading -> the words of its table, in order
    words: dict[str, list[Works]]


@cache
def page(path: Path) -> Page:
    """The tables of a page whose last column is the simulator's."""
    families: dict[str, list[str]] = {}
    words: dict[str, list[Works]] = {}
    heading, chips = "", None
    for line in path.read_text().splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if line.startswith("## "):
            heading, chips = line[3:], None
        elif cells and cells[-1] == "simulator":
            chips = cells[1:]
        elif chips and cells and not cells[0].startswith("--"):
            for word, about in _named(cells[0]):
                families.setdefault(heading, [])
                if word not in families[heading]:
                    families[heading].append(word)
                words.setdefault(word, []).append(Works(about, dict(zip(chips, cells[1:], strict=True))))
    return Page(families, words)


def _named(cell: str) -> list[tuple[str, str]]:
    """The words that a row is about, with the part: "`fence(scope)`", "`async_load`, bulk", "`gpu.alloc, gpu.local_ptr`",
    "`gpu.copy, pointers`", "`bind_mesh: remote, several GPUs`"."""
    text, _, behind = cell.removeprefix("`").partition("`")
    word = _NAME.match(text)[0]
    rest = text[len(word):]
    if rest.startswith(("(", ":")) and not rest.startswith(": "):
        return [(word, "")]
    about = (rest + behind).lstrip(",: ")
    if rest.startswith(": ") and word == "reuse_group_type":
        return [(word, "")]
    others = about.split(", ")
    if about and all("." in other and _NAME.fullmatch(other) for other in others):
        return [(word, ""), *((other, "") for other in others)]
    return [(word, about)]
