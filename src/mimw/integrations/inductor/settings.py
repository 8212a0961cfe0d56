"""What the passes may replace, and by which rule they choose.

Input: the arguments of `enable`. Output: one object that all passes read. For example:

    Settings(allow=frozenset({"mm", "sdpa"}), force=False, devices=frozenset({"cuda"}))
"""

from __future__ import annotations

from dataclasses import astuple, dataclass

KINDS = ("mm", "addmm", "bmm", "grouped_mm", "sdpa", "flex", "epilogue")


@dataclass(frozen=True)
class Settings:
    """args:      allow     kinds of calls that may become ours
                 force     ours wherever it takes the call; else where it was the quicker one when both were timed
                 devices   types of devices; tensors of the CPU are simulated, so that only tests name it"""

    allow: frozenset[str]
    force: bool
    devices: frozenset[str]

    def key(self) -> tuple:
        """The same in each process, so that inductor's caches on disk keep graphs of different settings apart."""
        return tuple(tuple(sorted(part)) if isinstance(part, frozenset) else part for part in astuple(self))


__all__ = ["KINDS", "Settings"]
