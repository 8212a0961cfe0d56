"""docs/gallery/found_bug.svg, the picture of the README: a planted bug, what `mimw.check` finds, and where that is in a run.

    drawing(report.findings[0], run.trace, path)        SVG text; `path` is tutorial 02 with `EDIT` made in it

Input: what was found, and the trace of a run that ends with the right numbers all the same. Output: the run's first round, with
the two accesses outlined that nothing orders, and below them the lines that make them. `python docs/support/gallery.py` writes it.
"""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import wrap

from mimw.ir.trace import Event, Trace
from mimw.tools.findings import Finding

from .gallery_picture import Mark, Note, View, picture

FILE = Path(__file__).parents[1] / "gallery" / "found_bug.svg"
# The slot is said to be empty before the product that reads it is over: two lines of tutorial 02 change places.
EDIT = ("acc = tlx.async_dot_wait(1, acc)\n                    tlx.barrier_arrive(empty[last], pred=k > 0)",
        "tlx.barrier_arrive(empty[slot])\n                    acc = tlx.async_dot_wait(1, acc)")
UNTIL, COLUMNS = 2700.0, 91


def drawing(finding: Finding, trace: Trace, source: Path) -> str:
    """The picture. The two accesses are the first of the finding's lines that meet in the trace."""
    reads, writes = (int(line) for line in re.findall(r":(\d+) (?:reads|writes) ", finding.message))
    product, copy = first_meeting(trace, reads, writes)
    marks = [Mark(event.lane, event.start, event.end) for event in (product, copy)]
    text = source.read_text().splitlines()
    said = prose(finding.kind, finding.message.splitlines()[0], source)
    said += [Note(f"line {line} {does}", text[line - 1].strip(), True) for line, does in ((reads, "reads"), (writes, "writes"))]
    said += prose("mend", finding.hint, source)
    return picture(f"A run of tutorial 02 with a planted bug: {finding.kind}", [trace], View(until=UNTIL), marks=marks, notes=said)


def first_meeting(trace: Trace, reads: int, writes: int) -> tuple[Event, Event]:
    """The first product of the one line and the first copy of the other that are under way at the same time."""
    products, copies = ([event for event in trace.events if event.site and event.site.line == line and event.kind == kind]
                        for line, kind in ((reads, "dot"), (writes, "copy")))
    return next((product, copy) for product in products for copy in copies
                if product.start < copy.end and copy.start < product.end and copy.start > products[0].start)


def prose(head: str, text: str, source: Path) -> list[Note]:
    """Words in lines of the picture's width; a line of the file is `line 90`."""
    lines = wrap(text.replace(f"{source}:", "line "), COLUMNS)
    return [Note(head if not number else "", line) for number, line in enumerate(lines)]
