"""Strides of SwiGLU's matrices: numbers of a launch that belong together.

Input: what a host knows of the matrices. Output: a named tuple, which a kernel is given as it is. For example:

    steps = Steps(gate=8192, up=8192, y=4096)       gate and up are halves of one matrix
"""

from typing import Any, NamedTuple


class Steps(NamedTuple):
    """Elements from a row to the next, of each matrix."""

    gate: Any
    up: Any
    y: Any


class GradientSteps(NamedTuple):
    """The same of the gradient's."""

    gate: Any
    up: Any
    dy: Any
    dgate: Any
    dup: Any
