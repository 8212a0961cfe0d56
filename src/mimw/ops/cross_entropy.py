"""`mimw.ops.cross_entropy`: torch's on the library's kernels, with the logits' gradient in their place where that is asked for.

Input: logits and the classes wanted. Output: the loss, in fp32. For example:

    loss = cross_entropy(logits, target)                                    logits (tokens, vocabulary), bf16
    loss = cross_entropy(logits, target, inplace_backward=True)             the logits are their gradient from here on
    losses, lse = torch.ops.mimw.cross_entropy(logits, target, -100, 0.0, 0.0)      the operator itself, of rows
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.fx import Proxy

from mimw.kernels import cross_entropy as library
from mimw.kernels.norm.configs import plain_configuration
from mimw.runtime.in_place import refuse_leaves, refuse_overlaps

from .chips import asked
from .class_weights import refuse_weight, weighted
from .contract import Contract, Extents
from .launching import Launch, is_hopper, programs
from .operator import Operator
from .planned import Planned

TENSORS = "logits: float (rows, classes)", "target: int (rows)", "classes > 0 -- there must be one class at least"
RESULTS = "-> losses: fp32 (rows)", "-> lse: fp32 (rows)"
CONTRACT = Contract("cross_entropy", *TENSORS, *RESULTS)
WRITTEN = Contract("cross_entropy", *TENSORS, "count?: fp32 (1)", *RESULTS)
IN_GRADIENT = Contract("cross_entropy", *TENSORS, "lse: fp32 (rows)", "dlosses: any (rows)")
GRADIENT = Contract("cross_entropy", *IN_GRADIENT.text, "-> dx: =logits (rows, classes)")
SCALED = Contract("scale_rows_", "x: float (rows, classes) rows", "factors: any (rows)")
REDUCTIONS = ("mean", "sum", "none")


def cross_entropy(logits: Tensor, target: Tensor, *, ignore_index: int = -100, reduction: str = "mean",
                  label_smoothing: float = 0.0, z_loss: float = 0.0, inplace_backward: bool = False,
                  weight: Tensor | None = None, softcap: float | None = None) -> Tensor:
    """log(sum of exp(logits)) - logits[target] of each row, as torch.nn.functional.cross_entropy of classes.

    args:      logits           (rows, classes), (classes) or (rows, classes, ...): bf16, fp16 or fp32, any strides
               target           (rows), () or (rows, ...): int64 or int32. Elsewhere than in a row: of the CPU an error; on a GPU
                                a loss that is NaN, as the host does not wait, where torch's device assertion ends the process
               ignore_index     a target whose row has no loss and no gradient
               reduction        "mean" of the rows that are not ignored, "sum" or "none"
               label_smoothing  the weight that is spread over all classes, 0 to 1
               z_loss           adds z_loss times the square of the logarithm to each loss
               softcap          logits become softcap tanh(logits / softcap) first, as Gemma 2 has them; None: they do not
               inplace_backward  the gradient, where one is wanted, goes into the memory of the logits: of bf16 and fp32 in the
                                forward launch, which reads and writes each logit once, so that backward only multiplies where
                                the loss's gradient is not 1; of fp16, whose small gradients need the scale of the loss before
                                they are rounded, in the backward launch. backward runs once; autograd refuses others that want
                                the logits' values. Under torch.compile the gradient has memory of its own
               weight           (classes): rows count by the weight of their class, and the mean is over these weights; by torch's
                                sums around the kernel, which with label_smoothing read the logits once more
    returns:   fp32, of no dimensions, or of target's shape; sums and exponents are of fp32, under autocast, too
    computed:  by `mimw.kernels.cross_entropy`: on sm_90 many long rows by bulk copies into a ring, few long ones by clusters; one
               read of the logits forward, one read and one write backward. With classes elsewhere than last of a copy
    gradients  of the logits and of weight, the first
    errors:    IndexError for a target on the CPU that is no class, with its row; RuntimeError where shapes or devices do not fit,
               and in place for a leaf that requires grad, a view of one, and logits whose elements share memory;
               NotImplementedError for other types, among them classes given by their probabilities, and for weight with z_loss,
               softcap or inplace_backward; ValueError for other reductions and smoothings, and a softcap that is not above 0
    """
    if isinstance(logits, Proxy):
        return logits.tracer.create_proxy("call_function", cross_entropy, (), locals())
    refuse_options("cross_entropy", reduction, label_smoothing, softcap)
    rows, classes = _rows(logits, target)
    if weight is not None:
        refuse_weight(weight, rows, z_loss, inplace_backward, softcap)
        losses = CROSS_ENTROPY(rows, classes, ignore_index, 0.0, 0.0)[0]
        return weighted(rows, classes, losses, weight, ignore_index, label_smoothing, reduction).view(_shape(target, reduction))
    options = ignore_index, label_smoothing, z_loss, softcap or 0.0
    graded = rows.requires_grad and torch.is_grad_enabled()
    if inplace_backward and graded:
        refuse_leaves("cross_entropy", logits=logits)
    if inplace_backward and graded and not torch.compiler.is_compiling():
        refuse_overlaps("cross_entropy", {"logits": rows}, {"target": classes})
        at_once = rows.dtype is not torch.float16
        return (_AtOnce if at_once else _Later).apply(rows, classes, reduction, *options).view(_shape(target, reduction))
    return reduced(CROSS_ENTROPY(rows, classes, *options)[0], classes, ignore_index, reduction).view(_shape(target, reduction))


def refuse_options(call: str, reduction: str, smoothing: float, softcap: float | None) -> None:
    """ValueError for an option that is none of those there are, with its name."""
    bounded = softcap is None or 0 < softcap < float("inf")
    for right, text in ((reduction in REDUCTIONS, f"reduction is {reduction!r}; it may be {', '.join(REDUCTIONS)}"),
                        (0 <= smoothing <= 1, f"label_smoothing is {smoothing}; it must be between 0 and 1"),
                        (bounded, f"softcap is {softcap}; it must be a number above 0, or None for logits as they are")):
        if not right:
            raise ValueError(f"{call}: {text}")


def _shape(target: Tensor, reduction: str) -> tuple[int, ...]:
    return target.shape if reduction == "none" else ()


def _rows(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """(rows, classes) of logits, (rows) of target."""
    if target.dtype.is_floating_point:
        raise NotImplementedError(f"cross_entropy: target is {target.dtype}, probabilities of classes; it may be int64 or int32, a "
                                  "class for each row")
    at = min(logits.dim() - 1, 1)
    wanted = logits.shape[:at] + logits.shape[at + 1:]
    if logits.dim() == 0 or target.dim() != len(wanted):
        raise RuntimeError(f"cross_entropy: logits have {logits.dim()} dimensions and target {target.dim()}; target has one less")
    if target.shape != wanted:
        raise RuntimeError(f"cross_entropy: logits are {tuple(logits.shape)} and target {tuple(target.shape)}; it must be "
                           f"{tuple(wanted)}")
    return logits.movedim(at, -1).reshape(target.numel(), logits.shape[at]), target.reshape(-1)


def _count(target: Tensor, ignored: int) -> Tensor:
    """The number of rows that are not ignored, as a tensor (1)."""
    return (target != ignored).sum(0, keepdim=True, dtype=torch.float32)


def reduced(losses: Tensor, target: Tensor, ignored: int, reduction: str, count: Tensor | None = None) -> Tensor:
    if reduction == "none":
        return losses
    total = losses.sum()
    return total if reduction == "sum" else total / (_count(target, ignored) if count is None else count)[0]


class _AtOnce(torch.autograd.Function):
    """The gradient is written over the logits by the forward launch."""

    @staticmethod
    def forward(ctx, rows: Tensor, target: Tensor, reduction: str, ignored: int, *options: float) -> Tensor:
        count = _count(target, ignored) if reduction == "mean" else None
        losses, _ = IN_PLACE(rows, target, count, ignored, *options)
        ctx.save_for_backward(rows)
        return reduced(losses, target, ignored, reduction, count)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, dloss: Tensor) -> tuple:
        dx, = ctx.saved_tensors
        SCALE(dx, dloss.expand(dx.shape[0]))
        return dx, *[None] * 6


class _Later(torch.autograd.Function):
    """The gradient is written over the logits by the backward launch."""

    @staticmethod
    def forward(ctx, rows: Tensor, target: Tensor, reduction: str, *options) -> Tensor:
        losses, lse = CROSS_ENTROPY(rows, target, *options)
        count = _count(target, options[0]) if reduction == "mean" else None
        ctx.save_for_backward(rows, target, lse, count)
        ctx.options = options
        return reduced(losses, target, options[0], reduction, count)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, dloss: Tensor) -> tuple:
        rows, target, lse, count = ctx.saved_tensors
        BACKWARD_IN_PLACE(rows, target, lse, (dloss if count is None else dloss / count[0]).expand(len(lse)), *ctx.options)
        return rows, *[None] * 6


def _columns(x: Tensor) -> Tensor:
    """Columns side by side."""
    return x if x.shape[1] == 1 or x.stride(1) == 1 else x.contiguous()


def _plan_in_place(of: Extents, logits: Tensor, target: Tensor, count: Tensor | None, *options) -> Callable:
    return _plan(of, logits, target, *options, in_place=True, count=count)


def _plan(of: Extents, logits: Tensor, target: Tensor, ignored: int, smoothing: float, z: float, cap: float,
          in_place: bool = False, count: Tensor | None = None) -> Callable:
    losses, lse = of.empty(logits)
    if logits.shape[0] == 0:
        return lambda logits, *_: of.empty(logits)
    x, places = _columns(logits), target.contiguous()
    moved = x.data_ptr() != logits.data_ptr()
    chosen = None if is_hopper(logits) else plain_configuration(*x.shape)
    launch = Launch(logits, *library.arguments(x, places, losses, lse, x if in_place else None, count, 1.0, smoothing, z, ignored,
                                               chosen, cap=cap or None))

    known_here = not logits.is_cuda and asked() is None

    def plan(logits: Tensor, target: Tensor, count: Tensor | None = None) -> tuple[Tensor, Tensor]:
        if known_here:
            refuse_outside(target, logits.shape[1], ignored)
        losses, lse = of.empty(logits)
        x = _columns(logits) if moved else logits
        launch(x, target.contiguous(), losses, lse, *((x, ) if in_place else ()), *(() if count is None else (count, )))
        if in_place and moved:
            logits.copy_(x)
        return losses, lse

    return plan


def refuse_outside(target: Tensor, classes: int, ignored: int) -> None:
    """IndexError, torch's, for a target that is no class: of the CPU, where nobody waits for it."""
    wrong = ((target < 0) | (target >= classes)) & (target != ignored)
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise IndexError(f"cross_entropy: target of row {row} is {int(target[row])}; it may be 0 to {classes - 1}, or {ignored}, "
                         "which is ignored")


