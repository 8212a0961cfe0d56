"""A planted mistake needs no runs behind the one that shows it.

    shows("DataRace", lambda seeds: mimw.check(kernel, grid, *args, seeds=seeds), 8)

Input: the kind of finding, what checks by the seeds that it is given, and how many seeds there are. Output: whether one of them
finds it. Seven of eight runs of a wrong program are saved, for the first seed shows nearly every mistake.
"""

from __future__ import annotations

from collections.abc import Callable

from mimw.tools.findings import Report


def shows(kind: str, check: Callable[[list[int]], Report], seeds: int) -> bool:
    return any(kind == finding.kind for seed in range(seeds) for finding in check([seed]).findings)
