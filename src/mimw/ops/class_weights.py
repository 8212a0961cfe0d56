"""Cross entropy with a weight for each class, of losses without: torch's sums around the library's kernel.

Input: rows of logits, targets, the losses of the operator, weights. Output: the loss. For example:

    losses, _ = CROSS_ENTROPY(rows, target, -100, 0.0, 0.0)
    weighted(rows, target, losses, weight, -100, 0.1, "mean")       torch's cross_entropy(rows, target, weight, label_smoothing=0.1)

With w the weights, s the smoothing and L the logarithm of the sum of exp(x), a row's loss is (1 - s) w[t] (L - x[t]) +
s / classes sum of w[c] (L - x[c]). Its second part is L sum(w) - x w: a product of the rows with a vector, and L is the row's loss
without weights, plus x[t]; so gradients come from those of the operator. "mean" divides by the sum of the w[t].
"""

from __future__ import annotations

import torch
from torch import Tensor


def refuse_weight(weight: Tensor, rows: Tensor, z_loss: float, in_place: bool, softcap: float | None = None) -> None:
    """An error unless there is a number for each class, and no option that is for losses without weights."""
    if weight.shape != rows.shape[1:]:
        raise RuntimeError(f"cross_entropy: weight is {tuple(weight.shape)}; it must have a number for each of "
                           f"{rows.shape[1]} classes")
    if weight.device != rows.device:
        raise RuntimeError(f"cross_entropy: logits are on {rows.device} and weight on {weight.device}; all must be on one device")
    if z_loss or in_place or softcap is not None:
        raise NotImplementedError("cross_entropy: with weight there is no z_loss, no softcap and no inplace_backward; leave them "
                                  "out")


def weighted(rows: Tensor, target: Tensor, losses: Tensor, weight: Tensor, ignored: int, smoothing: float,
             reduction: str) -> Tensor:
    """The loss, in fp32: of the rows, or their sum or mean."""
    seen, weight = target != ignored, weight.float()
    places = torch.where(seen, target, 0).long()
    of_rows = torch.where(seen, weight[places], 0.0)
    found = (1 - smoothing) * of_rows * losses
    if smoothing:
        sums = losses + rows.gather(1, places[:, None])[:, 0].float()
        spread = sums * weight.sum() - (rows.float() * weight).sum(1)
        found = found + torch.where(seen, spread * (smoothing / rows.shape[1]), 0.0)
    if reduction == "none":
        return found
    return found.sum() if reduction == "sum" else found.sum() / of_rows.sum()


__all__ = ["refuse_weight", "weighted"]
