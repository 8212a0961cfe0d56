"""The runs behind `mimw.check`: which runs are made, where (in this process or several), and the findings of each.

Input: a launch, and seeds or the limit of a systematic search. Output: a `Report`. For example:

    Search(launch).all(range(8), "random", 200, shrink=True)

The files:

    search.py      the order of a check: seeds, schedules, smaller launches, the report
    outcomes.py    the findings of one run, as plain data that processes can hand on
    processes.py   runs side by side in forked processes, their results in order
    sample.py      which CTAs of a grid run
    clusters.py    the clusters of a grid by their numbers
    across.py      whether the work of a CTA depends on others, so that a part of the grid cannot run
    together.py    which programs of several GPUs wait for each other's signals
    addresses.py   where ops access memory in every CTA, without running the rest
    stores.py      whether stores of different clusters meet, by their addresses
    protocol.py    runs without the tile data that decides nothing
    results.py     the results of runs, compared with what is expected
    arrays.py      the arguments, put back before each run
    shrink.py      the smallest launch that shows a finding
    meter.py       how far a check is, and how long the check will take
"""

from .meter import Meter
from .search import Search

__all__ = ["Meter", "Search"]
