"""`mimw::linear_cross_entropy`: the loss of a last linear layer and its gradients at once, by pieces of rows.

Input: rows x (rows, hidden), a weight (classes, hidden), targets. Output: the loss, fp32, and the gradients that are wanted. For
example:

    loss, dx, sums, db = LINEAR_CROSS_ENTROPY(x, weight, None, target, None, -100, 0.0, 0.0, 0.0, True, torch.float32,
                                              torch.bfloat16, True, True, False)
    rows_of(8192, 4096, 128256, torch.float32, torch.bfloat16)      4096 rows of a piece

Three products a piece: its logits, which become their gradient in their place, the rows' gradient, and the weight's, which is added
to what the pieces before it gave by the epilogue of its product (weight_gradient.py). Backward multiplies by the loss's gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import weighted_pieces
from .add_product import ADD_PRODUCT
from .addmm import ADDMM
from .class_weights import weighted
from .contract import Contract
from .cross_entropy import CROSS_ENTROPY, IN_PLACE, SCALE
from .matmul import MATMUL
from .operator import Operator
from .weight_gradient import WeightGradient

LEAST_ROWS, STEP = 1024, 128        # rows of a piece at least, where there are so many, and what they are a multiple of
SHARE = 0.2                         # of inputs and gradients: what a piece takes besides
ROOM = 19 << 20                     # of that: the sums that programs hand each other in the product for x, and all that is small
CONTRACT = Contract("linear_cross_entropy", "x: float (rows, hidden)", "weight: =x (classes, hidden)", "bias?: =x (classes)",
                    "target: int (rows)", "of_classes?: fp32 (classes)", "classes > 0 -- there must be one class at least",
                    "-> loss: fp32 ()", "-> dx: kept (rows, hidden) if of_x", "-> dw: kept (classes, hidden) if of_weight",
                    "-> db: fp32 (classes) if of_bias", flops="2 * rows * classes * hidden * (1 + of_x + of_weight)")
_keeps_graph = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", lambda: True)


def rows_of(rows: int, hidden: int, classes: int, sums: torch.dtype, of: torch.dtype) -> int:
    """The rows of a piece, all of which are about as long.

    Sums of 16 bits are for who has no memory to spare: a piece's logits then take a fifth of x, weight and their gradients. Wider
    ones take twice the gradient anyhow, and a piece as much as the gradient, `hidden` rows: each more piece costs time.
    """
    fifth = int(2 * SHARE * hidden * (rows + classes) - ROOM / of.itemsize) // max(classes, 1)
    most = hidden if sums != of else fifth // STEP * STEP
    pieces = -(-rows // max(LEAST_ROWS, most))
    return max(STEP, -(-rows // max(pieces, 1) // STEP) * STEP)


class Loss(NamedTuple):
    """Numbers of the loss: the target of rows without one, the share that is spread over all classes, the factor of the square of
    the logarithm, and the bound of the logits, 0 for none."""

    ignored: int
    smoothing: float
    z: float
    cap: float


class Gradients:
    """The gradients of x, weight and bias, those that are wanted, as pieces come. `summed` begins to sum a piece of x's in fp32
    over several GPUs, and gives what can be waited for, while the weight's product runs."""

    def __init__(self, x: Tensor, weight: Tensor, bias: Tensor | None, sums: torch.dtype, kept: torch.dtype,
                 wanted: tuple[bool, ...], summed: Callable[[Tensor], Any] | None = None):
        self.x, self.weight, self.kept, self.wanted, self.summed = x, weight, kept, wanted, summed
        of_x, of_weight, of_bias = wanted
        self.dx = x.new_zeros(x.shape if of_x else (0, ), dtype=kept)
        self.dw = WeightGradient(weight.shape[0], sums, kept) if of_weight else None
        self.db = x.new_zeros(bias.shape if of_bias else (0, ), dtype=torch.float32)

    def add(self, logits: Tensor, first: int, spread: weighted_pieces.Spread | None = None) -> None:
        """Add those of a piece, from the gradient of its logits, and what `spread` adds to that."""
        part, dx, under_way = self.x[first:first + logits.shape[0]], self.dx[first:first + logits.shape[0]], None
        of_x, of_weight, of_bias = self.wanted
        if of_x and self.summed is not None:
            found = MATMUL(logits, self.weight, torch.float32)
            under_way = self.summed(found)
        elif of_x and spread is not None:
            dx.copy_(MATMUL(logits, self.weight, torch.float32).add_(spread.times(self.weight)))
        elif of_x:      # in its place
            ADD_PRODUCT(dx, logits, self.weight)
        if of_weight:
            self.dw.add(logits, part)
            if spread is not None:
                for (begin, end), sums in zip(self.dw.ranges, self.dw.parts):
                    spread.add_transposed_times(part, sums, begin, end)
        if of_bias:
            self.db += logits.sum(0, dtype=torch.float32)
            if spread is not None:
                spread.add_sums_of_columns(self.db)
        if under_way is not None:
            under_way.wait()
            dx.copy_(found)

    def all(self, divisor: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """All three, those that nobody wants empty, divided."""
        if not self.wanted[1] or not len(self.x):
            dw = self.weight.new_zeros(self.weight.shape if self.wanted[1] else (0, ), dtype=self.kept)
        else:
            dw = self.dw.total()
        found = self.dx, dw, self.db
        return found if divisor is None else tuple(one.div_(divisor) for one in found)


def kept_as(dtype: torch.dtype) -> torch.dtype:
    """The type of x's gradient until the loss's is known: times the scale of a loss gradients are normal numbers of fp16, without
    it they are not, so those are kept as fp32."""
    return torch.float32 if dtype is torch.float16 else dtype


def logits_of(rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """(rows, classes), of the rows' type."""
    return MATMUL(rows, weight.T, None) if bias is None else ADDMM(bias, rows, weight.T, 1.0, 1.0, None)


def count_of(target: Tensor, of_classes: Tensor | None, ignored: int) -> Tensor:
    """The divisor of "mean", fp32 (1)."""
    if of_classes is not None:
        return weighted_pieces.total_of(target, of_classes, ignored)
    return (target != ignored).sum(0, keepdim=True, dtype=torch.float32)


def _run(x: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, of_classes: Tensor | None, ignored: int, smoothing: float,
         z: float, cap: float, mean: bool, sums: torch.dtype, kept: torch.dtype,
         *wanted: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    CONTRACT.check(x=x, weight=weight, bias=bias, target=target, of_classes=of_classes, sums=sums, kept=kept,
                   **dict(zip(("of_x", "of_weight", "of_bias"), wanted)))
    loss, count = Loss(ignored, smoothing, z, cap), count_of(target, of_classes, ignored) if mean else None
    gradients = Gradients(x, weight, bias, sums, kept, wanted)
    late = mean and x.dtype is torch.float16        # gradients that are divided by the count after their products
    early, parts = None if late else count, []
    step = rows_of(*x.shape, weight.shape[0], sums, weight.dtype)
    for first in range(0, x.shape[0], step):
        logits, places = logits_of(x[first:first + step], weight, bias), target[first:first + step]
        if not any(wanted):
            parts.append(_losses(logits, places, of_classes, loss))
            continue
        if of_classes is None:
            losses, spread = IN_PLACE(logits, places, early, *loss)[0], None
        else:
            factor = torch.ones(1, device=x.device) if early is None else 1 / early
            losses, spread = weighted_pieces.in_place(logits, places, of_classes, factor, ignored, smoothing, cap)
        parts.append(losses)
        gradients.add(logits, first, spread)
        del logits
    total = torch.cat(parts).sum() if parts else x.new_zeros((), dtype=torch.float32)
    return total if count is None else total / count[0], *gradients.all(count if late else None)


def _losses(logits: Tensor, target: Tensor, of_classes: Tensor | None, loss: Loss) -> Tensor:
    if of_classes is None:
        return CROSS_ENTROPY(logits, target, *loss)[0]
    losses = CROSS_ENTROPY(logits, target, loss.ignored, 0.0, 0.0, loss.cap)[0]
    return weighted(logits, target, losses, of_classes, loss.ignored, loss.smoothing, "none")


def save(ctx, inputs: tuple, output: tuple) -> None:
    """Keep gradients that were computed with the loss. Their own ones, which nobody has, would be zeros as large as they are."""
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*output[1:])
    ctx.types = [None if one is None else one.dtype for one in inputs[:3]]
    ctx.wanted = inputs[-3:]
    ctx.mark_non_differentiable(*output[1:])


def scaled(ctx, dloss: Tensor, *_) -> tuple:
    """Those gradients times the loss's: in their place where no other backward comes, which costs nothing where that is 1."""
    given = zip(ctx.saved_tensors, ctx.types, ctx.wanted)
    return tuple(_times(one, dloss, dtype) if want else None for one, dtype, want in given)


def _times(one: Tensor, dloss: Tensor, dtype: torch.dtype) -> Tensor:
    if type(one) is not Tensor or dloss.requires_grad or _keeps_graph():      # traced, differentiated, or wanted once more
        return (one * dloss).to(dtype)
    rows = one if one.dim() == 2 else one[None]
    SCALE(rows, dloss.expand(rows.shape[0]))
    return one.to(dtype)


LINEAR_CROSS_ENTROPY = Operator(
    "linear_cross_entropy(Tensor x, Tensor weight, Tensor? bias, Tensor target, Tensor? of_classes, int ignored, float smoothing, "
    "float z, float cap, bool mean, ScalarType sums, ScalarType kept, bool of_x, bool of_weight, bool of_bias) -> "
    "(Tensor, Tensor, Tensor, Tensor)",
    _run, CONTRACT, save, scaled)

__all__ = ["LINEAR_CROSS_ENTROPY", "Gradients", "Loss", "count_of", "kept_as", "logits_of", "rows_of", "save", "scaled"]
