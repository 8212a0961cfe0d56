"""`mimw.ops.distributed.moe_dispatch_rows`: tokens to the GPUs of their experts, who find them where they come, by their numbers.

Input: at each rank its tokens' rows and experts. Output: at each rank the rows that it has experts of, each once, the numbers of
each expert's rows, and the way back. For example:

    rows, scale, sources, ends, handle = moe_dispatch_rows(x, expert_ids, num_experts=256)
    rows[sources[:ends[0]]]                                 what the first expert of this rank gets
    out = moe_combine(y, handle, weights)                   y has a row for each number in `sources`
    torch.ops.mimw.moe_dispatch_rows(x, expert_ids, None, 256, 4096, 128, group_name)       the operator, blocks of 128
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

import mimw
from mimw.kernels import moe_dispatch as library

from ..launching import SIMULATED_PROGRAMS, is_hopper, programs
from ..operator import Operator
from ..plans import look
from .contract import RankContract
from .launching import RankLaunch, RankPlans, World, agreed, name_of, simulated, tensors_of, world_of
from .moe_dispatch import TENSORS, Handle, held, kept_rooms, looks_of, words

LISTED = "cdiv(ranks * max_tokens * k + (block - 1) * (num_experts // ranks), block) * block"
CONTRACT = RankContract(
    "moe_dispatch_rows", *TENSORS, "-> rows: =x (ranks * max_tokens, columns)", f"-> sources: i32 ({LISTED})",
    "-> ends: i32 (num_experts // ranks)", "-> places: i32 (ranks, max_tokens, k)",
    "-> scales: =scale|=x (ranks * max_tokens, scales) if scale")


class Listed(NamedTuple):
    """What a rank gets; `moe_dispatch_rows` says more."""

    rows: Tensor
    scale: Tensor | None
    sources: Tensor
    ends: Tensor
    handle: Handle


def moe_dispatch_rows(x: Tensor, expert_ids: Tensor, num_experts: int, *, max_tokens: int | None = None,
                      scale: Tensor | None = None, block: int = 1, group: Any = None) -> Listed:
    """As `moe_dispatch`, but a row lies once at each rank that has experts of it, and the experts read it by its number. All ranks
    call it.

    args:      x, expert_ids, num_experts, max_tokens, scale, block, group      as `moe_dispatch`, with numbers for rows
    returns:   rows     (ranks * max_tokens, hidden) of x's type: row r max_tokens + t is token t of rank r, if one of its experts
                        is here. On a GPU this is the memory that peers write to: valid until this rank calls the operator again
                        with as many tokens, choices and experts and rows as long
               scale    as rows, or None
               sources  int32, as `mimw.kernels.moe_dispatch.listed` says how many: the numbers of rows by expert, then by rank,
                        then by token; in what fills up a list, ranks * max_tokens. Behind the last list nothing is written
               ends     (num_experts / ranks) int32: where the list of each expert ends, filled up
               handle   for `moe_combine`, whose y has as many rows as `sources` numbers, in that order
    computed:  on sm_90 in one launch of `mimw.kernels.moe_dispatch.rows_kernel`, with symmetric memory of ranks * max_tokens
               rows; else as `moe_dispatch`
    gradients  none
    errors:    those of `moe_dispatch`
    """
    most = x.shape[0] if max_tokens is None else max_tokens
    rows, sources, ends, places, scales = MOE_DISPATCH_ROWS(x, expert_ids, scale, num_experts, most, block, name_of(group))
    return Listed(rows, None if scale is None else scales, sources, ends, Handle(places, expert_ids, num_experts))


def _lists(ids: Tensor, num_experts: int, most: int, block: int, ranks: int) -> tuple[Tensor, ...]:
    k = ids.shape[1]
    shapes = (library.listed(most, k, num_experts, ranks, block), ), (num_experts // ranks, ), (ranks, most, k)
    return tuple(ids.new_empty(shape, dtype=torch.int32) for shape in shapes)


def _run(x: Tensor, ids: Tensor, scale: Tensor | None, num_experts: int, most: int, block: int,
         group_name: str) -> tuple[Tensor, ...]:
    world = world_of(group_name)
    if not x.is_cuda:
        CONTRACT.check(x=x, expert_ids=ids, scale=scale, num_experts=num_experts, max_tokens=most, block=block, ranks=world.size)
        columns = [None if one is None else one.shape[1] for one in (x, ids, scale)]
        return simulated("moe_dispatch_rows", world, (x, ids, scale),
                         lambda *every: _at_all_ranks(*every, num_experts, most, block),
                         like=(num_experts, most, block, columns), ragged=True)
    plans, key = _PLANS.of(world), (look(x), look(ids), None if scale is None else look(scale), num_experts, most, block)
    return (plans[key] or plans.made(key, world, x, ids, scale, num_experts, most, block))(x, ids, scale)


def _plan(world: World, x: Tensor, ids: Tensor, scale: Tensor | None, num_experts: int, most: int, block: int) -> Callable:
    k, size = ids.shape[1], x.shape[1]
    CONTRACT.check(x=x, expert_ids=ids, scale=scale, num_experts=num_experts, max_tokens=most, block=block, ranks=world.size)
    agreed(world, "moe_dispatch_rows", looks_of(x, ids, scale), f"{num_experts} experts, {most} tokens, block {block}")
    if not is_hopper(x):
        raise NotImplementedError("moe_dispatch_rows: it copies rows by Hopper's bulk copies, and this GPU is another one")
    if most * k == 0:
        return lambda *given: _nothing(*given, num_experts, most, block, world.size)
    count, row, beside = programs(x), size * x.itemsize, 0 if scale is None else scale.shape[1] * scale.itemsize
    kept = kept_rooms(world, f"moe_dispatch_rows of {most} x {k} of {num_experts}, {row} + {beside} bytes",
                      library.rows_room_for(most, k, num_experts, row, count, world.size, beside))
    grid, args, meta = library.rows_arguments(words(x), ids.contiguous(), *_lists(ids, num_experts, most, block, world.size), kept,
                                              world, count, block, None if scale is None else words(scale))
    launch = RankLaunch(world, x, library.rows_kernel, grid, args, meta, tuple(kept.values()))
    rows, scales = _received(kept, x, scale)

    def plan(x: Tensor, ids: Tensor, scale: Tensor | None) -> tuple[Tensor, ...]:
        lists = _lists(ids, num_experts, most, block, world.size)
        x = words(x)
        launch(x, x if scale is None else words(scale), ids.contiguous(), *lists)
        return rows.view(rows.shape), *lists, scales.view(scales.shape)

    return plan


_PLANS = RankPlans(_plan)


def _received(kept: dict[str, Tensor], x: Tensor, scale: Tensor | None) -> tuple[Tensor, Tensor]:
    """The rows that have come, and their scales, as what they are."""
    rows = kept["received"].view(x.dtype).view(-1, x.shape[1])
    return rows, x.new_empty(0) if scale is None else kept["received_scales"].view(scale.dtype).view(-1, scale.shape[1])


def _nothing(x: Tensor, ids: Tensor, scale: Tensor | None, num_experts: int, most: int, block: int,
             ranks: int) -> tuple[Tensor, ...]:
    scales = x.new_empty(0) if scale is None else scale.new_zeros(ranks * most, scale.shape[1])
    return x.new_zeros(ranks * most, x.shape[1]), *(one.zero_() for one in _lists(ids, num_experts, most, block, ranks)), scales


def _at_all_ranks(ranks: mimw.World, xs: list, ids: list, scales: list, num_experts: int, most: int,
                  block: int) -> list[tuple[Tensor, ...]]:
    size, k = len(ranks), ids[0].shape[1]
    nothing = [_nothing(*given, num_experts, most, block, size) for given in zip(xs, ids, scales)]
    if most * k == 0:
        return nothing
    row, beside = xs[0].shape[1] * xs[0].itemsize, 0 if scales[0] is None else scales[0].shape[1] * scales[0].itemsize
    needed = library.rows_room_for(most, k, num_experts, row, SIMULATED_PROGRAMS, size, beside)
    kept = {part: ranks.symmetric(shape, dtype, part) for part, (shape, dtype) in needed.items()}
    lists = [ranks.each(list(every), name) for name, every in zip(("sources", "ends", "places"), list(zip(*nothing))[1:4])]
    of_scales = ranks.each(held(list(map(words, scales))), "scale") if beside else None
    grid, args, meta = library.rows_arguments(ranks.each(held(list(map(words, xs))), "x"), ranks.each(held(ids), "expert_ids"),
                                              *lists, kept, ranks, SIMULATED_PROGRAMS, block, of_scales,
                                              tokens=ranks.each([len(x) for x in xs]))
    mimw.simulate(library.rows_kernel, grid, *args, **meta)
    every = {part: tensors_of(kept[part]) for part in ("received", "received_scales") if part in kept}
    come = [_received({part: of[rank] for part, of in every.items()}, xs[rank], scales[rank]) for rank in range(size)]
    return [(rows, *found[1:4], of_rows) for (rows, of_rows), found in zip(come, nothing)]


MOE_DISPATCH_ROWS = Operator("moe_dispatch_rows(Tensor x, Tensor expert_ids, Tensor? scale, int num_experts, int max_tokens, "
                             "int block, str group_name) -> (Tensor, Tensor, Tensor, Tensor, Tensor)", _run, CONTRACT)


__all__ = ["MOE_DISPATCH_ROWS", "Listed", "moe_dispatch_rows"]
