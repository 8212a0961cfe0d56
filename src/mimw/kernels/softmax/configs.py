"""Which launch of a softmax, or of its gradient, for which rows: the rules of ../norm/configs.py.

Input: number and length of the rows, and the bytes of their elements. Output: a `Configuration`. For example:

    configuration(1152, 65536, 2)       Configuration(form="ring", ctas=4, chunk=2048, chunks=8, warps=8, stages=7, ...)
    configuration(4, 65536, 2)          Configuration(form="direct", ctas=16, chunk=4096, ...)
"""

from __future__ import annotations

from ..norm.configs import Configuration, direct_configuration, ring_configuration
from ..norm_backward.configs import direct_configuration as direct_gradient_configuration

__all__ = ["Configuration", "configuration", "direct_configuration", "gradient_configuration"]


def configuration(rows: int, n: int, in_bytes: int, ring: bool = True) -> Configuration:
    """The configuration for `rows` rows of n elements of `in_bytes`; `ring` says whether bulk copies take the rows."""
    return (ring and ring_configuration(rows, n, in_bytes, kept_bytes=0)) or direct_configuration(rows, n)


def gradient_configuration(rows: int, n: int, in_bytes: int, ring: bool = True) -> Configuration:
    """The same for the gradient, which reads two arrays; `in_bytes` of the wider one's elements."""
    return (ring and ring_configuration(rows, n, in_bytes, 2, kept_bytes=0)) or direct_gradient_configuration(rows, n)
