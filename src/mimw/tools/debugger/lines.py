"""Lines of the author's source at which ops stand.

Input: the position of an op, with the calls that led there. Output: the author's lines, outermost first, without those of Triton's
library and of our words. For example, of an op of `tl.zeros`:

    users(site)         (row_sums.py:15, )
    moved(old, new)     False: the task is still at line 15, or in what that line calls

The text of a line comes from the file, or from the notebook's cell.
"""

from __future__ import annotations

import linecache
from functools import lru_cache
from pathlib import Path

import triton

from ...ir import Site

_OURS = Path(__file__).parents[2]
_LIBRARY = (str(Path(triton.__file__).parent), *(str(_OURS / room) for room in ("language", "tlx", "tle", "compiler")))


@lru_cache(maxsize=65536)
def users(site: Site) -> tuple[tuple[str, int], ...]:
    """(file, line) of a position and of the calls that led there, outermost first; all of them if none is the author's."""
    frames = [(one.file, one.line) for one in reversed(site.chain())]
    return tuple(frame for frame in frames if not frame[0].startswith(_LIBRARY)) or tuple(frames)


def moved(before: Site, site: Site, depth: int | None = None) -> bool:
    """True if a task has left the line where it stood, for another one there or for its caller; not while it is in a function that
    this line calls. With `depth` it stands in the function at that depth of calls, the kernel being 1."""
    old = users(before)[:depth]
    return users(site)[:len(old)] != old


def here(site: Site, depth: int | None = None) -> tuple[str, int]:
    """The author's innermost line, or that of the function at a depth of calls."""
    return users(site)[:depth][-1]


def shown(site: Site) -> str:
    """The author's innermost line as "row_sums.py:15"."""
    file, line = here(site)
    return f"{Path(file).name}:{line}"


def length(file: str) -> int:
    """The number of lines of a file; 0 where it cannot be read."""
    return len(linecache.getlines(file))


def source(file: str, line: int) -> str:
    """The text of a line."""
    return linecache.getline(file, line).rstrip("\n")
