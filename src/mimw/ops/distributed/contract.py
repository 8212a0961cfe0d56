"""The contract of an operator of several GPUs: its lines may speak of `ranks`, those of the call's process group.

Input: as `mimw.ops.contract`; a call has the name of a group, or says how many ranks there are. Output: a `RankContract`. For
example:

    GATHERED = RankContract("all_rows", "a: any (rows, k)", "-> whole: =a (rows * ranks, k)")
    GATHERED.check(a=a, group_name=name).whole.shape        (8192, 64) of 4096 rows at each of two ranks
    GATHERED.check(a=a, ranks=2)
"""

from __future__ import annotations

from typing import Any

from ..contract import Contract, Extents
from .launching import world_of


class RankContract(Contract):
    """A contract of a call of all ranks."""

    def check(self, **given: Any) -> Extents:
        """Check as `Contract` does, with the option `ranks`."""
        return super().check(**_with_ranks(given))

    def operations(self, **given: Any) -> int:
        """The operations of this rank."""
        return super().operations(**_with_ranks(given))


def _with_ranks(given: dict[str, Any]) -> dict[str, Any]:
    return given if "ranks" in given else given | {"ranks": world_of(given["group_name"]).size}


__all__ = ["RankContract"]
