"""The cut of a launch.

Input: a head dim. Output: a `Configuration`, whose `meta` gives the kernel's constants and launch options:

    configuration(128)      Configuration(bn=64, stages=4, chunk=4)
"""

from __future__ import annotations

from dataclasses import dataclass

from .nouns import Form

HEADS = 64      # of one query, a tile's rows: what one warpgroup multiplies at a time
HEAD_DIMS = (64, 128)


@dataclass(frozen=True)
class Configuration:
    """Blocks of `bn` keys, `stages` of them in shared memory, `chunk` held for all second keys; the rest as in kernel.py."""

    bn: int = 64
    stages: int = 4
    chunk: int = 4

    def meta(self, head_dim: int, group: int) -> dict:
        """The kernel's constants, and launch options."""
        return dict(FORM=Form(HEADS, self.bn, head_dim, group, self.stages, self.chunk), num_warps=4)


def configuration(head_dim: int) -> Configuration:
    """The configuration of a head dim: as many blocks as there is room for, since every chunk goes through all second keys once."""
    blocks = 4 * (128 // head_dim)
    return Configuration(stages=blocks, chunk=blocks)
