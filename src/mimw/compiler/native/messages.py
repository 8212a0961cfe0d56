"""Complaints of compilers, with the line of the author's file that each complaint is about.

Input: the output of a compiler. Output: a `CompilerError` with the first error in the output. For example, for nvcc's

    /home/you/scale.cu(7): error: identifier "y" is undefined

the file, the line 7 and the text.
"""

from __future__ import annotations

import re

_SAID = (
    re.compile(r"^(?P<file>[^\s(][^(\n]*)\((?P<line>\d+)\): (?:catastrophic )?error:? ?(?P<text>.*)$", re.M),       # nvcc, NVRTC
    re.compile(r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):\d+: (?:fatal )?error: (?P<text>.*)$", re.M),               # clang, LLVM
    re.compile(r"^ptxas\S* (?P<file>[^,\n]*), line (?P<line>\d+); error\s*: (?P<text>.*)$", re.M),
)


class CompilerError(Exception):
    """A compiler refuses a text, or there is none. `file` and `line` give the position, "" and 0 if it is not known."""

    def __init__(self, message: str, file: str = "", line: int = 0, mend: str = ""):
        self.message, self.file, self.line, self.mend = message, file, line, mend
        super().__init__(message)


def refused_by(compiler: str, output: str) -> CompilerError:
    """The first error in the output of the compiler."""
    for pattern in _SAID:
        if match := pattern.search(output):
            more = len(pattern.findall(output)) - 1
            text = match["text"].strip() + (f" (and {more} more)" if more else "")
            return CompilerError(f"{compiler}: {text}", match["file"].strip(), int(match["line"]))
    return CompilerError(f"{compiler} failed:\n{output.strip()[:2000]}")
