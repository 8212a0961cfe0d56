"""The rows of docs/performance.md: of every shape that a benchmark measured, the newest.

Input: benchmarks/results/*.jsonl. Output: `Row`s. For example:

    rows = newest(Path("benchmarks/results"))           {"gemm-bf16": [Row("gemm-bf16-GH1", ...), ...], ...}

Of one name and shape the newest date counts, and of that date the last rows that stand together in the file. Where these are
several, a search tried as many configurations: the one that the library chooses today counts, and where it is not among them the
fastest. performance_choices.py knows the library's choice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from math import prod
from pathlib import Path

_OF_OURS = re.compile(r"\d+ [a-z_]+$|backward$|forward$")     # a launch of ours by its place, and a part of a row: no baseline


@dataclass(frozen=True)
class Row:
    """One measured shape; of `tried` configurations this one. `code` is of the package's sources, as far as kept; `shipped` whether
    the library chooses this configuration today, None where there is none."""

    name: str
    shape: dict[str, int]
    microseconds: float
    baselines: dict[str, float]
    error: float
    chip: str
    versions: str
    date: str
    tried: int
    code: str = ""
    shipped: bool | None = None

    @property
    def run(self) -> str:
        """What rows of the same sources and day have in common."""
        return f"{self.date} {self.code}".rstrip()

    def ratio(self, baseline: str) -> float | None:
        """How many times faster than a baseline of the same run."""
        return self.baselines[baseline] / self.microseconds if baseline in self.baselines else None


def mean(ratios: list[float]) -> float:
    """The geometric one."""
    return prod(ratios)**(1 / len(ratios))


Shipped = Callable[[dict], bool | None]


def newest(folder: Path, shipped: Shipped = lambda row: None) -> dict[str, list[Row]]:
    """File -> its rows, in the order in which the shapes came first."""
    return {file.stem: rows for file in sorted(folder.glob("*.jsonl")) if (rows := newest_of(file.read_text(), shipped))}


def newest_of(text: str, shipped: Shipped = lambda row: None) -> list[Row]:
    """Of the lines of one file; lines that are no row of times beside baselines are passed over."""
    found: dict[tuple, Row] = {}
    given = [row for row in map(json.loads, text.splitlines()) if is_timed(row)]
    for key, together in groupby(given, key=key_of):
        *shape, date = key
        rows = list(together)
        if tuple(shape) not in found or date >= found[tuple(shape)].date:
            best = min(rows, key=lambda row: (not shipped(row), row["microseconds"]))
            found[tuple(shape)] = row_of(best, len(rows), shipped(best))
    return list(found.values())


def is_timed(row: dict) -> bool:
    return isinstance(row.get("microseconds"), float) and all(isinstance(row.get(name), dict) for name in ("shape", "baselines"))


def key_of(row: dict) -> tuple:
    return row["name"], tuple(row["shape"].items()), row["date"]


def row_of(row: dict, tried: int, shipped: bool | None) -> Row:
    known = dict(row.get("versions", {}))
    code = known.pop("code", "")
    versions = ", ".join(f"{name} {version}" for name, version in sorted(known.items()))
    baselines = {name: time for name, time in row["baselines"].items() if not _OF_OURS.match(name)}
    facts = row["name"], row["shape"], row["microseconds"], baselines, row["error"], row["chip"]
    return Row(*facts, versions, row["date"], tried, code, shipped)
