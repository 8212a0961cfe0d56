"""Which configuration for which groups: the GEMM's configurations, chosen by how many rows a group has on average.

Input: rows of all groups, groups, and the bytes of an input element. Output: a `Configuration` of the GEMM. For example:

    configuration(16384, 256)       64 rows a group: Configuration(bm=64, bn=256, stages=5, ping_pong=True, ...)

The host does not know the sizes of groups, only their sum. The choices are data, in `configs.json`.
"""

from __future__ import annotations

from pathlib import Path

from ..gemm.configs import ON_AMD, Configuration
from ..measured import by_chip


@by_chip(Path(__file__).parent / "configs.json")
def _chosen(rows: list[dict]) -> tuple[tuple[int, Configuration], ...]:
    """(rows of a group at most, configuration), ascending."""
    rows = sorted(rows, key=lambda row: row["rows"])
    return tuple((row["rows"], Configuration(**row["configuration"])) for row in rows)


def configuration(rows: int, groups: int) -> Configuration:
    """The configuration for groups of rows / groups rows on average."""
    return next((chosen for most, chosen in _chosen() if rows <= most * groups), _chosen()[-1][1])


__all__ = ["ON_AMD", "Configuration", "configuration"]
