"""The paragraphs of a markdown page, wrapped at 120 columns.

    python docs/support/reflow.py docs/TIMING.md README.md     # rewrites these files; --check names long lines instead

Input: the text of a page. Output: the same text, each paragraph, list item and quotation filled up to WIDTH columns. Headings,
tables, fenced and indented code, comments, HTML, link definitions and hard line breaks stay as they are, and so does a page that
has been through it before:

    * a list item           ->  * a list item whose lines are joined and broken
      whose lines are short       anew
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

WIDTH = 120

FENCE = re.compile(r"\s*(`{3,}|~{3,}|:{3,})")
ITEM = re.compile(r"(\s*)([-*+]|\d{1,9}[.)])(\s+)(?=\S)")
QUOTE = re.compile(r"\s*>\s?")
# A line that is no prose: heading, table, HTML or comment, link definition, rule under a heading or between parts, MyST's target.
VERBATIM = re.compile(r"\s*(#{1,6}(\s|$)|\||</?[a-zA-Z!]|<!--|\[[^\]]+\]:\s|(=+|-{3,}|\*{3,}|_{3,})\s*$|\([\w-]+\)=\s*$)")
# A word that would begin another kind of block if it began a line; of "%" MyST makes a comment, which the site does not show.
OPENS = re.compile(r"([-*+>|]|#{1,6}|\d{1,9}[.)]|=+|-{2,})$|[|>%]|</?[a-zA-Z!]|`{3,}|~{3,}|:{3,}|\[[^\]]+\]:$")
# One word: runs of no space, in which a code span or the address of a link counts as no space.
WORD = re.compile(r"(?:(`+)(?:(?!`).|(?<!`)(?!\1(?!`))`+)*?(?<!`)\1(?!`)|\S)+", re.DOTALL)


@dataclass(frozen=True)
class Part:
    """Consecutive lines of a page: `prose` is filled anew behind `first` on its first line and `rest` on all others."""

    lines: tuple[str, ...]
    prose: bool = False
    first: str = ""
    rest: str = ""


def reflow(text: str, width: int = WIDTH) -> str:
    """The page with its prose wrapped at `width` columns."""
    lines = [line for part in parts(text) for line in (_filled(part, width) if part.prose else part.lines)]
    return "\n".join(lines) + ("\n" if text.endswith("\n") else "")


def long_lines(text: str, width: int = WIDTH) -> list[tuple[int, str]]:
    """(number, line) of the lines of prose over `width` columns that could be broken."""
    number, long = 1, []
    for part in parts(text):
        long += [(number + at, line) for at, line in enumerate(part.lines)
                 if part.prose and len(line) > width and len(_words(line)) > 1]
        number += len(part.lines)
    return long


def parts(text: str) -> Iterator[Part]:
    """The page as prose and what stays as it is, in order."""
    lines = text.removesuffix("\n").split("\n")
    at, inside = 0, [0]                     # the columns at which the text of the list items around begins
    while at < len(lines):
        line = lines[at]
        indent = len(line) - len(line.lstrip())
        if not line.strip():
            end = at + 1
        elif FENCE.match(line):
            end = _end_of_fence(lines, at)
        elif line.lstrip().startswith("<!--"):
            end = next((end for end in range(at + 1, len(lines) + 1) if "-->" in lines[end - 1]), len(lines))
        elif VERBATIM.match(line) or (at + 1 < len(lines) and re.match(r"\s*(=+|-+)\s*$", lines[at + 1])):
            end, inside = at + 1, [column for column in inside if column <= indent] or [0]
        else:
            item = ITEM.match(line)
            inside = [column for column in inside if column <= indent] or [0]
            if indent >= inside[-1] + 4:
                end = at + 1                # indented code
            else:
                start = len(item.group()) if item else indent
                if item:
                    inside.append(start)
                end = _end_of_paragraph(lines, at)
                quote = QUOTE.match(line)
                first = quote.group() if quote else line[:start]
                yield Part(tuple(lines[at:end]), True, first, first if quote else " " * start)
                at = end
                continue
        yield Part(tuple(lines[at:end]))
        at = end


def _end_of_fence(lines: list[str], at: int) -> int:
    fence = FENCE.match(lines[at]).group(1)
    for end in range(at + 1, len(lines)):
        closing = FENCE.match(lines[end])
        if closing and closing.group(1).startswith(fence) and not lines[end].strip().strip(fence[0]):
            return end + 1
    return len(lines)


def _end_of_paragraph(lines: list[str], at: int) -> int:
    """The line behind the paragraph that begins at `at`; a hard break ends it."""
    quoted = bool(QUOTE.match(lines[at]))
    for end in range(at + 1, len(lines)):
        line, before = lines[end], lines[end - 1]
        if before.endswith(("  ", "\\")) or not line.strip() or FENCE.match(line) or VERBATIM.match(line) or ITEM.match(line) or \
                bool(QUOTE.match(line)) != quoted:
            return end
    return len(lines)


def _filled(part: Part, width: int) -> Iterator[str]:
    prefix, break_ = part.first, part.lines[-1].endswith("  ")
    text = [part.lines[0][len(part.first):], *(line[len(QUOTE.match(line).group()):] if QUOTE.match(part.first) else line
                                               for line in part.lines[1:])]
    line = ""
    for word in _words("\n".join(text)):
        if line and len(prefix) + len(line) + 1 + len(word) > width:
            yield prefix + line
            prefix, line = part.rest, word
        else:
            line = f"{line} {word}" if line else word
    yield prefix + line + ("  " if break_ else "")


def _words(text: str) -> list[str]:
    """The words between which a line may end: not in front of one that would begin a list, a heading or a quotation."""
    words: list[str] = []
    for match in WORD.finditer(text):
        word = " ".join(match.group().split())
        if words and OPENS.match(word):
            words[-1] += " " + word
        else:
            words.append(word)
    return words


def main(arguments: list[str]) -> int:
    check = "--check" in arguments
    failed = 0
    for path in (Path(argument) for argument in arguments if argument != "--check"):
        text = path.read_text()
        if check:
            for number, line in long_lines(text):
                print(f"{path}:{number}: {len(line)} columns")
                failed = 1
        elif (new := reflow(text)) != text:
            path.write_text(new)
            print(f"{path}: wrapped")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
