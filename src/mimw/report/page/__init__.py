"""One page about a kernel: its source with findings on their lines; beside it timeline, storage, barriers, tables, linked by click.

Input: what is known of a kernel, as a `Page`. Output: a page of HTML in one file that needs no network, or the same as a frame for
notebooks. For example:

    Page("ring", program=program, target=chip, trace=trace, notes=(Note("DataRace", "...", sites), )).html()

The files:

    page.py      what a page is told, and its frame
    lines.py     source positions as the keys by which everything on the page is linked
    source.py    the functions that ran, line by line, with the findings
    lanes.py     the timeline: what is drawn without JavaScript, and the data for zooming
    runs.py      the runs of several findings, as data that has only once what they share
    maps.py      shared memory, tensor memory and local memories by offset
    tables.py    tasks, buffers, pipes and barriers; texts whose positions are links
    page.css, page.js, timeline.js
"""

from .note import Note
from .page import Page
from .runs import Run

__all__ = ["Note", "Page", "Run"]
