"""The runs behind `mimw.check`: which are made, where (in this process or several), and what comes out of each.

    search.py      the order of it all: seeds, schedules, smaller launches, what is reported
    outcomes.py    what one run has shown, as plain data that processes can hand on
    processes.py   runs side by side in forked processes, their results in order
    sample.py       which CTAs of a grid run
    across.py       whether what a CTA does depends on others, so that a part of the grid cannot run
    stores.py       whether stores of different clusters meet, by their addresses
    protocol.py     runs without the tile data that decides nothing
    arrays.py      the arguments, put back before each run
    shrink.py      the smallest launch that shows a finding
    meter.py       how far a check is, and how long it will take
"""

from .meter import Meter
from .search import Search

__all__ = ["Meter", "Search"]
