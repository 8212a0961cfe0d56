"""Which form and which tile for how many tokens. The measured choices are data, in `configs.json`, with the command
that made them.

Input: how many tokens and how many experts. Output: the `Configuration` of the nearest measured problem. For example:

    configuration(256, 64)          Configuration(form="cluster", block=128, num_warps=4, pull=False)
    configuration(4096, 256)        Configuration(form="grid", block=512, num_warps=8, pull=False)
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from ..measured import by_chip

CLUSTER_SIZE = 8
_THREADS_AN_SM = 512  # of the grid form's programs, which must all be there at once; with this few any register count fits


@dataclass(frozen=True)
class Configuration:
    """`block` tokens a tile, by `num_warps` warps; `form` as in kernel.py, and `pull` is the cluster form's."""

    form: Literal["grid", "cluster", "alone"] = "grid"
    block: int = 512
    num_warps: int = 8
    pull: bool = False

    def programs(self, numel: int, sms: int) -> int:
        """How many programs share the tiles."""
        if self.form == "cluster":
            return CLUSTER_SIZE
        if self.form == "alone":
            return 1
        tiles = max(1, -(-numel // self.block))
        return min(tiles, sms * max(1, _THREADS_AN_SM // (32 * self.num_warps)))


@by_chip(Path(__file__).parent / "configs.json")
def _measured(rows: list[dict]) -> dict[tuple[int, int], Configuration]:
    """(tokens, experts) -> the fastest configuration found on the chip that the file names."""
    return {(row["numel"], row["experts"]): Configuration(**row["configuration"]) for row in rows}


def configuration(numel: int, experts: int) -> Configuration:
    """The measured configuration of the nearest problem; nearness counts factors of two."""

    def distance(key: tuple[int, int]) -> float:
        return sum(abs(_log2(value) - _log2(other)) for value, other in zip((numel, experts), key))

    rows = _measured()
    return rows[min(rows, key=distance)] if rows else Configuration()


def _log2(extent: int) -> int:
    return max(1, extent - 1).bit_length()


def as_row(numel: int, experts: int, chosen: Configuration) -> dict:
    """One row of `configs.json`."""
    return {"numel": numel, "experts": experts, "configuration": asdict(chosen)}
