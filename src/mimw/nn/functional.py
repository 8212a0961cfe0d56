"""`mimw.nn.functional`: functions of torch.nn.functional that are more than one operator, by those of `mimw.ops`.

Input: tensors. Output: a tensor with a derivative. For example:

    loss = linear_cross_entropy(hidden, weight, target)         logits never stand in memory as a whole
    y = fp8_linear(x, weight, bias)                             a product of e4m3
    y = mamba_chunk_scan_combined(x, dt, A, B, C, 256)          Mamba-2

`linear_cross_entropy` computes rows in pieces and makes the gradients in the forward pass, as in Liger Kernel (arXiv 2410.10989).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, linear

from mimw import ops
from mimw.ops.class_weights import refuse_weight, weighted
from mimw.ops.cross_entropy import CROSS_ENTROPY, IN_PLACE

from . import class_weights, fallback
from .fp8 import fp8_linear
from .mamba import mamba_chunk_scan_combined
from .traced import leaf_function

NUMBERS, LEAST_ROWS, STEP = 1 << 28, 1024, 128      # logits of a piece at most; its rows at least, which are a multiple of STEP


@leaf_function
def linear_cross_entropy(input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None,
                         weight: Tensor | None = None, reduction: str = "mean", ignore_index: int | None = None,
                         label_smoothing: float = 0.0, dtype: torch.dtype | None = None) -> Tensor:
    """cross_entropy(input linear_weight^T + linear_bias, target): torch.nn.functional.linear_cross_entropy of torch 2.13.

    args:      input          (rows, hidden), (hidden), or (..., hidden) with a target (...): bf16, fp16, fp32
               linear_weight  (classes, hidden) of input's type; linear_bias (classes)
               target         int64 or int32, classes; by torch also probabilities
               weight         a weight for each class; "mean" divides by the sum of the weights of the targets that count
               reduction      "mean" of the rows that are not ignored, "sum" or "none"
               ignore_index   a target whose row counts nothing; None is -100
               label_smoothing   the weight that is spread over all classes, 0 to 1
               dtype          of the loss, which torch has not: by default input's type, under autocast fp32
    returns:   the loss, summed in fp32
    computed:  in pieces of rows whose logits are 2^28 numbers at most, or 1024 rows: the product by `mimw.ops.matmul`, loss and
               gradient of the logits in their place by `mimw.kernels.cross_entropy`, gradients of input and weight by two more
               products, that of the weight summed in fp32; with weight= by one launch more (`mimw.nn.class_weights`). With
               reduction="none", or a weight= that requires a gradient, from whole logits, by `mimw.ops.matmul` and
               `mimw.ops.cross_entropy`; with probabilities, several dimensions of classes, or types that no kernel takes, by torch
               from whole logits
    memory     one piece of logits, the gradients of input and weight, and while a gradient of weight is summed its fp32 form; with
               weight= and smoothing two pieces of fp32 more
    gradients  of input, linear_weight and linear_bias, computed with the loss, so that backward only multiplies; no second one
    errors:    torch's; RuntimeError where shapes do not fit; ValueError for other reductions and smoothings
    """
    ignored = -100 if ignore_index is None else ignore_index
    options = {"reduction": reduction, "ignore_index": ignored, "label_smoothing": label_smoothing}
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"linear_cross_entropy: reduction is {reduction!r}; it may be mean, sum or none")
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"linear_cross_entropy: label_smoothing is {label_smoothing}; it must be between 0 and 1")
    if by_torch(input, linear_weight, target) is not None:
        many, classes = linear_weight.flatten(0, -2), linear_weight.shape[:-1]
        logits = linear(input, many, None if linear_bias is None else linear_bias.flatten())
        logits = logits.unflatten(-1, classes) if len(classes) > 1 else logits
        found = cross_entropy(logits, target, weight, **options)
        return found if dtype is None else found.to(dtype)
    if target.shape != input.shape[:-1]:
        raise RuntimeError(f"linear_cross_entropy: input is {tuple(input.shape)} and target {tuple(target.shape)}; it must be "
                           f"{tuple(input.shape[:-1])}")
    if weight is not None:
        refuse_weight(weight, linear_weight.t(), 0.0, False)
    kind, result = input.device.type, dtype or input.dtype
    if torch.is_autocast_enabled(kind):
        lower, result = torch.get_autocast_dtype(kind), dtype or torch.float32
        input, linear_weight = input.to(lower), linear_weight.to(lower)
        linear_bias = None if linear_bias is None else linear_bias.to(lower)
    rows, places = input.reshape(-1, input.shape[-1]), target.reshape(-1)
    graded = torch.is_grad_enabled()
    if reduction == "none" or graded and weight is not None and weight.requires_grad:
        loss = ops.cross_entropy(_logits(rows, linear_weight, linear_bias), places, weight=weight, **options)
        return (loss.view(target.shape) if reduction == "none" else loss).to(result)
    wanted = [graded and one is not None and one.requires_grad for one in (rows, linear_weight, linear_bias)]
    with torch.autocast(kind, enabled=False):
        loss = _linear_cross_entropy(rows, linear_weight, linear_bias, places, None if weight is None else weight.float(), ignored,
                                     float(label_smoothing), reduction == "mean", *wanted)[0]
    return loss.to(result)


def by_torch(input: Tensor, linear_weight: Tensor, target: Tensor) -> str | None:
    """The reason why torch computes a call, or None."""
    if target.dtype.is_floating_point:
        return "targets are probabilities"
    if linear_weight.dim() != 2:
        return "classes have several dimensions"
    if input.dtype != linear_weight.dtype and not torch.is_autocast_enabled(input.device.type):
        return f"input is {input.dtype} and linear_weight {linear_weight.dtype}"        # torch's error
    return fallback.reason(input, linear_weight)


def _logits(rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return ops.matmul(rows, weight.t()) if bias is None else ops.addmm(bias, rows, weight.t())


def rows_of(classes: int) -> int:
    """The rows of a piece."""
    return max(LEAST_ROWS, NUMBERS // max(classes, 1) // STEP * STEP)


@torch.library.custom_op("mimw_nn::linear_cross_entropy", mutates_args=())
def _linear_cross_entropy(x: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, of_classes: Tensor | None, ignored: int,
                          smoothing: float, mean: bool, of_x: bool, of_weight: bool,
                          of_bias: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The loss, fp32, and its gradients, those that are wanted; others are empty. Gradients of fp16 are kept as fp32: times the
    scale of a loss they would be normal numbers of fp16, without it they are not."""
    count = _count(target, of_classes, ignored) if mean else None
    kept = torch.float32 if x.dtype is torch.float16 else x.dtype
    dx, dw, db = _empty_gradients(x, weight, bias, of_x, of_weight, of_bias)
    sums = torch.zeros(dw.shape, dtype=torch.float32, device=x.device)
    sums_of_bias = torch.zeros(db.shape, dtype=torch.float32, device=x.device)
    late = kept is not x.dtype and mean         # gradients that are divided by the count after their products
    early = None if late else count
    parts = [torch.zeros(1, dtype=torch.float32, device=x.device)]
    step = rows_of(weight.shape[0])
    for first in range(0, x.shape[0], step):
        part, places = x[first:first + step], target[first:first + step]
        logits, spread = _logits(part, weight, bias), None
        if not (of_x or of_weight or of_bias):
            losses = CROSS_ENTROPY(logits, places, ignored, smoothing if of_classes is None else 0.0, 0.0)[0]
            parts.append(losses if of_classes is None else
                         weighted(logits, places, losses, of_classes, ignored, smoothing, "none"))
            continue
        if of_classes is None:
            loss = IN_PLACE(logits, places, early, ignored, smoothing, 0.0)[0]
        else:
            factor = torch.ones_like(parts[0]) if early is None else 1 / early
            loss, spread = class_weights.in_place(logits, places, of_classes, factor, ignored, smoothing)
        parts.append(loss)
        if of_x:
            found = ops.matmul(logits, weight, kept if spread is None else torch.float32)
            dx[first:first + step] = found if spread is None else found + spread.times(weight)
        if of_weight:
            sums += ops.matmul(logits.t(), part, torch.float32)
            if spread is not None:
                spread.add_transposed_times(part, sums)
        if of_bias:
            sums_of_bias += logits.sum(0, dtype=torch.float32)
            if spread is not None:
                spread.add_sums_of_columns(sums_of_bias)
    total = torch.cat(parts).sum()
    if late:
        dx, sums, sums_of_bias = (one / count for one in (dx, sums, sums_of_bias))
    return total if count is None else total / count[0], dx, sums.to(dw.dtype), sums_of_bias.to(db.dtype)


