"""Source positions as keys: the events at a line, and in helpers that the line calls, are linked to the line.

Input: the sites of ops, events and findings. Output: keys for attributes of the page, such as "0.33" for line 33 of its first file:

    lines = Lines()
    lines.keys(op.site)            "1.7 0.33": line 7 of a helper, which line 33 of the kernel calls
    lines.linked("at gemm.py:33")  the text with a link to that line
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from html import escape

from ...ir import Site

_LIBRARY = "/triton/language/", "/mimw/language/"      # whose insides are those of a word, and not the author's
_POSITION = re.compile(r"([^\s'\"`(),]+\.\w+|<[^<>]+>):(\d+)")


class Lines:
    """The files and lines of one page, numbered in the order in which they are asked for."""

    def __init__(self) -> None:
        self.files: dict[str, int] = {}
        self.used: dict[str, set[int]] = {}
        self._keys: dict[Site, str] = {}

    def keys(self, *sites: Site | None) -> str:
        """The keys of all lines of these sites, with the calls that led there, the innermost first; none twice."""
        return " ".join(dict.fromkeys(key for site in sites if site is not None for key in self._of(site).split()))

    def _of(self, site: Site) -> str:
        if site not in self._keys:
            chain = [here for here in site.chain() if here.line and not any(part in here.file for part in _LIBRARY)]
            self._keys[site] = " ".join(self._key(here.file, here.line) for here in chain)
        return self._keys[site]

    def _key(self, file: str, line: int) -> str:
        number = self.files.setdefault(file, len(self.files))
        self.used.setdefault(file, set()).add(line)
        return f"{number}.{line}"

    def linked(self, text: str) -> str:
        """The text as HTML. A position, `file.py:33`, of a file of the page is a link to the line, written without its folder."""
        found, last = [], 0
        for match in _POSITION.finditer(text):
            file = self._file(match[1])
            if file is None:
                continue
            key = self._key(file, int(match[2]))
            found += [escape(text[last:match.start()]),
                      f'<a href="#L{key}" data-l="{key}">{escape(name_of(file))}:{match[2]}</a>']
            last = match.end()
        return "".join(found) + escape(text[last:])

    def short(self, text: str) -> str:
        """The text with the files of the page named without their folders."""
        for file in self.files:
            text = text.replace(file, name_of(file))
        return text

    def _file(self, name: str) -> str | None:
        """The file of the page that a text means: by its path, or by its name where only one file has the name."""
        if name in self.files:
            return name
        alike = [file for file in self.files if name_of(file) == name]
        return alike[0] if len(alike) == 1 else None


def name_of(file: str) -> str:
    """The name of a file, without its folders."""
    return file.rpartition("/")[2]


def place_of(file: str) -> str:
    """The path of a file for its heading: below the current folder, or its last two parts, so that no page shows a user's
    home folder."""
    here = os.path.relpath(file) if os.path.isabs(file) else file
    return here if not here.startswith("..") else "/".join(file.split("/")[-2:])


def attribute(keys: str) -> str:
    """The attribute by which an element is linked to lines; "" without any."""
    return f' data-l="{keys}"' if keys else ""


def union(keys: Iterable[str]) -> str:
    """All of these keys, none twice."""
    return " ".join(dict.fromkeys(key for one in keys for key in one.split()))
