"""Cuts a line of IR text into tokens, and reads them one by one; its errors name line and column.

Input: a line, its file and its number. Output: a `Line`, whose `take` and `expect` move on. An example:

    line = Line("%0 = add %x, %n : i32   # k.py:4", "k.ir", 7)
    line.take("value")              "%0"; the next token is "="
    line.comment                    "k.py:4"
    line.fail("what is wrong")      IRSyntaxError: k.ir:7:4: what is wrong
"""

from __future__ import annotations

import re
from typing import NoReturn

from ..errors import IRSyntaxError

_TOKEN = re.compile(r"""
    \s*(?:
      (?P<comment> \#.* | //.* )
    | (?P<value> %(?: [^\W\d]\w* | \d+ | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" )(?:\.\d+)? )
    | (?P<text> '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" )
    | (?P<number> -?(?: \d+\.?\d*(?:e[+-]?\d+)? | inf\b ) | nan\b | inf\b )
    | (?P<word> [^\W\d][\w.]* )
    | (?P<mark> [()\[\]{}<>:=,*] )
    )""", re.VERBOSE)


class Line:
    """The tokens of one line: `kind` and `text` are those of the next one, "end" and "" after the last."""

    def __init__(self, source: str, file: str, number: int):
        self.source, self.file, self.number, self.comment = source, file, number, ""
        self.tokens: list[tuple[str, str, int]] = []
        at, end = 0, len(source.rstrip())
        while at < end:
            found = _TOKEN.match(source, at)
            if found is None:
                at += len(source[at:]) - len(source[at:].lstrip())
                raise IRSyntaxError(f"{source[at]!r} begins nothing that can stand here", file, number, at + 1)
            kind = found.lastgroup
            if kind == "comment":
                self.comment = found[kind].lstrip("#/").strip()
            else:
                self.tokens.append((kind, found[kind], found.start(kind) + 1))
            at = found.end()
        self.tokens.append(("end", "", end + 1))    # which nothing goes past
        self.place = 0

    @property
    def kind(self) -> str:
        return self.tokens[self.place][0]

    @property
    def text(self) -> str:
        return self.tokens[self.place][1]

    @property
    def column(self) -> int:
        """The column of the next token, from 1."""
        return self.tokens[self.place][2]

    def after(self, count: int = 1) -> str:
        """The text of the token that many after the next one."""
        place = self.place + count
        return self.tokens[place][1] if place < len(self.tokens) else ""

    def take(self, kind: str, what: str = "") -> str:
        """The next token, which has to be of that kind; `what` names the token that is wanted."""
        found, text, _ = self.tokens[self.place]
        if found != kind:
            self.fail(f"{what or 'a ' + kind} is expected, not {self.shown()}")
        self.place += 1
        return text

    def expect(self, *texts: str) -> None:
        """The next tokens have to be these."""
        for text in texts:
            if self.text != text:
                self.fail(f"{text!r} is expected, not {self.shown()}")
            self.place += 1

    def skip(self, *texts: str) -> bool:
        """Go past the next tokens if they are these."""
        place = self.place
        if self.tokens[place][0] == "text":
            return False
        for text in texts:
            if self.tokens[place][1] != text:
                return False
            place += 1
        self.place = place
        return True

    def finish(self) -> None:
        if self.kind != "end":
            self.fail(f"the line should end here, not go on with {self.shown()}")

    def shown(self) -> str:
        return repr(self.text) if self.text else "the end of the line"

    def fail(self, what: str, column: int | None = None, mend: str = "") -> NoReturn:
        raise IRSyntaxError(what, self.file, self.number, self.column if column is None else column, mend)