def _count(target: Tensor, of_classes: Tensor | None, ignored: int) -> Tensor:
    """The divisor of "mean", fp32 (1)."""
    if of_classes is not None:
        return class_weights.total_of(target, of_classes, ignored)
    return (target != ignored).sum(0, keepdim=True, dtype=torch.float32)


def _empty_gradients(x: Tensor, weight: Tensor, bias: Tensor | None, *wanted: bool) -> tuple[Tensor, Tensor, Tensor]:
    kept = torch.float32 if x.dtype is torch.float16 else x.dtype
    shapes = x.shape, weight.shape, () if bias is None else bias.shape
    dx, dw, db = (x.new_empty(shape if want else (0, ), dtype=kept) for shape, want in zip(shapes, wanted))
    return dx, dw, db


@_linear_cross_entropy.register_fake
def _(x, weight, bias, target, of_classes, ignored, smoothing, mean, *wanted):
    return x.new_empty((), dtype=torch.float32), *_empty_gradients(x, weight, bias, *wanted)


def _save(ctx, inputs: tuple, output: tuple) -> None:
    ctx.save_for_backward(*output[1:])
    ctx.types = [None if one is None else one.dtype for one in inputs[:3]]
    ctx.wanted = inputs[-3:]
    ctx.mark_non_differentiable(*output[1:])


def _gradients(ctx, dloss: Tensor, *_) -> tuple:
    given = zip(ctx.saved_tensors, ctx.types, ctx.wanted)
    return *((one * dloss).to(dtype) if want else None for one, dtype, want in given), *[None] * 8


_linear_cross_entropy.register_autograd(_gradients, setup_context=_save)


__all__ = ["by_torch", "fp8_linear", "linear_cross_entropy", "mamba_chunk_scan_combined"]
