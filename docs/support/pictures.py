"""The pictures of docs/concepts/, made from the kernels on its pages.

    python docs/support/pictures.py             writes docs/concepts/*.svg
    python docs/support/pictures.py --check     says which are not what this program would write; a test runs it

Input: the pages, whose first block of Python is a program with `case()`. Output: a picture for each, as SVG on paper of its own,
which turns dark where the reader's system is. `tasks` and `pipes` draw simulated runs, `barriers` the recorded kernel, `buffers`
the strides of its tile; `phases` and `proxies` draw a rule. For example:

    picture("barriers")         "<svg ...>", the graph of the kernel of docs/concepts/barriers.md
"""

from __future__ import annotations

import re
import sys
import tempfile
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[2] / "src")]

import mimw
from docs.support import gallery_picture
from mimw.report import barrier_graph_svg, svg
from mimw.runtime.simulate import prepare

FOLDER = Path(__file__).resolve().parents[1] / "concepts"
BLUE, ORANGE, GREEN, GREY = "#3b6fb6", "#e08e2b", "#287f50", "#e3e6eb"
# White becomes the ground of the site's dark pages.
DARK = "<style>@media (prefers-color-scheme: dark) { svg { filter: invert(0.924) hue-rotate(180deg) } }</style>"


def program(name: str) -> ModuleType:
    """The program of a page, imported."""
    file, text = re.search(r"<!-- file: (\S+) -->\n```python\n(.*?)```", (FOLDER / f"{name}.md").read_text(), re.DOTALL).groups()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, file)
        path.write_text(text)
        spec = spec_from_file_location(path.stem, path)
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        module.case()[0].fn         # a kernel reads its source when it is first looked at
    return module


def tasks(page: ModuleType) -> str:
    kernel, grid, args, meta = page.case()
    trace = mimw.simulate(kernel, grid, *args, trace=True, **meta).trace
    return gallery_picture.picture("who worked, and who waited", [trace], gallery_picture.View())


def barriers(page: ModuleType) -> str:
    return barrier_graph_svg(prepare(*page.case()).program)


def buffers(page: ModuleType) -> str:
    """The first rows and columns of the tile with the offsets of their bytes; beside it the same of the view."""
    _, _, (x, _), _ = page.case()
    strides = x.strides                 # a tile of the same extents lies row by row, as the array does
    body = svg.text(20, 28, "tiles[0], 32 x 64 floats", 14, font_weight=600) + _grid(20, 3, 4, strides)
    body += svg.text(430, 28, "turned = tlx.local_trans(tiles[0]), 64 x 32", 14, font_weight=600) + _grid(430, 4, 3, strides[::-1])
    return svg.document(760, 240, body)


def _grid(left: float, rows: int, columns: int, strides: tuple[int, ...]) -> str:
    body, wide, high, top = "", 76, 36, 44
    for row in range(rows):
        for column in range(columns):
            x, y = left + wide * column, top + high * row
            second = (row if strides[0] > strides[1] else column) == 1
            body += svg.rectangle(x, y, wide - 4, high - 4, ORANGE if second else "#dbe7f6", rx=4)
            body += svg.text(x + wide / 2 - 2, y + 15, f"[{row}, {column}]", 11, "middle")
            body += svg.text(x + wide / 2 - 2, y + 28, f"byte {row * strides[0] + column * strides[1]}", 10, "middle")
    return body + svg.text(left, top + high * rows + 14, "…", 14)


def phases(_: ModuleType) -> str:
    """Three rounds of one slot: who fills it, its barrier `full`, who reads it, its barrier `free`."""
    rounds, left, step, high = 3, 110, 210, 34
    rows = {"fills": 60, "full[0]": 112, "reads": 164, "free[0]": 216}
    body = svg.text(16, 26, "one slot, three rounds", 14, font_weight=600)
    body += "".join(svg.text(left - 14, y + 22, name, 13, "end", font_weight=600) for name, y in rows.items())
    for turn in range(rounds):
        x = left + step * turn
        full_ends, free_ends = x + 80, x + 180
        body += svg.rectangle(x + 10, rows["fills"], 70, high, BLUE, rx=4) + _in(x + 45, rows["fills"], f"fill {turn}", "#ffffff")
        body += svg.text(x + 6, rows["fills"] - 6, f"wait free, {(turn & 1) ^ 1}", 11, fill=svg.QUIET)
        body += svg.rectangle(x + 110, rows["reads"], 70, high, GREEN, rx=4)
        body += _in(x + 145, rows["reads"], f"read {turn}", "#ffffff")
        body += svg.text(x + 106, rows["reads"] - 6, f"wait full, {turn & 1}", 11, fill=svg.QUIET)
        for name, ends in (("full[0]", full_ends), ("free[0]", free_ends)):
            start = left if turn == 0 else ends - step
            body += _phase(start, ends, rows[name], high, turn)
        body += svg.line(full_ends, rows["fills"] + high, full_ends, rows["full[0]"], svg.INK, stroke_dasharray="3 3")
        body += svg.line(free_ends, rows["reads"] + high, free_ends, rows["free[0]"], svg.INK, stroke_dasharray="3 3")
    end = left + step * rounds
    body += _phase(full_ends, end, rows["full[0]"], high, rounds) + _phase(free_ends, end, rows["free[0]"], high, rounds)
    said = "two shades: parity 0 and parity 1; a dashed line: the arrival that ends a phase"
    body += svg.text(left, 276, said, 11.5, fill=svg.QUIET)
    return svg.document(end + 20, 292, body)


