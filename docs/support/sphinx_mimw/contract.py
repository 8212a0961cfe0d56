"""Docstrings of the house, read into blocks: paragraphs, code, and the labelled parts of a contract.

Input: a docstring as it stands. Output: its blocks in order; nothing of it is left out. For example:

    blocks("Wait.\\n\\nargs:      bar - one\\nexample:   wait(b)")
    [Prose("Wait."), Part("args", (Row("bar", "one"), )), Part("example", (Code("wait(b)"), ))]

A label stands in the first eleven columns, what it is of behind them:

    args:      bar   - one mbarrier; further lines of it
                       are indented more
    lowers to: ttng.wait_barrier
"""

from __future__ import annotations

import inspect
import re
import textwrap
from dataclasses import dataclass

_AT = 11        # the column in which the text of a labelled part begins
_LABEL = re.compile(r"(?=.{10} )([a-z][a-z ]{1,9})(?::|  )\s*(?<=^.{11})(?=\S)")
_BARE_LABEL = re.compile(r"([a-z][a-z ]{1,9}):$")
_ROW = re.compile(r"(\S(?:\S| (?! ))*?)(?: +- | {2,})(\S.*)")
_NAMES = re.compile(r"[\w*.]+(?:, [\w*.]+)*")
_ITEM = re.compile(r"\* |\d\. ")
_CODE_LABELS = ("example", "examples")


@dataclass(frozen=True)
class Prose:
    text: str


@dataclass(frozen=True)
class Code:
    text: str


@dataclass(frozen=True)
class Item:
    """An item of a list, numbered or not."""
    text: str
    numbered: bool = False


@dataclass(frozen=True)
class Row:
    """What is said of one argument, or of several with one text."""
    term: str
    text: str


@dataclass(frozen=True)
class Part:
    """A labelled part of a contract."""
    label: str
    body: tuple[Block, ...]


Block = Prose | Code | Item | Row | Part


def blocks(docstring: str) -> list[Block]:
    """The blocks of a docstring."""
    lines = inspect.cleandoc(docstring).split("\n")
    found: list[Block] = []
    while lines:
        label = _label(lines)
        if not lines[0].strip():
            lines.pop(0)
        elif label:
            found.append(Part(label[1].strip(), _body(label[1].strip(), _taken(lines, _AT))))
        elif lines[0].startswith(" "):
            found.append(Code(textwrap.dedent("\n".join(_indented(lines))).strip("\n")))
        elif item := _ITEM.match(lines[0]):
            found.append(Item(_joined(_item(lines, len(item[0]))), item[0] != "* "))
        else:
            found.append(Prose(_joined(_paragraph(lines))))
    return found


def _label(lines: list[str]) -> re.Match | None:
    """The label with which a part begins: what follows belongs to it, or is a part, too. Prose may look like a label by chance."""
    found = _LABEL.match(lines[0]) or _BARE_LABEL.match(lines[0])
    behind = lines[1] if len(lines) > 1 else ""
    return found if not behind.strip() or behind.startswith(" " * _AT) or _LABEL.match(behind) else None


def _taken(lines: list[str], column: int) -> list[str]:
    """The first line from `column` on, and all behind it that are indented so far; they are taken out of `lines`."""
    taken = [lines.pop(0)[column:]]
    while lines and (not lines[0].strip() or lines[0].startswith(" " * column)):
        taken.append(lines.pop(0)[column:])
    return taken


def _indented(lines: list[str]) -> list[str]:
    taken = []
    while lines and (not lines[0].strip() or lines[0].startswith(" ")):
        taken.append(lines.pop(0))
    return taken


def _item(lines: list[str], column: int) -> list[str]:
    taken = [lines.pop(0)[column:]]
    while lines and lines[0].startswith("  "):
        taken.append(lines.pop(0))
    return taken


def _paragraph(lines: list[str]) -> list[str]:
    taken = []
    while lines and lines[0].strip() and not lines[0].startswith(" ") and not (taken and _starts(lines[0])):
        taken.append(lines.pop(0))
    return taken


def _starts(line: str) -> bool:
    """Whether something else than a paragraph starts here."""
    return bool(_LABEL.match(line) or _ITEM.match(line))


def _body(label: str, lines: list[str]) -> tuple[Block, ...]:
    """What a labelled part says: code, rows where every line that is not indented begins one with a name, or paragraphs."""
    while lines and not lines[-1].strip():
        lines.pop()
    if label in _CODE_LABELS:
        return (Code("\n".join(lines)), )
    starts = [line for line in lines if line.strip() and not line.startswith(" ")]
    if label != "args" and not all((row := _ROW.fullmatch(line)) and _NAMES.fullmatch(row[1]) for line in starts):
        return tuple(blocks("\n".join(lines)))
    found: list[Block] = []
    while lines:
        row = _ROW.fullmatch(lines[0])
        first = row[2] if row else lines[0]
        text = _joined([first, *_indented(lines[1:])])
        del lines[:1 + len(_indented(lines[1:]))]
        found.append(Row(row[1].strip(), text) if row else Prose(text))
    return tuple(found)


def _joined(lines: list[str]) -> str:
    return " ".join(line.strip() for line in lines if line.strip())
