"""`mimw.ops.linear_cross_entropy`: the last linear layer of a language model and its loss, without the logits in memory.

Input: hidden states, the layer's weight, a class for each row. Output: the loss, fp32. For example:

    loss = linear_cross_entropy(hidden, weight, target)                             (tokens, 4096), (128256, 4096), (tokens)
    loss = linear_cross_entropy(hidden, weight, target, softcap=30.0, z_loss=1e-4)
    loss = linear_cross_entropy(hidden, shard, target, group=mesh["tp"], num_classes=128256)       a part of the classes at each GPU

Where no gradient is wanted the products end as a few numbers a row (`mimw.kernels.linear_cross_entropy`). Where one is, pieces of
rows have logits, which become their gradient, and gradients are made with the loss, as in Liger Kernel (arXiv 2410.10989).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import Proxy

from .class_weights import refuse_weight
from .cross_entropy import cross_entropy as of_logits
from .cross_entropy import reduced, refuse_options, refuse_outside
from .linear_pieces import CONTRACT, LINEAR_CROSS_ENTROPY, count_of, kept_as, logits_of
from .linear_shards import of_shards
from .linear_sums import SUMS


def linear_cross_entropy(input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None,
                         weight: Tensor | None = None, reduction: str = "mean", ignore_index: int = -100,
                         label_smoothing: float = 0.0, z_loss: float = 0.0, softcap: float | None = None,
                         accum_dtype: torch.dtype | None = None, group: Any = None, num_classes: int | None = None) -> Tensor:
    """`cross_entropy(input linear_weight^T + linear_bias, target)`, of logits that never stand in memory as a whole.

    args:      input          (..., hidden): bf16, fp16, fp32
               linear_weight  (classes, hidden) of input's type; linear_bias (classes)
               target         (...): int64 or int32, classes. Another target has a loss that is NaN, on the CPU an IndexError
               weight         (classes): rows count by the weight of their target, and "mean" is over these weights
               reduction      "mean" of the rows that are not ignored, "sum" or "none"
               ignore_index   a target whose row counts nothing
               label_smoothing   the weight that is spread over all classes, 0 to 1
               z_loss         adds z_loss times the square of the logarithm of the sum of exp(logits) to each loss
               softcap        logits become softcap tanh(logits / softcap) first, as Gemma 2 has them; None: they do not
               accum_dtype    in which the weight's gradient is summed over pieces: fp32, the default, or bf16 for a weight of bf16:
                              the least memory, by rounding the sum once a piece
               group          each rank has a part of the classes, as torch.chunk cuts them (`linear_weight` and `linear_bias` are
                              its rows), and all have the same input and target: a process group, its name, or a DeviceMesh of one
                              dimension. Loss and input's gradient are the whole ones, the same at all ranks
               num_classes    of all ranks; by default as many at each rank as here
    returns:   fp32, of no dimensions, or of target's shape; under autocast products are of the region's type
    computed:  without gradients: on sm_90 by `mimw.kernels.linear_cross_entropy`, of logits that are not rounded. With gradients,
               in pieces of rows (`mimw.ops.linear_pieces.rows_of`): logits of input's type by `mimw.ops.matmul`, loss and gradient
               of the logits in their place, gradients of input and weight by two more products, the latter added up in the
               epilogue of its product. With reduction="none" and gradients, or a weight= that requires one, from whole logits
    memory     besides input, weight and their gradients with bf16 sums a fifth of these, for a piece of logits; with fp32 sums of a
               16-bit weight as much as the weight twice: for logits, and for the sum, which becomes the gradient in its place.
               Where backward keeps the graph, gradients once more. Forward alone 4 bytes a row for each 128 or 256 classes
    gradients  of input, linear_weight and linear_bias, computed with the loss, those of bf16 rounded with it, so that backward only
               multiplies; no second one
    errors:    RuntimeError where shapes or devices do not fit; NotImplementedError for other types, and for options that do not go
               together, which are named; ValueError for other reductions, smoothings and soft caps
    """
    if isinstance(input, Proxy):
        return input.tracer.create_proxy("call_function", linear_cross_entropy, (), locals())
    kind = input.device.type
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        lower = torch.get_autocast_dtype(kind)
        with torch.autocast(kind, enabled=False):
            given = dict(linear_bias=None if linear_bias is None else linear_bias.to(lower), weight=weight, reduction=reduction,
                         ignore_index=ignore_index, label_smoothing=label_smoothing, z_loss=z_loss, softcap=softcap,
                         accum_dtype=accum_dtype, group=group, num_classes=num_classes)
            return linear_cross_entropy(input.to(lower), linear_weight.to(lower), target, **given)
    refuse_options("linear_cross_entropy", reduction, label_smoothing, softcap)
    _refuse(input, linear_weight, target, accum_dtype, num_classes if group is None else None)
    if weight is not None:
        refuse_weight(weight, linear_weight.t(), z_loss, False, softcap if label_smoothing else None)
    rows, places = input.reshape(-1, input.shape[-1]), target.reshape(-1)
    options = ignore_index, float(label_smoothing), float(z_loss), float(softcap or 0.0)
    sums = torch.float32 if accum_dtype is None else accum_dtype
    graded = torch.is_grad_enabled()
    wanted = [graded and one is not None and one.requires_grad for one in (rows, linear_weight, linear_bias)]
    if group is not None:
        if weight is not None or reduction == "none" and any(wanted):
            CONTRACT.refuse("with group= there is no weight=, and no reduction='none' with gradients: take the sum or the mean, or "
                            "gather the weight", unknown_type=True)
        loss = of_shards(rows, linear_weight, linear_bias, places, options, reduction, sums, wanted, group, num_classes)
    elif not any(wanted) and not (weight is not None and (label_smoothing or graded and weight.requires_grad)):
        loss = _alone(rows, linear_weight, linear_bias, places, weight, options, reduction)
    elif reduction == "none" or graded and weight is not None and weight.requires_grad:
        loss = of_logits(logits_of(rows, linear_weight, linear_bias), places, weight=weight, reduction=reduction,
                         ignore_index=ignore_index, label_smoothing=label_smoothing, z_loss=z_loss, softcap=softcap)
    else:
        of_classes = None if weight is None else weight.float()
        loss = LINEAR_CROSS_ENTROPY(rows, linear_weight, linear_bias, places, of_classes, *options, reduction == "mean", sums,
                                    kept_as(rows.dtype), *wanted)[0]
    return loss.view(target.shape) if reduction == "none" else loss


def _alone(rows: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, of_classes: Tensor | None,
           options: tuple[int, float, float, float], reduction: str) -> Tensor:
    """The loss without gradients."""
    ignored, smoothing, z, cap = options
    if not target.is_cuda and type(target) is Tensor and not torch.compiler.is_compiling():
        refuse_outside(target, weight.shape[0], ignored)
    lse, own, sums = SUMS(rows, weight, bias, target, cap, smoothing > 0)
    losses = losses_of(lse, own, sums, weight.shape[0], smoothing, z)
    if of_classes is not None:
        losses = losses * of_classes.float()[torch.where(target == ignored, 0, target).long().clamp(0, weight.shape[0] - 1)]
    losses = torch.where(target == ignored, 0.0, losses)
    return reduced(losses, target, ignored, reduction, count_of(target, of_classes, ignored) if reduction == "mean" else None)


def losses_of(lse: Tensor, own: Tensor, sums: Tensor, classes: int, smoothing: float, z: float) -> Tensor:
    """Losses of rows from the logarithms of their sums of exp(logits), the targets' logits, and sums of logits."""
    losses = lse - own
    if smoothing:
        losses = losses + smoothing * (own - sums / classes)
    return losses + z * lse * lse if z else losses


def _refuse(input: Tensor, linear_weight: Tensor, target: Tensor, accum_dtype: torch.dtype | None, classes: int | None) -> None:
    """An error for what the operator does not see: rows that do not fit, another type of sums, more classes than there are."""
    rows, count = input.shape[:-1], linear_weight.shape[0] if linear_weight.dim() else 0
    if target.shape != rows:
        CONTRACT.refuse(f"input is {tuple(input.shape)} and target {tuple(target.shape)}; it must be {tuple(rows)}")
    if accum_dtype not in (None, torch.float32) and not accum_dtype == linear_weight.dtype == torch.bfloat16:
        CONTRACT.refuse(f"accum_dtype is {accum_dtype}; it may be torch.float32, or torch.bfloat16 for a weight of that type, and "
                        f"linear_weight is {linear_weight.dtype}")
    if classes not in (None, count):
        CONTRACT.refuse(f"num_classes is {classes}, linear_weight has {count}, and there is no group= of ranks that have the "
                        "others")


__all__ = ["linear_cross_entropy", "losses_of"]
