"""Which launch of a cross entropy for which rows: the rules of ../norm/configs.py.

Input: number and length of the rows, and the bytes of their elements. Output: a `Configuration`. For example:

    configuration(8192, 131072, 2)      Configuration(form="ring", ctas=8, chunk=2048, chunks=8, warps=8, stages=7, ...)
    configuration(8192, 50257, 2, ring=False)       Configuration(form="direct", ctas=8, chunk=8192, ...)
"""

from __future__ import annotations

from ..norm.configs import Configuration, ring_configuration
from ..norm_backward.configs import direct_configuration

__all__ = ["Configuration", "configuration", "direct_configuration", "ring_configuration"]


def configuration(rows: int, n: int, in_bytes: int, ring: bool = True) -> Configuration:
    """The configuration for `rows` rows of n elements of `in_bytes`; `ring` says whether bulk copies take the rows."""
    return (ring and ring_configuration(rows, n, in_bytes, kept_bytes=0)) or direct_configuration(rows, n)
