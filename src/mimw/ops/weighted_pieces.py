"""Weights of classes for `mimw.ops.linear_cross_entropy`: a piece's losses, and its part of the gradients.

Input: the logits of a piece of rows, their targets, a weight for each class. Output: the sum of losses, and in the logits' place a
gradient to which a `Spread` is added. For example:

    loss, spread = in_place(logits, places, of_classes, 1 / of_classes[places].sum(), -100, 0.1)
    dx = logits @ weight + spread.times(weight)

With w the weights, s the smoothing, f the factor of all losses and p the softmax of a row with target t, its gradient is
f ((1 - s) w[t] + s / classes sum(w)) (p - onehot(t)) + f s / classes (sum(w) onehot(t) - w). The kernel writes the first part, with
its factor applied in fp32; the second has rank one but for a column in each row, so products with it are sums of vectors.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .class_weights import weighted
from .cross_entropy import BACKWARD_IN_PLACE, CROSS_ENTROPY


class Spread(NamedTuple):
    """The matrix factors[:, None] * (of_classes.sum() * onehot(places) - of_classes), (rows, classes), which nobody makes."""

    factors: Tensor         # fp32 (rows), 0 for rows that are ignored
    places: Tensor          # int64 (rows), 0 for these
    of_classes: Tensor      # fp32 (classes)

    def times(self, weight: Tensor) -> Tensor:
        """Its product with a matrix (classes, hidden): fp32 (rows, hidden)."""
        rows = self.of_classes.sum() * weight[self.places].float() - self.of_classes @ weight.float()
        return self.factors[:, None] * rows

    def add_transposed_times(self, x: Tensor, sums: Tensor, first: int, end: int) -> None:
        """Add the product of its transpose with x (rows, hidden), for classes from `first` up to `end`, to sums, fp32."""
        scaled = self.factors[:, None] * x.float()
        here = (self.places >= first) & (self.places < end)
        total = torch.where(here, self.of_classes.sum(), 0.0)
        sums.index_add_(0, torch.where(here, self.places - first, 0), total[:, None] * scaled)
        sums.addr_(self.of_classes[first:end], scaled.sum(0), alpha=-1)

    def add_sums_of_columns(self, sums: Tensor) -> None:
        """Add the sums of its columns to sums, fp32 (classes)."""
        sums.index_add_(0, self.places, self.of_classes.sum() * self.factors)
        sums.sub_(self.of_classes * self.factors.sum())


def total_of(target: Tensor, of_classes: Tensor, ignored: int) -> Tensor:
    """The sum of the weights of the targets that count, fp32 (1), by which "mean" divides."""
    seen = target != ignored
    return torch.where(seen, of_classes[torch.where(seen, target, 0).long()], 0.0).sum(0, keepdim=True)


def in_place(logits: Tensor, target: Tensor, of_classes: Tensor, factor: Tensor, ignored: int, smoothing: float,
             cap: float = 0.0) -> tuple[Tensor, Spread | None]:
    """The sum of a piece's losses, fp32 (1), without `factor`; the logits become the kernel's part of the gradient, times `factor`.

    args:      logits      (rows, classes), columns side by side: overwritten
               target      (rows)
               of_classes  fp32 (classes)
               factor      fp32 (1), of the gradient: 1 over what "mean" divides by, or 1
               cap         the bound of logits, 0 for none; only without smoothing
    returns:   the sum, and what smoothing adds to the gradient, None without smoothing
    """
    losses, lse = CROSS_ENTROPY(logits, target, ignored, 0.0, 0.0, cap)
    loss = weighted(logits, target, losses, of_classes, ignored, smoothing, "sum")
    seen = target != ignored
    places = torch.where(seen, target, 0).long()
    share = factor * smoothing / logits.shape[1]
    dlosses = factor * (1 - smoothing) * of_classes[places] + share * of_classes.sum()
    BACKWARD_IN_PLACE(logits, target, lse, dlosses, ignored, 0.0, 0.0, cap)
    spread = Spread(torch.where(seen, share, 0.0), places, of_classes) if smoothing else None
    return loss[None], spread


__all__ = ["Spread", "in_place", "total_of"]
