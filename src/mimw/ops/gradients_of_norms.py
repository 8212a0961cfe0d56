"""The derivative of `norm_backward`, which is the second one of norms (create_graph=True): by torch's operations.

Input: what `norm_backward` was given, and the gradients of its results. Output: those of its arguments. For example:

    NORM_BACKWARD = Operator("norm_backward(...) -> (...)", Planned(...), BACKWARD, save, second)
    torch.autograd.grad(ops.rms_norm(x, 64).sum(), x, create_graph=True)        dx has a derivative

With y = (x - mean) / deviation and g = dy weight, dx = (g - mean(g) - y mean(g y)) / deviation; without centring the means that
are subtracted are left out. Mean and deviation are made of x anew, as the saved ones have no derivative; what the saved deviation
has above that of the numbers is eps.
"""

from __future__ import annotations

import torch
from torch import Tensor


def gradients(x: Tensor, dy: Tensor, weight: Tensor | None, more: Tensor | None, rstd: Tensor, centred: bool,
              dims: int) -> tuple[Tensor, Tensor, Tensor]:
    """(dx, dw, db) as `norm_backward` has them, dx with `more` added, each in its type."""
    last, rows = tuple(range(-dims, 0)), tuple(range(x.dim() - dims))
    wide, dy = x.float(), dy.float()
    if centred:
        wide = wide - wide.mean(last, keepdim=True)
    square = wide.square().mean(last, keepdim=True)
    eps = rstd.reshape(square.shape).float() ** -2 - square.detach()
    again = (square + eps).rsqrt()
    y, g = wide * again, dy if weight is None else dy * weight.float()
    dx = g - y * (g * y).mean(last, keepdim=True)
    if centred:
        dx = dx - g.mean(last, keepdim=True)
    dx = dx * again if more is None else dx * again + more.float()
    of_weight = x.dtype if weight is None else weight.dtype
    return dx.to(x.dtype), _summed(dy * y, rows).to(of_weight), _summed(dy, rows).to(of_weight)


def _summed(x: Tensor, rows: tuple[int, ...]) -> Tensor:
    return x.sum(rows) if rows else x


def save(ctx, inputs: tuple, output: tuple) -> None:
    """What `second` needs."""
    x, dy, weight, mean, rstd, more, dw, db, ctx.dims = inputs
    ctx.save_for_backward(x, dy, weight, rstd, more)
    ctx.centred, ctx.wanted = mean is not None, (True, dw, db)
    ctx.set_materialize_grads(False)


def second(ctx, *outer: Tensor | None) -> tuple:
    """Gradients of x, dy, weight and more."""
    *given, rstd, more = ctx.saved_tensors
    given.append(more)
    there = [at for at, one in enumerate(given) if one is not None]
    asked = [at for at, (one, wanted) in enumerate(zip(outer, ctx.wanted)) if wanted and one is not None]

    def of(*tensors: Tensor) -> tuple[Tensor, ...]:
        full = dict(zip(there, tensors))
        results = gradients(*(full.get(at) for at in range(4)), rstd, ctx.centred, ctx.dims)
        return tuple(results[at] for at in asked)

    _, backward = torch.func.vjp(of, *(given[at] for at in there))
    found = dict(zip(there, backward(tuple(outer[at] for at in asked))))
    return *(found.get(at) for at in range(3)), None, None, found.get(3)


__all__ = ["gradients", "save", "second"]
