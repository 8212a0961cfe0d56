"""Reads sites from the comments of IR text: the inverse of what `ir.printer` writes at the right of each op.

Input: comments, and the files that the last lines of the text name. Output: sites. An example:

    helper.py:2:4 in put, from fill.py:7:8        line 2 of helper.py in the function `put`, called from line 7 of fill.py
"""

from __future__ import annotations

import re

from .lexer import Line
from .site import Site

_FILE = re.compile(r"# (.+?) = (.+)")
_SITE = re.compile(r"(?P<file>.+?):(?P<line>\d+)(?::(?P<column>\d+))?(?: in (?P<function>\S+))?")


def split_files(lines: list[str]) -> tuple[list[tuple[int, str]], dict[str, str]]:
    """The numbered lines of the kernel, and the paths by short names from the lines behind it."""
    end = len(lines)
    while end and (not lines[end - 1].strip() or lines[end - 1].startswith("#")):
        end -= 1
    found = filter(None, map(_FILE.fullmatch, lines[end:]))
    return list(enumerate(lines[:end], 1)), {match[1]: match[2] for match in found}


class SiteReader:
    """`function` is the one that sites are in which say none; the kernel's line sets it."""

    def __init__(self, files: dict[str, str]):
        self.files, self.function = files, ""

    def read(self, line: Line, usual: str | None = None) -> Site | None:
        """The site in a line's comment; None if the comment is none, or something else."""
        found = [_SITE.fullmatch(part) for part in line.comment.split(", from ")]
        if not all(found):
            return None
        site = None
        for match in reversed(found):
            default = (self.function if usual is None else usual) if site is None else ""
            function = match["function"] or default
            site = Site(self.files.get(match["file"], match["file"]), int(match["line"]), int(match["column"] or 0),
                        "" if function == "?" else function, site)
        return site
