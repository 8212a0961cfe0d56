"""fla's cross entropy by `mimw.ops`, with fla's parameters: losses that are not yet reduced, and the gradient of the logits.

Input: the arguments of `fla.modules.fused_cross_entropy` and `fused_linear_cross_entropy`. Output: the results of their functions:

    cross_entropy(logits, target)               (loss, z_loss, lse, classes, 0)
    gradient(logits, target, lse, dloss)        dlogits
    linear_cross_entropy(x, target, weight)     (loss, dx, dweight, None)
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mimw.ops.linear_pieces import kept_as

from .tensors import refused

_OPS = torch.ops.mimw


def cross_entropy_refused(logits: Tensor, target: Tensor, label_smoothing: float = 0.0, logit_scale: float = 1.0,
                          lse_square_scale: float = 0.0, logit_softcapping: float | None = None, ignore_index: int = -100,
                          process_group: Any = None) -> str | None:
    if logit_scale != 1 or logit_softcapping is not None:
        return "mimw's cross entropy takes logits as they are, and these are scaled or capped"
    if process_group is not None:
        return "mimw's cross entropy takes all classes on one GPU, and these are spread"
    return refused(logits) or refused(target, types=(torch.int64, torch.int32))


def cross_entropy(logits: Tensor, target: Tensor, label_smoothing: float = 0.0, logit_scale: float = 1.0,
                  lse_square_scale: float = 0.0, logit_softcapping: float | None = None, ignore_index: int = -100,
                  process_group: Any = None) -> tuple[Tensor, Tensor, Tensor, int, int]:
    """(losses with the z-losses in them, z-losses, logarithms of the denominators, classes, the first class)."""
    loss, lse = _OPS.cross_entropy(logits, target, ignore_index, label_smoothing, lse_square_scale)
    z_loss = lse_square_scale * lse.square() if lse_square_scale else torch.zeros_like(lse)
    return loss, z_loss.masked_fill_(target == ignore_index, 0), lse, logits.shape[1], 0


def gradient_refused(logits: Tensor, target: Tensor, lse: Tensor, dloss: Tensor, label_smoothing: float = 0.0,
                     logit_scale: float = 1.0, lse_square_scale: float = 0.0, logit_softcapping: float | None = None,
                     ignore_index: int = -100, total_classes: int | None = None, class_start_idx: int = 0,
                     inplace_backward: bool = False) -> str | None:
    if total_classes not in (None, logits.shape[1]) or class_start_idx:
        return "mimw's cross entropy takes all classes on one GPU, and these are spread"
    reason = cross_entropy_refused(logits, target, label_smoothing, logit_scale, lse_square_scale, logit_softcapping)
    return reason or refused(dloss)


def gradient(logits: Tensor, target: Tensor, lse: Tensor, dloss: Tensor, label_smoothing: float = 0.0, logit_scale: float = 1.0,
             lse_square_scale: float = 0.0, logit_softcapping: float | None = None, ignore_index: int = -100,
             total_classes: int | None = None, class_start_idx: int = 0, inplace_backward: bool = False) -> Tensor:
    """The gradient of the logits, in their memory if `inplace_backward`."""
    options = ignore_index, label_smoothing, lse_square_scale
    if inplace_backward:
        _OPS.cross_entropy_backward_(logits, target, lse, dloss, *options)
        return logits
    return _OPS.cross_entropy_backward(logits, target, lse, dloss, *options)



def linear_cross_entropy_refused(x: Tensor, target: Tensor, weight: Tensor, bias: Tensor | None = None, ignore_index: int = -100,
                                 label_smoothing: float = 0.0, logit_scale: float = 1.0, logit_softcapping: float | None = None,
                                 num_chunks: int = 8, reduction: str = "mean", use_l2warp: bool = False,
                                 l2_penalty_factor: float = 1e-4, accumulate_grad_in_fp32: bool = True,
                                 process_group: Any = None) -> str | None:
    if use_l2warp:
        return "mimw's fused linear cross entropy has no L2 penalty"
    if torch.is_autocast_enabled(x.device.type):
        return "autocast chooses the types of fla's products"
    return (cross_entropy_refused(x, target, label_smoothing, logit_scale, 0.0, logit_softcapping, ignore_index, process_group)
            or refused(x, weight, bias, alike=True))


def linear_cross_entropy(x: Tensor, target: Tensor, weight: Tensor, bias: Tensor | None = None, ignore_index: int = -100,
                         label_smoothing: float = 0.0, logit_scale: float = 1.0, logit_softcapping: float | None = None,
                         num_chunks: int = 8, reduction: str = "mean", use_l2warp: bool = False, l2_penalty_factor: float = 1e-4,
                         accumulate_grad_in_fp32: bool = True, process_group: Any = None) -> tuple:
    """(the loss, dx, dweight, dbias or None) of `mimw.ops.linear_cross_entropy`, which chooses its own pieces, and sums
    dweight in fp32. Gradients of fp16 are of fp32 until autograd rounds them. Where all targets are ignored the mean is 0, as in
    fla; torch's is NaN, and so is the operator's."""
    kept, half = (target != ignore_index).sum(), x.dtype is torch.float16
    mean = reduction == "mean"
    loss, *gradients = _OPS.linear_cross_entropy(
        x, weight, bias, target, of_classes=None, ignored=ignore_index, smoothing=float(label_smoothing), z=0.0, cap=0.0,
        mean=mean and not half, sums=torch.float32, kept=kept_as(x.dtype), of_x=True, of_weight=True, of_bias=bias is not None)
    if mean and half:
        loss, *gradients = (one.div_(kept.clamp_min(1)) for one in (loss, *gradients))
    elif mean:
        loss = torch.where(kept > 0, loss, 0)
    dx, dweight, dbias = gradients
    dweight = dweight.to(kept_as(weight.dtype))
    return loss, dx, dweight, None if bias is None else dbias.to(kept_as(weight.dtype))


def linear_gradients_refused(do: Tensor, dx: Tensor, dw: Tensor, db: Tensor | None) -> str | None:
    return refused(do, dx, dw, db)


def linear_gradients(do: Tensor, dx: Tensor, dw: Tensor, db: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """(dx, dweight, dbias) times the loss's gradient, in memory of their own, so that backward may run again."""
    return dx * do, dw * do, None if db is None else db * do


__all__ = ["cross_entropy", "cross_entropy_refused", "gradient", "gradient_refused", "linear_cross_entropy",
           "linear_cross_entropy_refused", "linear_gradients", "linear_gradients_refused"]
