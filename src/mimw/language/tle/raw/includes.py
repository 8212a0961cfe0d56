"""The files that a source of CUDA C++ includes, by content: a kernel is compiled anew when one of them changes.

Input: a text, its folder, the compiler's flags. Output: pairs of a path and a digest. For example, of a text with

    #include "tile.h"           (("/home/you/tile.h", "6f0c..."), )

Files that are not found beside the text, beside the file that includes them or in a folder of `-I`, are the compiler's own.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">]', re.MULTILINE)


def included_files(text: str, folder: Path, flags: tuple[str, ...] = ()) -> tuple[tuple[str, str], ...]:
    """Every file that the text reaches, in the order in which they are met."""
    places = [Path(flag[2:]) for flag in flags if flag.startswith("-I")]
    found: dict[str, str] = {}
    _look(text, folder, places, found)
    return tuple(found.items())


def _look(text: str, folder: Path, places: list[Path], found: dict[str, str]) -> None:
    for name in _INCLUDE.findall(text):
        path = next((place / name for place in (folder, *places) if (place / name).is_file()), None)
        if path is None or str(path) in found:
            continue
        inside = path.read_text(errors="replace")
        found[str(path)] = hashlib.sha256(inside.encode()).hexdigest()
        _look(inside, path.parent, places, found)
