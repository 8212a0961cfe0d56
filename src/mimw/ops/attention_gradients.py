"""Both halves of attention's derivative that are the same for all of its forms: what is saved, and which gradient may be missing.

Input: how many tensors a form takes; its gradients from those of o and lse. Output: functions for an `Operator`. For example:

    @gradient_of_o
    def _gradients(ctx, do, dlse): return BACKWARD(do, *ctx.saved_tensors, dlse, *ctx.options)

    ATTENTION = Operator(schema, run, CONTRACT, saved(3), _gradients)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import torch
from torch import Tensor


def saved(tensors: int) -> Callable:
    """A function for autograd that saves the first so many arguments and (o, lse), and keeps the others as `ctx.options`."""
    def save(ctx, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
        ctx.save_for_backward(*inputs[:tensors], *output)
        ctx.options = inputs[tensors:]
        ctx.set_materialize_grads(False)

    return save


def gradient_of_o(backward: Callable) -> Callable:
    """The function, which is called where o or lse have a gradient, with zeros for that of o where only lse has one."""
    @wraps(backward)
    def gradients(ctx, do: Tensor | None, dlse: Tensor | None) -> tuple:
        if do is None and dlse is None:
            return ()
        return backward(ctx, torch.zeros_like(ctx.saved_tensors[-2]) if do is None else do, dlse)

    return gradients


def check_detached(wanted: tuple[bool, ...], what: str) -> None:
    """NotImplementedError if one of these gradients is wanted."""
    if any(wanted):
        raise NotImplementedError(f"{what}: give them detached")


__all__ = ["check_detached", "gradient_of_o", "saved"]
