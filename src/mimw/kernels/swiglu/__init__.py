"""SwiGLU, gate sigmoid(gate) up, and its gradient: bf16, fp16 and fp32 on any GPU.

Input: gate and up (rows, N), columns contiguous, rows as far apart as they are. Output: y, or the gradients of both. For example:

    arguments(gate, up, y)                              (kernel, grid, args, meta) of a launch or `mimw.simulate`
    gradient_arguments(gate, up, dy, dgate, dup)        the same of the gradients
"""

from __future__ import annotations

from ..contract import Contract
from ..contract.memory import strides
from .kernel import swiglu as kernel
from .kernel import swiglu_gradient
from .nouns import GradientSteps, Steps

__all__ = ["CONTRACT", "GRADIENT", "arguments", "gradient_arguments", "kernel", "swiglu_gradient"]

CONTRACT = Contract(*(f"{name}: float (rows, N) rows" for name in ("gate", "up", "y")))
GRADIENT = Contract(*(f"{name}: float (rows, N) rows" for name in ("gate", "up", "dy", "dgate", "dup")))


def arguments(gate, up, y) -> tuple:
    """(kernel, grid, args, meta) that fill y; (rows, N) of fp16, bf16 or fp32, columns contiguous, or a ValueError."""
    return (kernel, *_launch(CONTRACT, Steps, gate=gate, up=up, y=y))


def gradient_arguments(gate, up, dy, dgate, dup) -> tuple:
    """(kernel, grid, args, meta) that fill dgate and dup; arrays and errors as `arguments`."""
    return (swiglu_gradient, *_launch(GRADIENT, GradientSteps, gate=gate, up=up, dy=dy, dgate=dgate, dup=dup))


def _launch(contract: Contract, steps: type, **matrices) -> tuple:
    of = contract.check(**matrices)
    block = min(2048, max(32, 1 << (of.N - 1).bit_length()))
    args = (*matrices.values(), of.rows, of.N, steps(**{name: strides(matrix)[0] for name, matrix in matrices.items()}))
    return (of.rows * -(-of.N // block), ), args, dict(BLOCK=block, num_warps=8 if block > 1024 else 4)
