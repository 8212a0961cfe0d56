"""Tuning: the search for an operator's fastest configurations, on the command line `mimw tune`.

Input: an operator and shapes. Output: a `Report`; on demand rows of a kernel's configs.json. For example:

    report = tune("gemm", ["4096x4096x4096"], journal="gemm.jsonl", tell=print)
    print(report)

The files:

    engine.py      the steps of a search, in order
    operator.py    what an operator says of itself; operators/ are those of the library
    work.py        what a process does for one candidate: predict, compile, measure
    processes.py   processes with a time limit that may crash
    prune.py       which candidates go on after predicting
    binary.py      registers and spills, read off a cubin
    journal.py     what has been found out, for a search that goes on
    store.py       configs.json, by chip
    report.py      what was found, as text and data
"""

from ..errors import TuningError
from .engine import tune
from .operator import Operator, Problem, Trial
from .operators import LIBRARY, find
from .report import Candidate, Report
from .store import write

__all__ = ["Candidate", "LIBRARY", "Operator", "Problem", "Report", "Trial", "TuningError", "find", "tune", "write"]
