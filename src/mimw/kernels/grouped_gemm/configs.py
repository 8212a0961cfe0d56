"""Which configuration for which groups: the GEMM's configurations, chosen by how many rows a group has on average.

Input: rows of all groups, groups, and the bytes of an input element. Output: a `Configuration` of the GEMM. For example:

    configuration(16384, 256)       64 rows a group: Configuration(bm=64, bn=256, stages=5, ping_pong=True, ...)
    on_amd("gfx950", 16384, 8, 2)   2048 rows a group of 16 bits: Configuration(bm=256, bn=128, stages=2, load_warps=4, ...)

The host does not know the sizes of groups, only their sum. The choices are data, in `configs.json`.
"""

from __future__ import annotations

from pathlib import Path

from ..gemm.configs import ON_AMD as SMALL_ON_AMD
from ..gemm.configs import Configuration
from ..measured import by_chip

FEW = 64        # rows of a group on average


@by_chip(Path(__file__).parent / "configs.json")
def _chosen(rows: list[dict]) -> tuple[tuple[int, Configuration], ...]:
    """(rows of a group at most, configuration), ascending."""
    rows = sorted(rows, key=lambda row: row["rows"])
    return tuple((row["rows"], Configuration(**row["configuration"])) for row in rows)


def configuration(rows: int, groups: int) -> Configuration:
    """The configuration for groups of rows / groups rows on average."""
    return next((chosen for most, chosen in _chosen() if rows <= most * groups), _chosen()[-1][1])


# For AMD's chips, four waves that load. Of eight waves that multiply and these four each has 168 registers a lane on gfx950: tiles
# of 256 x 128 are the largest that spill nothing, of 8 bits those of 128 x 128, whose operands are twice as deep. Each was
# compiled (tests/kernels/test_grouped_on_amd.py); nothing was measured. What is loaded bounds this kernel on gfx950, and a large
# tile loads less: it is predicted to take 0.71 of the time of tiles of 128 x 128.
ON_AMD = SMALL_ON_AMD | {"gfx950": Configuration(bm=256, bn=128, stages=2, staging=1, load_warps=4),
                         "gfx1250": Configuration(bm=256, bn=128, stages=3, staging=1, load_warps=4)}
_OF_8_BITS = {"gfx950": Configuration(bm=128, bn=128, stages=3, consumers=1, staging=1, load_warps=4),
              "gfx1250": Configuration(bm=128, bn=128, stages=4, staging=1, load_warps=4)}
_OF_FEW_ROWS = dict.fromkeys(("gfx950", "gfx1250"), Configuration(bm=64, bn=128, stages=4, consumers=1, staging=1, load_warps=4))


def on_amd(chip: str, rows: int, groups: int, in_bytes: int) -> Configuration:
    """The configuration on a chip of AMD for groups of rows / groups rows on average, of elements of so many bytes."""
    if rows <= FEW * groups and chip in _OF_FEW_ROWS:
        return _OF_FEW_ROWS[chip]
    return _OF_8_BITS.get(chip, ON_AMD[chip]) if in_bytes == 1 else ON_AMD[chip]


__all__ = ["ON_AMD", "Configuration", "configuration", "on_amd"]
