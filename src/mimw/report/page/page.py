"""Content of a page, and the frame around its panes.

Input: the fields of a `Page`, of which all but the title may be left out. Output: HTML. For example:

    Page("ring", facts=("sm_90a", "grid (1,)"), verdict="ok: nothing found in 8 runs", ok=True, program=program, target=chip).html()

The page is one file: style and program stand in it, and its own policy lets it fetch nothing. Without JavaScript everything is
there to read; with it, a click or a key links source, timeline, storage, barriers and tables.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from pathlib import Path

from ...compiler.storage import Row
from ...ir import Program, Site
from ...ir.trace import Trace
from ...target import Target
from ..barriers import barrier_edges, barrier_graph_svg
from ..resources import resource_parts
from ..table import Table
from .lanes import KINDS, Lanes, waited_lines
from .lines import Lines, union
from .maps import map_svg, storage_maps
from .note import Note
from .runs import Run, most_events, runs_data
from .source import source_pane, told_beside
from .tables import name_keys, table_html, task_keys, text_html

_FRAME = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body class="{body}">
<header>{header}</header>
<main>
<div id="left" data-kernel="{kernel}">{left}</div>
<div id="right">{right}</div>
</main>
<p id="status" role="status" aria-live="polite"></p>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""
_KEYS = (("↑ ↓", "the next line, region or edge; in the timeline the next lane"), ("← →", "the next event of a lane"),
         ("Enter", "choose: related items are highlighted in every pane"), ("+ − 0", "timeline: closer, wider, all of it"),
         ("n p", "the next finding with its run, the one before"), ("Esc", "choose nothing"), ("Tab", "the next pane"))
_OPEN = 14          # rows of a table that need not be unfolded
_LEAST_SCALE = 0.72     # of the graph: a wider one is scrolled
HEIGHT = 760        # pixels of the frame in a notebook


@dataclass(frozen=True)
class Page:
    """Everything that a page shows.

    title     the kernel
    facts     short texts beside the title: chip, grid, seed
    verdict   the result in a line, and `ok` whether it is good; None where there is nothing to judge
    notes     findings
    program   the kernel, for source, storage, barriers and tables; `target` is its chip
    trace     for the timeline; `at` is when a run ended in an error; `no_trace` says why there is none. With notes it is the run
              of the first one, and `others` are the runs of the others
    worked    how long the ops of each place took, in any unit
    sites     further lines whose functions are shown
    rows      places of shared memory in the compiled kernel; without these they are planned
    shared    the bytes that the compiled kernel takes
    tables, texts   more sections, by title
    """

    title: str
    facts: tuple[str, ...] = ()
    verdict: str = ""
    ok: bool | None = None
    notes: tuple[Note, ...] = ()
    program: Program | None = None
    target: Target | None = None
    trace: Trace | None = None
    at: float | None = None
    no_trace: str = ""
    others: tuple[Run, ...] = ()
    worked: Mapping[Site, float] = field(default_factory=dict)
    sites: tuple[Site, ...] = ()
    rows: Sequence[Row] = ()
    shared: int | None = None
    tables: tuple[tuple[str, Table], ...] = ()
    texts: tuple[tuple[str, str], ...] = ()

    def html(self) -> str:
        """The page as one file."""
        return _FRAME.format(**self._parts())

    def fragment(self) -> str:
        """The page as a frame of a notebook, which neither sees nor changes what is around it."""
        return (f'<iframe srcdoc="{escape(self.html())}" sandbox="allow-scripts" title="{escape(self.title)}" '
                f'style="box-sizing:border-box;width:100%;height:{HEIGHT}px;border:1px solid #8884;border-radius:6px;'
                'resize:vertical"></iframe>')

    def write(self, path: str | Path) -> None:
        Path(path).write_text(self.html(), encoding="utf-8")

    def _parts(self) -> dict[str, str]:
        lines, program = Lines(), self.program
        for note in self.notes:
            lines.keys(*note.sites[:note.mark])
        lines.keys(*self.sites, *([program.site] if program is not None else ()))
        maps = storage_maps(program, self.target, self.rows) if program is not None and self.target is not None else []
        tasks = task_keys(program, lines) if program is not None else {}
        names = name_keys(program, tasks, maps, lines) if program is not None else {}
        runs = self._runs(lines, tasks)
        told = [told_beside(waited_lines(lanes.trace, lines), {} if number else self._shares(lines))
                for number, (_, lanes) in enumerate(runs)] or [told_beside({}, self._shares(lines))]
        panes = [self._findings(lines), self._timeline(runs), *(_section(
            f"map{number}", one.title[0].upper() + one.title[1:], f'{map_svg(one, lines)}<p class="under">{escape(one.note)}</p>',
            _filled(one.used, one.limit, one.unit)) for number, one in enumerate(maps)), self._graph(lines, tasks),
            self._resources(names)]
        panes += [_folded(f"table{number}", title, table_html(table, names), len(table.rows) <= _OPEN)
                  for number, (title, table) in enumerate(self.tables)]
        panes += [_folded(f"text{number}", title, text_html(text, lines), text.count("\n") <= 2 * _OPEN)
                  for number, (title, text) in enumerate(self.texts) if text]
        source = source_pane(lines, self.notes, told[0])
        script = "\n".join(map(_file, ("page.js", "timeline.js")))
        return {"title": escape(f"{self.title} · mimw"), "style": _file("page.css"), "script": f"(() => {{\n{script}}})();",
                "kernel": lines.keys(program.site if program is not None else None).split(" ")[0], "header": self._header(),
                "left": source or '<p class="none">The source of this kernel cannot be read here.</p>', "right": "".join(panes),
                "body": "no-source" if not source else "" if any(panes) else "only-source",
                "data": _json(runs_data(runs, told) if runs else {})}

    def _runs(self, lines: Lines, tasks: dict[str, str]) -> list[tuple[int, Lanes]]:
        """The runs with the numbers of their findings, 0 of none; the one that is drawn first comes first."""
        given = [Run(1 if self.notes else 0, self.trace, self.at)] if self.trace and self.trace.events else []
        given += [run for run in self.others if run.trace.events]
        found = []
        for number, run in enumerate(given):
            note = self.notes[run.note - 1] if run.note else Note("", "")
            marks = tuple(key.split(" ")[0] for key in (lines.keys(site) for site in note.sites[:note.mark]) if key)
            found.append((run.note, Lanes(run.trace, lines, tasks, run.at, marks, most_events(number, len(given)))))
        return found

    def _shares(self, lines: Lines) -> dict[str, float]:
        """Key of a line -> its share of all work; of a line that calls a helper, that of the helper too."""
        whole, found = sum(self.worked.values()), {}
        for site, time in self.worked.items():
            for key in lines.keys(site).split():
                found[key] = found.get(key, 0.0) + time / whole if whole else 0.0
        return found

    def _header(self) -> str:
        facts = "".join(f"<li>{escape(fact)}</li>" for fact in self.facts)
        kind = {True: " good", False: " bad", None: ""}[self.ok]
        verdict = f'<p class="verdict{kind}">{escape(self.verdict)}</p>' if self.verdict else ""
        keys = "".join(f"<dt>{escape(key)}</dt><dd>{escape(does)}</dd>" for key, does in _KEYS)
        return (f'<h1>{escape(self.title)}</h1><ul class="about">{facts}</ul>{verdict}'
                f'<details class="keys"><summary>Keys</summary><dl>{keys}</dl></details>')

    def _findings(self, lines: Lines) -> str:
        """Each finding in two lines; whole it stands below its line, or here where no line is known."""
        rows = []
        for number, note in enumerate(self.notes, 1):
            places = [f'<a href="#L{key}" data-l="{key}">{escape(site.file.rpartition("/")[2])}:{site.line}</a>'
                      for site in note.sites for key in lines.keys(site).split()[:1]]
            keys = union(lines.keys(site).split(" ")[0] for site in note.sites[:note.mark])
            facts = "" if places else f'<pre class="facts">{escape(note.message)}</pre>' + (
                f'<p class="mend"><strong>Mend</strong> {escape(note.hint)}</p>' if note.hint else "")
            where = f'<p class="places">{" ".join(dict.fromkeys(places))}</p>' if places else ""
            kind, first = escape(note.kind), lines.linked(note.message.split("\n")[0])
            rows.append(f'<li class="finding" data-l="{keys}" data-note="{number}" tabindex="0" aria-label="finding {number}: '
                        f'{kind}">'
                        f"<b>{number}</b><div><p><strong>{kind}</strong> {first}</p>{where}{facts}</div></li>")
        return _section("findings", "Findings", f'<ol class="findings">{"".join(rows)}</ol>') if rows else ""

    def _timeline(self, runs: list[tuple[int, Lanes]]) -> str:
        if not runs:
            return _section("timeline", "Timeline", f'<p class="none">{escape(self.no_trace)}</p>') if self.no_trace else ""
        lanes = runs[0][1]
        kinds = {event.kind for _, one in runs for event in one.events}
        legend = "".join(f'<li><span class="swatch k-{kind}"></span>{escape(meaning)}</li>' for kind, meaning in KINDS.items()
                         if kind in kinds)
        legend += '<li><span class="swatch found"></span>the error</li>' if any(one.at is not None for _, one in runs) else ""
        buttons = "".join(f'<button type="button" data-do="{do}" aria-label="{label}">{sign}</button>' for do, label, sign in (
            ("left", "earlier", "◂"), ("right", "later", "▸"), ("in", "closer", "+"), ("out", "wider", "−"), ("all", "all", "all")))
        left_out = f'<p class="under left-out">{escape(lanes.left_out_text)}</p>' if any(one.left_out for _, one in runs) else ""
        body = self._choice(runs) if len(runs) > 1 else ""
        body += (f'<div class="tools"><ul class="legend">{legend}</ul><div class="buttons" hidden>{buttons}</div></div>'
                f'<div class="scroll plot">{lanes.svg()}</div>{left_out}')
        return _section("timeline", "Timeline", body, f"{lanes.amount(lanes.end)}")

    def _choice(self, runs: list[tuple[int, Lanes]]) -> str:
        """The HTML that names the run that is drawn, with a button for each finding, and says how to see the run again."""
        notes = [(number, self.notes[number - 1]) for number, _ in runs]
        buttons = "".join(f'<button type="button" data-run="{place}" aria-pressed="{"false" if place else "true"}" aria-label="the '
                          f'run of finding {number}, {escape(note.kind)}">{number}</button>'
                          for place, (number, note) in enumerate(notes))
        told = "".join(f'<span{" hidden" * (place > 0)}>{escape(note.shown)}</span>' for place, (_, note) in enumerate(notes))
        return (f'<div class="runs"><span>The run of finding <b>{notes[0][0]}</b></span><span class="of" hidden>{buttons}</span>'
                f'<span class="shown">{told}</span></div>')

    def _graph(self, lines: Lines, tasks: dict[str, str]) -> str:
        if self.program is None or not barrier_edges(self.program):
            return ""

        def linked(name: str, sites: tuple[Site, ...]) -> dict[str, object]:
            keys = lines.keys(*sites) if sites else tasks.get(name, "")
            return {"data_l": keys, "data_name": name, "role": "option", "aria_selected": "false", "tabindex": "-1",
                    "aria_label": name} if keys else {}

        drawn = barrier_graph_svg(self.program, linked).replace(' xmlns="http://www.w3.org/2000/svg"', "", 1)
        width = float(drawn.partition('viewBox="0 0 ')[2].partition(" ")[0])
        drawn = drawn.replace("<svg ", f'<svg style="max-width:{width:.0f}px;min-width:{_LEAST_SCALE * width:.0f}px" ', 1)
        return _section("graph", "Barriers and pipes", '<div class="scroll" role="listbox" aria-label="Tasks that arrive at '
                        f'barriers, and tasks that wait">{drawn}</div><p class="under">An arrow goes from the task that arrives '
                        'to the task that waits.</p>')

    def _resources(self, names: dict[str, str]) -> str:
        if self.program is None or self.target is None or not self.target.binary:
            return ""
        parts = resource_parts(self.program, self.target, self.shared)
        body = "".join(table_html(part, names) if isinstance(part, Table) else f'<p class="under">{escape(part)}</p>'
                       for part in parts)
        return _section("resources", "Tasks and resources", body)


def _section(name: str, title: str, body: str, aside: str = "") -> str:
    told = f"<span>{escape(aside)}</span>" if aside else ""
    return f'<section id="{name}" aria-labelledby="{name}-h"><h2 id="{name}-h">{escape(title)}{told}</h2>{body}</section>'


def _folded(name: str, title: str, body: str, is_open: bool) -> str:
    return (f'<section id="{name}"><details{" open" * is_open}><summary><h2>{escape(title)}</h2></summary>{body}</details>'
            "</section>")


def _filled(used: int, limit: int, unit: str) -> str:
    return f"{used:,} of {limit:,} {unit} ({100 * used / limit:.1f} %)" if limit else f"{used:,} {unit}"


def _json(data: dict) -> str:
    """JSON that may stand inside a script element."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c").replace("\u2028", "\\u2028")


@cache
def _file(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
