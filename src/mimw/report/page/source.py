"""The source pane: the functions that ran, line by line, with each finding below the line where the finding shows.

Input: the lines of the page, its notes, and what is told beside lines of waits and work. Output: HTML, a section a file:

    source_pane(lines, notes, told_beside(waited, worked))
    <section><h3>gemm.py</h3> ... <div class="ln at" id="L0.33" data-l="0.33"><b>33</b><code>acc = ...</code></div> ...

Of a file the functions are shown in which something happens, whole; what lies between is a line that says how much is left out.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Mapping, Sequence
from html import escape

from .lines import Lines, name_of, place_of
from .note import Note

_AROUND = 6         # lines on each side, of text that is no Python
_TOLD = 0.03        # the share from which on waits and work are told beside their line


def told_beside(waited: Mapping[str, float], worked: Mapping[str, float]) -> dict[str, str]:
    """What is told beside a line, by its key: `waited` is the share of the time that the task waits there which waits most, and
    `worked` the line's share of all work."""
    told = {key: f"waits {100 * share:.0f} %" for key, share in waited.items() if share >= _TOLD}
    for key, share in worked.items():
        if share >= _TOLD:
            told[key] = ", ".join([*([told[key]] if key in told else []), f"{100 * share:.0f} % of the work"])
    return told


def source_pane(lines: Lines, notes: Sequence[Note], told: Mapping[str, str]) -> str:
    """All files of the page; `told` is what stands beside a line, by its key."""
    at: dict[str, list[tuple[int, Note, bool]]] = {}
    for number, note in enumerate(notes, 1):
        for place, site in enumerate(note.sites):
            keys = lines.keys(site).split()
            if keys and (number, note, True) not in at.get(keys[0], []):
                at.setdefault(keys[0], []).append((number, note, place == 0))
    return "".join(_file(file, number, lines, at, told) for file, number in list(lines.files.items()))


def _file(file: str, number: int, lines: Lines, at: Mapping, told: Mapping[str, str]) -> str:
    text = linecache.getlines(file)
    used = {line for line in lines.used[file] if line <= len(text)}
    if not used:
        return ""
    rows, last = [], 0
    for first, end in _spans(text, used):
        rows.append(_gap(last + 1, first - 1))
        coloured = _coloured("".join(text[first - 1:end]), end - first + 1)
        for line, code in zip(range(first, end + 1), coloured):
            key = f"{number}.{line}"
            indent = len(text[line - 1]) - len(text[line - 1].lstrip())
            rows.append(_line(key, line, code, indent, line in used, at.get(key, ()), told.get(key, "")))
            rows += [_annotation(lines, *one[:2]) for one in at.get(key, ()) if one[2]]
        last = end
    rows.append(_gap(last + 1, len(text)))
    name = escape(name_of(file))
    return (f'<section class="file" aria-label="{name}"><h3>{escape(place_of(file))}</h3>'
            f'<div class="code" role="listbox" aria-label="Lines of {name}">{"".join(rows)}</div></section>')


def _spans(text: list[str], used: set[int]) -> list[tuple[int, int]]:
    """First and last lines of what is shown: the outermost functions around the lines in use, with their decorators."""
    try:
        tree = ast.parse("".join(text)).body
    except (SyntaxError, ValueError):
        tree = []
    defined = [node for top in tree for node in ([top] if isinstance(top, ast.FunctionDef) else ast.walk(top))
               if isinstance(node, ast.FunctionDef)]
    spans = set()
    for line in used:
        around = [(min([node.lineno, *(one.lineno for one in node.decorator_list)]), node.end_lineno or node.lineno)
                  for node in defined]
        inside = [span for span in around if span[0] <= line <= span[1]]
        spans.add(min(inside, default=(max(1, line - _AROUND), min(len(text), line + _AROUND))))
    merged: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((first, last))
    return merged


def _gap(first: int, last: int) -> str:
    if first > last:
        return ""
    said = f"line {first} is" if first == last else f"lines {first} to {last} are"
    return f'<div class="gap" role="none">{said} not shown: nothing of the kernel is there</div>'


def _line(key: str, line: int, code: str, indent: int, used: bool, notes: Sequence, told: str) -> str:
    marks = "".join(f'<a class="mark" href="#N{number}" aria-label="finding {number}, {escape(note.kind)}">{number}</a>'
                    for number, note, _ in notes)
    told = f'<span class="told">{told}</span>' if told else ""
    linked = f' data-l="{key}" role="option" aria-selected="false" tabindex="-1"' if used else ' role="none"'
    kind = "ln" + (" at" if used else "") + (" bad" if notes else "")
    return (f'<div class="{kind}" id="L{key}"{linked}><b>{line}</b><i>{marks}</i><code style="--in:{indent}">{code or " "}</code>'
            f"{told}</div>")


def _annotation(lines: Lines, number: int, note: Note) -> str:
    mend = f'<p class="mend"><strong>Mend</strong> {lines.linked(note.hint)}</p>' if note.hint else ""
    shown = f'<p class="shown">{escape(note.shown)}</p>' if note.shown else ""
    head, _, rest = note.message.partition("\n")
    facts = f'<pre class="facts">{lines.linked(_unindented(rest))}</pre>' if rest else ""
    return (f'<div class="note" id="N{number}" role="note" aria-label="finding {number}"><p><strong>{escape(note.kind)}</strong> '
            f'{lines.linked(head)}</p>{facts}{mend}{shown}</div>')


def _unindented(text: str) -> str:
    rows = text.split("\n")
    indent = min((len(row) - len(row.lstrip()) for row in rows if row.strip()), default=0)
    return "\n".join(row[indent:] for row in rows)


def _coloured(text: str, count: int) -> list[str]:
    """The lines of a text as HTML, keywords, words, strings, numbers and comments in classes."""
    from pygments.lexers.python import PythonLexer
    from pygments.token import Comment, Keyword, Name, Number, Operator, String

    classes = ((Comment, "c"), (String, "s"), (Number, "n"), (Keyword, "k"), (Operator.Word, "k"), (Name.Decorator, "d"),
               (Name.Function, "d"))
    rows = [""]
    for token, value in PythonLexer(stripnl=False, ensurenl=False).get_tokens(text):
        style = next((name for kind, name in classes if token in kind), "")
        for index, part in enumerate(value.split("\n")):
            if index:
                rows.append("")
            if part:
                rows[-1] += f'<span class="{style}">{escape(part)}</span>' if style else escape(part)
    return (rows + [""] * count)[:count]
