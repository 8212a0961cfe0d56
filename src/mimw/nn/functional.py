"""`mimw.nn.functional`: functions of torch.nn.functional that are more than one operator, by those of `mimw.ops`.

Input: tensors. Output: a tensor with a derivative. For example:

    loss = linear_cross_entropy(hidden, weight, target)         logits never stand in memory as a whole
    y = fp8_linear(x, weight, bias)                             a product of e4m3
    y = mamba_chunk_scan_combined(x, dt, A, B, C, 256)          Mamba-2

Each asks first whether a kernel takes its tensors, and is torch's own where none does.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, linear

from mimw import ops

from . import fallback
from .fp8 import fp8_linear
from .mamba import mamba_chunk_scan_combined
from .traced import leaf_function


@leaf_function
def linear_cross_entropy(input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None,
                         weight: Tensor | None = None, reduction: str = "mean", ignore_index: int | None = None,
                         label_smoothing: float = 0.0, dtype: torch.dtype | None = None, z_loss: float = 0.0,
                         softcap: float | None = None, accum_dtype: torch.dtype | None = None, group: Any = None,
                         num_classes: int | None = None) -> Tensor:
    """cross_entropy(input linear_weight^T + linear_bias, target): torch.nn.functional.linear_cross_entropy of torch 2.13, and more.

    args:      input          (rows, hidden), (hidden), or (..., hidden) with a target (...): bf16, fp16, fp32
               linear_weight  (classes, hidden) of input's type; linear_bias (classes)
               target         int64 or int32, classes; by torch also probabilities
               weight, reduction, label_smoothing   as torch has them
               ignore_index   a target whose row counts nothing; None is -100
               dtype          of the loss, which torch has not: by default input's type, under autocast fp32
               z_loss, softcap, accum_dtype, group, num_classes   as `mimw.ops.linear_cross_entropy` has them; torch has none
    returns:   the loss, summed in fp32
    computed:  by `mimw.ops.linear_cross_entropy`; with probabilities, several dimensions of classes, or types that no kernel takes,
               by torch from whole logits
    gradients  of input, linear_weight and linear_bias, computed with the loss, so that backward only multiplies; no second one
    errors:    torch's; RuntimeError where shapes do not fit; ValueError for other reductions and smoothings; NotImplementedError
               for what torch has not where torch computes, with the reason
    """
    ignored = -100 if ignore_index is None else ignore_index
    options = {"reduction": reduction, "ignore_index": ignored, "label_smoothing": label_smoothing}
    more = {"z_loss": z_loss, "softcap": softcap, "accum_dtype": accum_dtype, "group": group, "num_classes": num_classes}
    why = by_torch(input, linear_weight, target)
    if why is None:
        loss = ops.linear_cross_entropy(input, linear_weight, target, linear_bias=linear_bias, weight=weight, **options, **more)
        under = torch.is_autocast_enabled(input.device.type)
        return loss.to(dtype or (torch.float32 if under else input.dtype))
    if asked := [name for name, value in more.items() if value]:
        raise NotImplementedError(f"linear_cross_entropy: {why}, so torch computes, which has no {', '.join(asked)}")
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"linear_cross_entropy: reduction is {reduction!r}; it may be mean, sum or none")
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"linear_cross_entropy: label_smoothing is {label_smoothing}; it must be between 0 and 1")
    many, classes = linear_weight.flatten(0, -2), linear_weight.shape[:-1]
    logits = linear(input, many, None if linear_bias is None else linear_bias.flatten())
    logits = logits.unflatten(-1, classes) if len(classes) > 1 else logits
    found = cross_entropy(logits, target, weight, **options)
    return found if dtype is None else found.to(dtype)


def by_torch(input: Tensor, linear_weight: Tensor, target: Tensor) -> str | None:
    """The reason why torch computes a call, or None."""
    if target.dtype.is_floating_point:
        return "targets are probabilities"
    if linear_weight.dim() != 2:
        return "classes have several dimensions"
    if input.dtype != linear_weight.dtype and not torch.is_autocast_enabled(input.device.type):
        return f"input is {input.dtype} and linear_weight {linear_weight.dtype}"        # torch's error
    return fallback.reason(input, linear_weight)


__all__ = ["by_torch", "fp8_linear", "linear_cross_entropy", "mamba_chunk_scan_combined"]
