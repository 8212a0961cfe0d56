"""Stages of a pipeline that no border ends.

Input: TTGIR after Triton's last passes over it. Output: their number:

    unended_stages(module)        1: arithmetic stands behind the last border of a loop

Triton's pass (`add_warp_pipeline`) takes what stands behind the last border for a stage of its own, and says nothing.
"""

from __future__ import annotations


def unended_stages(module) -> int:
    """The number of stages that have no border of their own, by the name that Triton gives them."""
    return str(module).count('triton.warp_pipeline.stage = "last_cluster"')