def _phase(start: float, end: float, y: float, high: float, number: int) -> str:
    dark = number & 1
    said = f"phase {number}" if end - start > 60 else str(number)
    return (svg.rectangle(start, y, end - start, high, "#9aa3b2" if dark else GREY, stroke="#ffffff")
            + _in((start + end) / 2, y, said, svg.INK))


def _in(x: float, y: float, words: str, fill: str) -> str:
    return svg.text(x, y + 22, words, 12, "middle", fill)


def pipes(page: ModuleType) -> str:
    """Each chunk in its slot: on its way from the commit on, in use until the release."""
    kernel, grid, args, meta = page.case()
    trace = mimw.simulate(kernel, grid, *args, trace=True, **meta).trace
    seen: dict[int, dict[str, float]] = {}
    for event in trace.events:
        if found := re.search(r"chunk (\d+): (the writer commits|the reader releases|the reader waits)", event.label):
            seen.setdefault(int(found[1]), {})[found[2].split()[-1]] = event.end
    left, wide, high, rows = 70, 640, 40, (52, 104)
    scale = wide / trace.end
    body = svg.text(16, 28, "seven chunks, two slots: from commit to release", 14, font_weight=600)
    body += "".join(svg.text(left - 12, y + 25, f"slot {slot}", 13, "end") + svg.rectangle(left, y, wide, high, "#f3f4f6")
                    for slot, y in enumerate(rows))
    for chunk, times in seen.items():
        y = rows[chunk % 2]
        begun, ended = times["commits"], times["releases"]
        taken = max(times.get("waits", 0.0), seen[chunk - 1]["releases"] if chunk else 0.0)
        body += svg.rectangle(left + begun * scale, y, (taken - begun) * scale, high, "#f0c592")
        body += svg.rectangle(left + taken * scale, y, (ended - taken) * scale, high, GREEN)
        body += svg.text(left + begun * scale + 6, y + 25, f"chunk {chunk}", 11.5)
    for x, colour, said in ((left, "#f0c592", "committed: its bytes come, or wait for the reader"),
                            (left + 300, GREEN, "in use, until the release")):
        body += svg.rectangle(x, 160, 12, 12, colour) + svg.text(x + 18, 170, said, 11)
    body += svg.text(left + wide, 170, "cycles of the simulator", 11, "end", svg.QUIET)
    return svg.document(left + wide + 20, 186, body)


def proxies(_: ModuleType) -> str:
    words = {"generic proxy": ("tlx.local_load, tlx.local_store", "tl.load, tl.store by tle.gpu.local_ptr",
                               "cp.async, remote stores"),
             "asynchronous proxy": ("TMA: async_descriptor_load, _store", "bulk copies", "async_dot reads its operands")}
    body = ""
    for (name, lines), x, colour in zip(words.items(), (20, 440), (BLUE, ORANGE), strict=True):
        body += svg.rectangle(x, 16, 300, 92, "#ffffff", rx=8, stroke=colour, stroke_width=2)
        body += svg.text(x + 150, 38, name, 14, "middle", font_weight=600)
        body += "".join(svg.text(x + 150, 60 + 18 * number, line, 12, "middle") for number, line in enumerate(lines))
        body += svg.line(x + 150, 108, x + 150, 176, colour, stroke_width=3)
    body += svg.rectangle(20, 176, 720, 50, "#eef1f5", rx=8, stroke="#9ca3af")
    body += svg.text(380, 206, "the same bytes of shared memory", 14, "middle", font_weight=600)
    body += svg.line(180, 142, 580, 142, svg.INK, stroke_width=2, stroke_dasharray="6 4")
    body += svg.rectangle(276, 126, 208, 32, "#ffffff", rx=6, stroke=svg.INK)
    body += svg.text(380, 147, 'tlx.fence("async_shared")', 13, "middle", font_family="ui-monospace, monospace")
    return svg.document(760, 244, body)


PICTURES = {"tasks": tasks, "buffers": buffers, "barriers": barriers, "phases": phases, "pipes": pipes, "proxies": proxies}


def picture(name: str) -> str:
    """The text of docs/concepts/NAME.svg."""
    drawn = PICTURES[name](program(name))
    return (drawn if "prefers-color-scheme" in drawn else drawn.replace(">", f">{DARK}", 1)).rstrip() + "\n"


def main(argv: list[str]) -> int:
    drawn = {FOLDER / f"{name}.svg": picture(name) for name in PICTURES}
    stale = [path for path, text in drawn.items() if not path.exists() or path.read_text() != text]
    if "--check" not in argv:
        for path in stale:
            path.write_text(drawn[path])
    print(f"{'stale' if '--check' in argv else 'written'}: {', '.join(path.name for path in stale) or 'none'}")
    return int("--check" in argv and bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
