"""Known faults of ptxas, from the table `known.toml`, and whether a version has one by its number.

Input: a version, (13, 3, 33). Output: `Defect`s, and what their versions say. For example:

    known()["kept_operand"].by_version((13, 0, 88))         "has"
    known()["kept_operand"].by_version((13, 4, 59))         "clear"
    known()["batch_invariance"].by_version((13, 4, 59))     "unknown": seen up to 13.3, and nobody has said that it is fixed
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
KINDS = ("wrong numbers", "bad addresses", "refused")
CHIPS = ("sm_90a", "sm_100a", "sm_103a", "sm_120a")     # Hopper and Blackwell
Version = tuple[int, ...]


@dataclass(frozen=True)
class Defect:
    """An entry of the table; its comment says what each field is. `probe` is () if there is none."""

    name: str
    chips: tuple[str, ...]
    kind: str
    what: str
    code: str
    mend: str
    mimw: str
    sources: tuple[str, ...]
    since: str = ""
    fixed: str = ""
    last: str = ""
    avoided: bool = False
    probe: tuple[tuple[str, str], ...] = ()

    def by_version(self, version: Version) -> str:
        """"has", "clear" or "unknown", by the number alone."""
        if self.since and version < numbers(self.since):
            return "clear"
        if self.fixed:
            return "has" if version < numbers(self.fixed) else "clear"
        newest = numbers(self.last)
        return "has" if version[:len(newest)] <= newest else "unknown"

    @property
    def versions(self) -> str:
        """The versions that have it, in words."""
        if not self.since:
            return f"before {self.fixed}" if self.fixed else f"all, seen up to {self.last}; no fix is known"
        return f"from {self.since} on, " + (f"fixed in {self.fixed}" if self.fixed else f"seen up to {self.last}; no fix is known")

    @property
    def ptx(self) -> str:
        """The text of the probe, for sm_90a."""
        return (HERE / "probes" / f"{self.name}.ptx").read_text()


def numbers(version: str) -> Version:
    """(12, 6, 85) of "12.6.85"."""
    return tuple(map(int, version.split(".")))


@cache
def known() -> dict[str, Defect]:
    """The table, by name, in its order. Raises ValueError for an entry that says too little."""
    found = {}
    for name, entry in tomllib.loads((HERE / "known.toml").read_text()).items():
        probe = tuple(sorted(entry.pop("probe", {}).items()))
        defect = Defect(name, chips=tuple(entry.pop("chips")), sources=tuple(entry.pop("sources")), probe=probe, **entry)
        ends = bool(defect.fixed) != bool(defect.last)
        if not (set(defect.chips) <= set(CHIPS) and defect.kind in KINDS and defect.sources and ends):
            raise ValueError(f"known.toml, {name}: chips of {CHIPS}, a kind of {KINDS}, a source, and either `fixed` or `last`")
        for _, pattern in probe:
            re.compile(pattern)
        found[name] = defect
    return found