def _plan_gradient_in_place(*given) -> Callable:
    """With `spread_over` the columns are a part of so many classes, and the target may be elsewhere."""
    gradient = _plan_gradient(*given, in_place=True)

    def plan(logits: Tensor, *given) -> None:
        dx = gradient(logits, *given)
        if dx.data_ptr() != logits.data_ptr():
            logits.copy_(dx)

    return plan


def _plan_gradient(of: Extents, logits: Tensor, target: Tensor, lse: Tensor, dlosses: Tensor, ignored: int, smoothing: float,
                   z: float, cap: float, spread_over: int = 0, in_place: bool = False) -> Callable:
    if logits.shape[0] == 0:
        return lambda logits, *_: logits.new_empty(logits.shape)
    x = _columns(logits)
    launch = Launch(logits, *library.gradient_arguments(x, target.contiguous(), lse.contiguous(), dlosses,
                                                        x if in_place else torch.empty_like(x), smoothing, z, ignored, cap or None,
                                                        spread_over))

    def plan(logits: Tensor, target: Tensor, lse: Tensor, dlosses: Tensor) -> Tensor:
        x = _columns(logits)
        dx = x if in_place else logits.new_empty(logits.shape)
        launch(x, target.contiguous(), lse.contiguous(), dlosses, dx)
        return dx

    return plan


