"""Which configuration for which problem: ../attention's, of causal launches, as lengths are known to the device alone.

Input: a head dim, whether a mask or something else changes scores, the longest sequence of queries. Output: a `Configuration`:

    configuration(128, True, False, 4096)       Configuration(bm=128, bn=128, k_stages=2, v_stages=3, consumers=2, ahead=True, ...)
"""

from __future__ import annotations

from ..attention.configs import Configuration
from ..attention.configs import configuration as dense


def configuration(head_dim: int, causal: bool, changed: bool, max_seqlen_q: int) -> Configuration:
    """The configuration of causal launches of ../attention for a head dim."""
    return dense(head_dim, True, changed)


__all__ = ["Configuration", "configuration"]
