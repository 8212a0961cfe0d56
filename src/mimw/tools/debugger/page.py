"""The page of a debugged run: a slider over its events; source with the tasks at their lines, barriers, buffers, values, waits.

Input: a session. Output: a `RunPage`: a file that needs no network, or a frame for a notebook. For example:

    session.save_html("run.html")       page(session).write("run.html")

The page holds the whole run of one cluster (`recording.py`) and stands at first where the session stands.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path

from ...errors import Deadlock
from ...report import page as report_page
from ...report.page import Note
from ...report.page.source import source_pane
from .recording import Recording, recorded
from .standing import Standing

HEIGHT = 760        # pixels of the frame in a notebook

_FRAME = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<meta name="color-scheme" content="light dark">
<title>{title} · mimw debug</title>
<style>{style}</style>
</head>
<body class="debug">
<header><h1>{title}</h1><ul class="about">{facts}</ul>{verdict}
<details class="keys"><summary>Keys</summary><dl>{keys}</dl></details></header>
<section id="moves" aria-label="Moves">
<div class="row">
<span class="move">event <button data-do="-event" aria-label="the event before">◂</button><button data-do="+event"
 aria-label="the next event">▸</button></span>
<span class="move">line <button data-do="-line" aria-label="this task's line before">◂</button><button data-do="+line"
 aria-label="this task's next line">▸</button></span>
<span class="move">task <button data-do="-task" aria-label="back to the task before">◂</button><button data-do="+task"
 aria-label="until another task goes on">▸</button></span>
<span class="move">phase <button data-do="-phase" aria-label="the completed phase before">◂</button><button data-do="+phase"
 aria-label="the next completed phase">▸</button></span>
<span class="move">breakpoint <button data-do="-stop" aria-label="the breakpoint before">◂</button><button data-do="+stop"
 aria-label="the next breakpoint">▸</button></span>
<output id="at"></output>
</div>
<canvas id="strip" aria-hidden="true"></canvas>
<input id="slider" type="range" min="0" value="0" aria-label="Event">
<p id="says" role="status" aria-live="polite"></p>
</section>
<main>
<div id="left">{source}</div>
<div id="right">
<section id="tasks"><h2>Tasks</h2><div class="scroll"></div></section>
<section id="barriers"><h2>Barriers</h2><div class="scroll"></div></section>
<section id="values"><h2>Values <select id="whose" aria-label="Whose values"></select></h2><div></div></section>
<section id="buffers"><h2>Buffers</h2><div></div></section>
<section id="flights"><h2>In flight</h2><pre class="text"></pre></section>
</div>
</main>
<noscript><p class="none">The slider needs JavaScript.</p></noscript>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""
_KEYS = (("← →", "the event before, the next one"), ("↑ ↓", "this task's line before, its next one"),
         ("[ ]", "until another task goes on, backwards and forward"), ("( )", "the completed phase before, the next one"),
         ("{ }", "the breakpoint before, the next one"), ("Home End", "the beginning, the end"),
         ("click", "on the strip: to that event; on a task's name in the source: its values"))


@dataclass(frozen=True)
class RunPage:
    """One run as a page. `verdict` says how it ended, `ok` whether that is good."""

    title: str
    facts: tuple[str, ...]
    verdict: str
    ok: bool
    notes: tuple[Note, ...]
    recording: Recording

    def html(self) -> str:
        """The page as one file."""
        facts = "".join(f"<li>{escape(fact)}</li>" for fact in self.facts)
        verdict = f'<p class="verdict {"good" if self.ok else "bad"}">{escape(self.verdict)}</p>'
        keys = "".join(f"<dt>{escape(key)}</dt><dd>{escape(does)}</dd>" for key, does in _KEYS)
        data = json.dumps(self.recording.data, separators=(",", ":"), ensure_ascii=False)
        return _FRAME.format(
            title=escape(self.title), style=_styles(), facts=facts, verdict=verdict, keys=keys,
            source=source_pane(self.recording.lines, self.notes, {}) or '<p class="none">The source cannot be read here.</p>',
            data=data.replace("<", "\\u003c").replace("\u2028", "\\u2028"), script=f"(() => {{\n{_file('page.js')}}})();")

    def fragment(self) -> str:
        """The page as a frame of a notebook, which neither sees nor changes what is around it."""
        return (f'<iframe srcdoc="{escape(self.html())}" sandbox="allow-scripts" title="{escape(self.title)}" '
                f'style="box-sizing:border-box;width:100%;height:{HEIGHT}px;border:1px solid #8884;border-radius:6px;'
                'resize:vertical"></iframe>')

    def write(self, path: str | Path) -> None:
        Path(path).write_text(self.html(), encoding="utf-8")


def page(session: Standing) -> RunPage:
    """The page of a session's run, which then stands where it stood."""
    recording, launch, notes, verdict = recorded(session), session.launch, (), "the run has ended well"
    error = session.last_error
    if error is not None:
        verdict = type(error).__name__
        marked = len(error.sites) if isinstance(error, Deadlock) else 2
        notes = (Note(verdict, error.message, error.sites, error.hint, "", marked), )
    shown = f"{'the cluster of ' * (launch.program.cluster_size > 1)}CTA {session.actor[0][:3]}"
    gpus = [f"{launch.gpus} GPUs"] if launch.gpus > 1 else []
    facts = [f"grid {launch.grid}", *gpus, f"seed {session.seed}", shown, f"{len(recording.events)} events"]
    if session.target is not None:
        facts.insert(0, f"simulated for {session.target.name}")
    if recording.left_out:
        facts.append(f"{recording.left_out:,} later ones are left out")
    return RunPage(launch.name, tuple(facts), verdict, error is None, notes, recording)


@cache
def _styles() -> str:
    return Path(report_page.__file__).with_name("page.css").read_text(encoding="utf-8") + _file("page.css")


@cache
def _file(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