def _plan_scale(of: Extents, x: Tensor, factors: Tensor) -> Callable:
    return Launch(x, *library.scale_arguments(x, factors, programs(x))) if x.numel() else lambda x, factors: None


def _save(ctx, inputs, output) -> None:
    logits, target, *ctx.options = inputs
    ctx.set_materialize_grads(False)        # logarithms would get zeros
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(logits, target, output[1])


_OPTIONS = "int ignored, float smoothing, float z, float cap=0.0"
BACKWARD = Operator(f"cross_entropy_backward(Tensor logits, Tensor target, Tensor lse, Tensor dlosses, {_OPTIONS}) -> Tensor",
                    Planned(_plan_gradient), GRADIENT)
BACKWARD_IN_PLACE = Operator("cross_entropy_backward_(Tensor(a!) logits, Tensor target, Tensor lse, Tensor dlosses, "
                             f"{_OPTIONS}, int spread_over=0) -> ()", Planned(_plan_gradient_in_place), IN_GRADIENT)
CROSS_ENTROPY = Operator(f"cross_entropy(Tensor logits, Tensor target, {_OPTIONS}) -> (Tensor, Tensor)", Planned(_plan), CONTRACT,
                         _save, lambda ctx, dlosses, _: BACKWARD(*ctx.saved_tensors, dlosses, *ctx.options))
IN_PLACE = Operator(f"cross_entropy_(Tensor(a!) logits, Tensor target, Tensor? count, {_OPTIONS}) -> (Tensor, Tensor)",
                    Planned(_plan_in_place), WRITTEN)
SCALE = Operator("scale_rows_(Tensor(a!) x, Tensor factors) -> ()", Planned(_plan_scale), SCALED)
