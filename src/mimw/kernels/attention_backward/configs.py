"""Which configuration for which problem. The measured choices are data, in `configs.json`, with the command that made
them.

Input: a head dim, and whether the mask is causal. Output: a `Configuration`, whose `meta` gives the kernel's compile-time
arguments. For example:

    configuration(128, True)        Configuration(bm=64, bn=128, q_stages=2, do_stages=2)
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from ..measured import by_chip
from .nouns import Form, KeysForm
from .order import ORDERS

HEAD_DIMS = (64, 128)


@dataclass(frozen=True)
class Configuration:
    """BN keys a program, 64 to a consumer; BM queries at a time, in rings of so many slots."""

    bm: int = 64
    bn: int = 128
    q_stages: int = 2
    do_stages: int = 2
    dq: str = "tma"  # how shares of dQ are added to memory: by "tma", or "not" at all
    order: str = "auto"  # of programs: by "heads", by "lengths" (a causal mask without a window makes them differ), the faster

    def __post_init__(self) -> None:
        if self.dq not in ("tma", "not"):
            raise ValueError(f'dq is {self.dq!r}; it may be "tma" or "not"')
        if self.order not in ORDERS:
            raise ValueError(f'order is {self.order!r}; it may be "auto", "heads" or "lengths"')
        if min(self.q_stages, self.do_stages) < 2:
            raise ValueError(f"{self.q_stages} slots of queries and {self.do_stages} of dO: a consumer holds a block and waits for "
                             "the next, so there must be 2 of each at least")

    def meta(self, head_dim: int, group: int, causal: bool, seq_k: int, bands: int = 0) -> dict:
        """The kernel's constants and warps; order.py says what bands are."""
        form = Form(self.bm, self.bn, group, causal, head_dim, seq_k % self.bn != 0, self.dq, bands)
        return dict(FORM=KeysForm(form, head_dim, self.q_stages, self.do_stages), num_warps=4)

    def share_columns(self, head_dim: int) -> int:
        """Columns of dQ that a consumer computes, of 64 rows."""
        return head_dim if self.bm == self.bn else head_dim * 64 // self.bn


@by_chip(Path(__file__).parent / "configs.json")
def _measured(rows: list[dict]) -> dict[tuple[int, bool], Configuration]:
    """(head dim, causal) -> the fastest configuration found on the chip that the file names."""
    return {(row["head_dim"], row["causal"]): Configuration(**row["configuration"]) for row in rows}


def configuration(head_dim: int, causal: bool, mod=None) -> Configuration:
    """The measured configuration for a head dim. Where a score_mod reads tables it is one of 64 queries at a time (READ_AT_ONCE of
    ../attention/changes.py), which leaves shared memory for what is read; with an element for each score, only for dK and dV."""
    if mod is not None and mod.tables:
        return Configuration(dq="not" if mod.gathers else "tma")
    return _measured()[head_dim, causal]


def as_row(head_dim: int, causal: bool, chosen: Configuration) -> dict:
    """One row of `configs.json`."""
    return {"head_dim": head_dim, "causal": causal, "configuration": asdict(chosen)}
