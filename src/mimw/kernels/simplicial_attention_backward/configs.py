"""The cut of a launch.

Input: a head dim. Output: a `Configuration`, whose `meta` gives the kernel's constants and launch options:

    configuration(128)      Configuration(bn=64, stages=3, chunk=3)
"""

from __future__ import annotations

from ..simplicial_attention.configs import Configuration


def configuration(head_dim: int) -> Configuration:
    """The configuration of a head dim: dO and its scaled tile leave room for three blocks of 64 keys of 128 numbers."""
    blocks = 3 * (128 // head_dim)
    return Configuration(stages=blocks, chunk=blocks)
