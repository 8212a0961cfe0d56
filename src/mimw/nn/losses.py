"""`mimw.nn.CrossEntropyLoss` and `mimw.nn.LinearCrossEntropyLoss`: torch's losses of classes, by `mimw.ops.cross_entropy`.

Input: the arguments of torch's modules. Output: modules without parameters, or with those of a last linear layer. For example:

    loss = CrossEntropyLoss(label_smoothing=0.1)(logits, target)
    head = LinearCrossEntropyLoss(4096, 128256)
    loss = head(hidden, target)                     logits never stand in memory as a whole
"""

from __future__ import annotations

import torch
from torch import Tensor

from mimw import ops

from . import fallback
from .functional import by_torch, linear_cross_entropy
from .traced import leaf


class CrossEntropyLoss(torch.nn.CrossEntropyLoss):
    """torch.nn.CrossEntropyLoss: its arguments.

    shapes:    logits (rows, classes), (classes) or (rows, classes, ...), target (rows), () or (rows, ...) -> () or target's
    returns:   the type of the logits, as torch; under autocast fp32
    computed:  by `mimw.ops.cross_entropy`, in fp32, also with weight=; by torch with probabilities for targets, and other types
    gradients  of the logits, the first
    """

    def reason(self, input: Tensor, target: Tensor) -> str | None:
        """The reason why torch computes a call, or None."""
        if target.dtype.is_floating_point:
            return "targets are probabilities"
        return fallback.reason(input, self.weight)

    @leaf
    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of logits."""
        if self.reason(input, target) is not None:
            return super().forward(input, target)
        loss = ops.cross_entropy(input, target, ignore_index=self.ignore_index, reduction=self.reduction,
                                 label_smoothing=self.label_smoothing, weight=self.weight)
        return loss if torch.is_autocast_enabled(input.device.type) else loss.to(input.dtype)


class LinearCrossEntropyLoss(torch.nn.Module):
    """The last linear layer and its loss at once, `linear.weight` (classes, in_features): torch.nn.LinearCrossEntropyLoss of torch
    2.13 without `out_features` and `options`, of any torch.

    args:      in_features, num_classes, bias     of the linear layer
               weight, reduction, ignore_index, label_smoothing     as torch.nn.CrossEntropyLoss has them
    shapes:    input (..., in_features), target (...) -> (), or with reduction="none" target's
    computed:  by `mimw.nn.functional.linear_cross_entropy`; also under torch.compile
    """

    weight: Tensor | None

    def __init__(self, in_features: int, num_classes: int, *, bias: bool = False, device=None, dtype=None, reduction: str = "mean",
                 weight: Tensor | None = None, ignore_index: int | None = None, label_smoothing: float = 0.0):
        super().__init__()
        self.linear = torch.nn.Linear(in_features, num_classes, bias, device, dtype)
        self.register_buffer("weight", weight)
        self.reduction, self.ignore_index, self.label_smoothing = reduction, ignore_index, label_smoothing

    def reason(self, input: Tensor, target: Tensor) -> str | None:
        """The reason why torch computes a call, from whole logits, or None."""
        return by_torch(input, self.linear.weight, target)

    @leaf
    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of the last hidden states."""
        return linear_cross_entropy(input, self.linear.weight, target, linear_bias=self.linear.bias, weight=self.weight,
                                    reduction=self.reduction, ignore_index=self.ignore_index, label_smoothing=self.label_smoothing)

    def extra_repr(self) -> str:
        return f"reduction={self.reduction}, ignore_index={self.ignore_index}, label_smoothing={self.label_smoothing}"


__all__ = ["CrossEntropyLoss", "LinearCrossEntropyLoss"]
