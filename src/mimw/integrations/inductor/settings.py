"""What the passes may replace, and by which rule they choose.

Input: the arguments of `enable`. Output: one object that all passes read. For example:

    Settings(allow=frozenset({"mm", "sdpa"}), force=False, devices=frozenset({"cuda"}))
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

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
        """The same in each process, so that inductor's caches on disk keep apart graphs of different settings, and of other
        versions of these passes."""
        return _sources(), *(tuple(sorted(part)) if isinstance(part, frozenset) else part for part in astuple(self))


@cache
def _sources() -> str:
    """A digest of the passes' texts: code on disk that another version of them chose is not taken."""
    files = sorted(Path(__file__).parent.rglob("*.py"))
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


__all__ = ["KINDS", "Settings"]
