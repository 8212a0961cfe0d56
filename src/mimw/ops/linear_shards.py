"""The loss of a last linear layer whose classes are spread over ranks: `mimw.ops.linear_cross_entropy(..., group=)`.

Input: the same rows and targets at each rank, and a part of the weight. Output: the whole loss, and gradients. For example:

    of_shards(x, shard, None, target, (-100, 0.0, 0.0, 0.0), "mean", torch.float32, [True, True, False], group, 128256)
    part_of(128256, 8, 3)           (48096, 16032): the first class of rank 3, and how many it has

Each rank makes logits of its classes. An all-reduce finds the largest logarithm of each row, a second one adds the sums of powers,
the targets' logits and the sums of logits, a third, of fp32, the gradient of x, while the weight's product runs. A target that no
rank has makes the loss NaN.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx.node import has_side_effect

from .cross_entropy import BACKWARD_IN_PLACE, CROSS_ENTROPY, reduced
from .linear_pieces import CONTRACT, Gradients, count_of, kept_as, logits_of, rows_of, save, scaled
from .linear_sums import SUMS

NOBODY = -1         # the target of a row that counts nothing, here


def part_of(classes: int, ranks: int, rank: int) -> tuple[int, int]:
    """The first class of a rank, and how many it has, as torch.chunk cuts them."""
    each = -(-classes // ranks)
    first = min(classes, rank * each)
    return first, min(each, classes - first)


def of_shards(x: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, options: tuple[int, float, float, float],
              reduction: str, sums: torch.dtype, wanted: list[bool], group: Any, classes: int | None) -> Tensor:
    """The loss, as `mimw.ops.linear_cross_entropy` has it; all ranks call it.

    errors:    RuntimeError where this rank has another number of classes than torch.chunk gives it; NoProcessGroup
    """
    name, ranks, rank = _place_in(group)
    classes = ranks * weight.shape[0] if classes is None else classes
    first, count = part_of(classes, ranks, rank)
    if count != weight.shape[0]:
        raise RuntimeError(f"linear_cross_entropy: linear_weight has {weight.shape[0]} classes at rank {rank} of {ranks}; of "
                           f"{classes} it must have {count}, from {first} on, as torch.chunk(weight, {ranks}) cuts them")
    if any(wanted):
        return _of_shards(x, weight, bias, target, first, classes, *options, reduction == "mean", sums, name, *wanted)[0]
    losses = _alone(x, weight, bias, target, first, classes, options, name)
    return reduced(losses, target, options[0], reduction)


def _distributed(group: Any) -> tuple[Any, Any]:
    """(torch.distributed, the group), loaded here: nobody else of `mimw.ops` needs it."""
    import torch.distributed as dist

    from mimw.distributed.torch_port import group_of
    return dist, group_of(group)


def _place_in(group: Any) -> tuple[str, int, int]:
    """(name, ranks, rank) of a process group, a name, or a DeviceMesh of one dimension."""
    dist, found = _distributed(group.get_group() if hasattr(group, "get_group") else group)
    return found.group_name, dist.get_world_size(found), dist.get_rank(found)


_place_in._dynamo_marked_constant = True        # torch.compiler.assume_constant_result, which would load the compiler for it


def _alone(x: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, first: int, classes: int,
           options: tuple[int, float, float, float], name: str) -> Tensor:
    """The losses of the rows, without gradients."""
    ignored, smoothing, z, cap = options
    here = _here(target, first, weight.shape[0], ignored)
    lse, own, total = SUMS(x, weight, bias, torch.where(here, target - first, NOBODY), cap, smoothing > 0)
    lse, losses = _together(lse, torch.where(here, own, 0.0), total if smoothing else None, here, classes, smoothing, z, name)
    return torch.where(target == ignored, 0.0, losses)


def _here(target: Tensor, first: int, count: int, ignored: int) -> Tensor:
    return (target != ignored) & (target >= first) & (target < first + count)


def _together(lse: Tensor, own: Tensor, total: Tensor | None, here: Tensor, classes: int, smoothing: float, z: float,
              name: str) -> tuple[Tensor, Tensor]:
    """(logarithms of all classes' sums, losses), of those of each rank."""
    (dist, group), largest = _distributed(name), lse.clone()
    dist.all_reduce(largest, dist.ReduceOp.MAX, group=group)
    base = torch.where(largest.isfinite(), largest, 0.0)
    parts = torch.stack([torch.exp(lse - base), own, here.float(), *([] if total is None else [total])])
    dist.all_reduce(parts, group=group)
    lse, own = base + parts[0].log(), torch.where(parts[2] == 1, parts[1], float("nan"))
    losses = lse - own
    if total is not None:
        losses = losses + smoothing * (own - parts[3] / classes)
    return lse, losses + z * lse * lse if z else losses


@torch.library.custom_op("mimw::linear_cross_entropy_of_shards", mutates_args=())
def _of_shards(x: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, first: int, classes: int, ignored: int,
               smoothing: float, z: float, cap: float, mean: bool, sums: torch.dtype, name: str, of_x: bool, of_weight: bool,
               of_bias: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """By pieces of rows, as `mimw.ops.linear_pieces`; no `Operator`, since no rank can call it alone."""
    CONTRACT.check(x=x, weight=weight, bias=bias, target=target, **_told(x, sums, of_x, of_weight, of_bias))
    wanted = of_x, of_weight, of_bias
    count, late = count_of(target, None, ignored) if mean else None, mean and x.dtype is torch.float16
    (dist, group), mine = _distributed(name), weight.shape[0]
    gradients = Gradients(x, weight, bias, sums, kept_as(x.dtype), wanted,
                          lambda part: dist.all_reduce(part, group=group, async_op=True))
    factor = torch.ones(1, device=x.device) if count is None or late else 1 / count
    parts, step = [], rows_of(*x.shape, mine, sums, weight.dtype)
    for begin in range(0, x.shape[0], step):
        logits, places = logits_of(x[begin:begin + step], weight, bias), target[begin:begin + step]
        seen, here = places != ignored, _here(places, first, mine, ignored)
        local = torch.where(here, places - first, NOBODY)
        losses, lse = CROSS_ENTROPY(logits, local, NOBODY, 0.0, 0.0, cap)
        total = None
        if smoothing:       # with all of the weight spread, a loss is lse less the mean of logits
            total = (lse - CROSS_ENTROPY(logits, torch.zeros_like(local), NOBODY, 1.0, 0.0, cap)[0]) * mine
        lse, losses = _together(lse, torch.where(here, lse - losses, 0.0), total, here, classes, smoothing, z, name)
        parts.append(torch.where(seen, losses, 0.0))
        elsewhere = torch.where(seen, torch.where(here, local, mine), NOBODY)
        BACKWARD_IN_PLACE(logits, elsewhere, lse, factor.expand(len(lse)), NOBODY, smoothing, z, cap, classes)
        gradients.add(logits, begin)
        del logits
    total = torch.cat(parts).sum() if parts else x.new_zeros((), dtype=torch.float32)
    return total if count is None else total / count[0], *gradients.all(count if late else None)


def _told(x: Tensor, sums: torch.dtype, *wanted: bool) -> dict[str, Any]:
    return dict(sums=sums, kept=kept_as(x.dtype), **dict(zip(("of_x", "of_weight", "of_bias"), wanted)))


@_of_shards.register_fake
def _(x, weight, bias, target, first, classes, ignored, smoothing, z, cap, mean, sums, name, *wanted):
    return CONTRACT.fake(x=x, weight=weight, bias=bias, target=target, **_told(x, sums, *wanted))


_of_shards.register_autograd(lambda ctx, *gradients: (*scaled(ctx, *gradients), *[None] * 13), setup_context=save)
has_side_effect(torch.ops.mimw.linear_cross_entropy_of_shards.default)     # all ranks call it, also one that needs no result

__all__ = ["of_shards", "part_of"]
