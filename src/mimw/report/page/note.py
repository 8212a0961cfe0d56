"""A finding as a page shows it.

Input: what a check found, in words. Output: a `Note`, plain data for `Page` and its source pane. For example:

    Note("DataRace", "nothing orders these two accesses", (load, store), hint="wait for the barrier", shown="seed 3")
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import Site


@dataclass(frozen=True)
class Note:
    """One finding: `kind` is its class, `message` the facts, `hint` the mend, `shown` how to see it again. It stands below the line
    of the first of `sites`; the others, as the other side of a race, have its number. `mark` says how many of them the timeline
    marks."""

    kind: str
    message: str
    sites: tuple[Site, ...] = ()
    hint: str = ""
    shown: str = ""
    mark: int = 2
