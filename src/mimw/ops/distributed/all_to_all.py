"""`mimw.ops.distributed.all_to_all`: each rank has a part for each rank; equal parts, or parts whose sizes stay on the device.

Input: a tensor at each rank, its rows for rank 0 first. Output: the parts that are for this rank, that of rank 0 first. For
example:

    y = all_to_all(x)                                   equal parts, as torch.distributed.all_to_all_single
    y, counts = all_to_all(x, splits)                   splits (ranks) on the device: how many rows go to each rank

A part is rows with a place at the receiver, as the tokens of an expert: it is `moe_dispatch` with one expert a rank, of pieces of
rows. The gradient of equal parts goes the same way back.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..operator import Operator
from ..plans import Plans, look
from .contract import RankContract
from .launching import World, name_of, world_of
from .moe_dispatch import MOE_DISPATCH

PIECE = 16384       # bytes of a piece, at most: a slot of a ring in shared memory


def all_to_all(x: Tensor, splits: Tensor | None = None, *, max_rows: int | None = None, group: Any = None) -> Any:
    """Part r of this rank's rows goes to rank r. All ranks call it.

    args:      x         (rows, ...) of any type of whole bytes, any strides. Equal parts: rows are a multiple of the ranks, and a
                         part of 16 bytes; by splits: a row is a multiple of 16 bytes
               splits    (opt) (ranks) int32 or int64 on x's device: how many rows go to rank 0, the next to rank 1 and so on; rows
                         behind the last part go nowhere
               max_rows  with splits, the most rows that any rank has, the same at all ranks; by default x's
               group     a process group, its name, or None for the default one
    returns:   without splits a tensor of x's shape and type. With splits (y, counts): y (ranks * max_rows, ...), which has room for
               all rows of all ranks, those of rank 0 first, then those of the next, without gaps; what is behind is not written;
               counts (ranks) int32: how many came from each
    computed:  by `mimw.ops.distributed.moe_dispatch`, one launch, and of splits three small ones of torch's. Nothing waits for the
               device; captures, streams, and tensors of the CPU as there
    gradients  of equal parts: `all_to_all` of the gradients. By splits there are none
    errors:    RuntimeError where extents or sizes do not fit; NotImplementedError by splits for x that requires a gradient; those
               of `moe_dispatch`
    """
    if x.dim() < 1:
        raise RuntimeError("all_to_all: x has no dimensions; its first one is what is cut into parts")
    if splits is not None:
        return _by_splits(x, splits, x.shape[0] if max_rows is None else max_rows, world_of(group))
    if max_rows is not None:
        raise RuntimeError("all_to_all: max_rows is for parts by splits")
    return ALL_TO_ALL(x, name_of(group))


CONTRACT = RankContract(
    "all_to_all", "x: any (rows, *rest)", "rows % ranks == 0 and rows * prod(rest) * x.itemsize % (16 * ranks) == 0 -- rows must "
    "be a multiple of the ranks, and a part of 16 bytes", "-> y: =x (rows, *rest)")


def _checked(x: Tensor, group_name: str) -> bool:
    """True, or an error."""
    CONTRACT.check(x=x, group_name=group_name)
    return True


_SEEN = Plans(_checked)     # tensors that can be cut


def _run(x: Tensor, group_name: str) -> Tensor:
    ranks, key = world_of(group_name).size, (look(x), group_name)
    if key not in _SEEN:
        _SEEN.made(key, x, group_name)
    found = torch.empty_like(x, memory_format=torch.contiguous_format)
    size = x.numel() * x.itemsize // ranks
    if not size:
        return found
    pieces = size // min(PIECE, size & -size)       # of a part, each the largest power of two that divides it
    flat = x.contiguous().view(-1).view(torch.uint8).view(ranks * pieces, -1)
    y, *_ = MOE_DISPATCH(flat, _equal(ranks, pieces, x.device), None, ranks, len(flat), len(flat), 1, group_name)
    return y.view(-1).view(x.dtype).view(x.shape)


def _equal(ranks: int, pieces: int, device: torch.device) -> Tensor:
    """The rank of each piece, kept; of a graph that is being recorded its own, which no one else may read before a replay."""
    key = ranks, pieces, device
    found = _EQUAL.get(key)
    if found is None:
        found = torch.arange(ranks, dtype=torch.int32, device=device).repeat_interleave(pieces)[:, None]
        if device.type == "cpu" or not torch.cuda.is_current_stream_capturing():
            _EQUAL[key] = found
    return found


def _by_splits(x: Tensor, splits: Tensor, most: int, world: World) -> tuple[Tensor, Tensor]:
    if splits.device != x.device or tuple(splits.shape) != (world.size, ) or splits.dtype not in (torch.int32, torch.int64):
        raise RuntimeError(f"all_to_all: splits are {tuple(splits.shape)} of {splits.dtype} on {splits.device}; they must be "
                           f"({world.size},), int32 or int64, on {x.device} of x")
    if x.requires_grad and torch.is_grad_enabled():
        raise NotImplementedError("all_to_all by splits has no derivative: call it under torch.no_grad(), or on a tensor that "
                                  "requires none")
    row = x[0].numel() * x.itemsize if x.shape[0] else x.itemsize * x.shape[1:].numel()
    if row % 16 or not row:
        raise RuntimeError(f"all_to_all: a row of x has {row} bytes; parts by splits have rows of a multiple of 16 bytes")
    parts = next(count for count in range(-(-row // PIECE), row + 1) if row % (16 * count) == 0)       # pieces of a row
    flat = x.contiguous().view(-1).view(torch.uint8).view(x.shape[0] * parts, row // parts)
    ends = splits.cumsum(0) * parts
    to = torch.searchsorted(ends, torch.arange(len(flat), device=x.device), right=True)[:, None]        # `ranks` is nobody
    y, _, places, _ = MOE_DISPATCH(flat, to, None, world.size, most * parts, world.size * most * parts, 1, world.name)
    counts = (places >= 0).flatten(1).sum(1, dtype=torch.int32) // parts
    return y.view(-1).view(x.dtype).view(-1, *x.shape[1:]), counts


def _save(ctx, inputs: tuple[Tensor, str], output: Tensor) -> None:
    _, ctx.group_name = inputs


def _backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:
    return torch.ops.mimw.all_to_all(gradient, ctx.group_name), None


_EQUAL: dict[tuple[int, int, torch.device], Tensor] = {}
ALL_TO_ALL = Operator("all_to_all(Tensor x, str group_name) -> Tensor", _run, CONTRACT, _save, _backward)


__all__ = ["all_to_all"]
