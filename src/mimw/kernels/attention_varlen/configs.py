"""Which configuration for which problem: ../attention's of causal launches, as only the device knows lengths, with more slots of
queries where sequences are short.

Input: a head dim, whether a mask or something else changes scores, the longest sequence of queries. Output: a `Configuration`:

    configuration(128, True, False, 4096)       Configuration(bm=128, bn=128, k_stages=2, v_stages=3, ..., q_stages=2)
    configuration(128, True, False, 200)        Configuration(bm=128, bn=128, k_stages=2, v_stages=2, ..., q_stages=3)
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from ..attention import configs as dense

SHORT = 256     # up to two blocks of keys: a tile is over before the queries of the next but one can have come


@dataclass(frozen=True)
class Configuration(dense.Configuration):
    """../attention's, and how many tiles of queries of a consumer there is room for; without `ahead` one may do."""

    q_stages: int = 2

    def slots(self) -> int:
        """Slots of queries of a consumer."""
        return self.q_stages if self.ahead else 1


def configuration(head_dim: int, causal: bool, changed: bool, max_seqlen_q: int) -> Configuration:
    """The configuration of causal launches of ../attention for a head dim; of heads of 128 the third slot of queries takes a slot
    of values."""
    found = Configuration(**asdict(dense.configuration(head_dim, True, changed)))
    if max_seqlen_q > SHORT or not found.ahead:
        return found
    return replace(found, q_stages=3, v_stages=min(found.v_stages, 2) if head_dim == 128 else found.v_stages)


__all__ = ["Configuration", "configuration"]
