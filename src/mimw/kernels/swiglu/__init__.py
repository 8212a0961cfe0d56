"""SwiGLU, gate sigmoid(gate) up, and its gradient: bf16, fp16 and fp32 on any GPU.

Input: gate and up (rows, N), columns contiguous, rows as far apart as they are. Output: y, or the gradients of both. For example:

    arguments(gate, up, y)                              (kernel, grid, args, meta) of a launch or `mimw.simulate`
    gradient_arguments(gate, up, dy, dgate, dup)        the same of the gradients
"""

from __future__ import annotations

from ..checks import of_rank
from ..norm import TYPES, strides_of, type_of
from .kernel import swiglu as kernel
from .kernel import swiglu_gradient

__all__ = ["arguments", "gradient_arguments", "kernel", "swiglu_gradient"]


def arguments(gate, up, y) -> tuple:
    """(kernel, grid, args, meta) that fill y; (rows, N) of fp16, bf16 or fp32, columns contiguous, or a ValueError."""
    return (kernel, *_launch(gate=gate, up=up, y=y))


def gradient_arguments(gate, up, dy, dgate, dup) -> tuple:
    """(kernel, grid, args, meta) that fill dgate and dup; arrays and errors as `arguments`."""
    return (swiglu_gradient, *_launch(gate=gate, up=up, dy=dy, dgate=dgate, dup=dup))


def _launch(**matrices) -> tuple:
    of_rank(2, **matrices)
    rows, n = map(int, matrices["gate"].shape)
    for name, matrix in matrices.items():
        if type_of(matrix) not in TYPES:
            raise ValueError(f"{name} is {matrix.dtype}; it may be {', '.join(TYPES)}")
        if tuple(matrix.shape) != (rows, n) or n > 1 and strides_of(matrix)[1] != 1:
            raise ValueError(f"{name} must be {(rows, n)} with contiguous columns; its shape is {tuple(matrix.shape)}, its strides "
                             f"{strides_of(matrix)}")
    block = min(2048, max(32, 1 << (n - 1).bit_length()))
    steps = (strides_of(matrix)[0] for matrix in matrices.values())
    return (rows * -(-n // block), ), (*matrices.values(), rows, n, *steps), dict(BLOCK=block, num_warps=8 if block > 1024 else 4)
