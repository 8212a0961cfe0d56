"""A change that may mend a kernel, and the clues by which changes are put in order.

Input: findings of a check. Output: `Clues`; a `Candidate` is made by changes.py, moves.py and missing.py. For example:

    clues.about("ArriveCountMismatch")      True if a finding is of that kind
    clues.cost(candidate)                   less for a change at a line, or of a barrier, that a finding names
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ...errors import Edit


@dataclass(frozen=True)
class Candidate:
    """A change: `text` says it to a reader, `cost` how far-fetched it is, `names` the barriers and buffers that it is about."""

    text: str
    edits: tuple[Edit, ...]
    cost: float
    names: tuple[str, ...] = ()


class Clues:
    """The hints that findings give: their kinds, the lines of the kernel's file that they name, the words of their messages."""

    def __init__(self, findings: Iterable[Any], path: str):
        findings = list(findings)
        self.kinds = {kind for finding in findings for kind in (finding.kind, *finding.kinds)}
        self.lines = [site.line for finding in findings for site in finding.sites if site.file == path]
        self.words = set(re.findall(r"\w+", " ".join(f"{finding.message} {finding.hint}" for finding in findings)))

    def about(self, *kinds: str) -> bool:
        return not self.kinds.isdisjoint(kinds)

    @property
    def numbers(self) -> list[int]:
        """The numbers in the findings, as a byte count that is missing."""
        return sorted({int(word) for word in self.words if word.isdigit() and len(word) > 1})

    def cost(self, candidate: Candidate) -> float:
        lines = [line for edit in candidate.edits for line in range(edit.line, edit.last + 1)]
        near = min((abs(line - other) for line in lines for other in self.lines), default=99)
        named = any(name in self.words for name in candidate.names)
        return candidate.cost - 0.4 * (near == 0) - 0.3 * (near <= 1) - 0.2 * named + 0.3 * (near > 8)
