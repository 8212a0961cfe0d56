"""fla's cross entropy by `mimw.ops`, with fla's parameters: losses that are not yet reduced, and the gradient of the logits.

Input: what `fla.modules.fused_cross_entropy` passes on. Output: what its own functions return. For example:

    cross_entropy(logits, target)               (loss, z_loss, lse, classes, 0)
    gradient(logits, target, lse, dloss)        dlogits
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mimw import ops  # noqa: F401 -- registers the operators

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
    return cross_entropy_refused(logits, target, label_smoothing, logit_scale, lse_square_scale, logit_softcapping) or refused(dloss)


def gradient(logits: Tensor, target: Tensor, lse: Tensor, dloss: Tensor, label_smoothing: float = 0.0, logit_scale: float = 1.0,
             lse_square_scale: float = 0.0, logit_softcapping: float | None = None, ignore_index: int = -100,
             total_classes: int | None = None, class_start_idx: int = 0, inplace_backward: bool = False) -> Tensor:
    """The gradient of the logits, in their memory if `inplace_backward`."""
    options = ignore_index, label_smoothing, lse_square_scale
    if inplace_backward:
        _OPS.cross_entropy_backward_(logits, target, lse, dloss, *options)
        return logits
    return _OPS.cross_entropy_backward(logits, target, lse, dloss, *options)


__all__ = ["cross_entropy", "cross_entropy_refused", "gradient", "gradient_refused"]
