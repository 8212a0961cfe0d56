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
from itertools import count
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
from .moe_dispatch import OF_ALL, TENSORS, WEIGHTS, Handle, checked, empty_weights, held, kept_rooms, looks_of, with_weights, words

LISTED = "cdiv(ranks * max_tokens * k + (block - 1) * (num_experts // ranks), block) * block"
RESULTS = ("-> rows: =x (ranks * max_tokens, columns)", f"-> sources: i32 ({LISTED})", "-> ends: i32 (num_experts // ranks)",
           "-> places: i32 (ranks, max_tokens, k)", "-> scales: =scale|=x (ranks * max_tokens, scales) if scale")
CONTRACT = RankContract("moe_dispatch_rows", *TENSORS, *RESULTS)
WEIGHTED = RankContract("moe_dispatch_rows", *TENSORS, WEIGHTS, *RESULTS, OF_ALL)


class Listed(NamedTuple):
    """What a rank gets; `moe_dispatch_rows` says more."""

    rows: Tensor
    scale: Tensor | None
    sources: Tensor
    ends: Tensor
    handle: Handle


def moe_dispatch_rows(x: Tensor, expert_ids: Tensor, num_experts: int, *, max_tokens: int | None = None,
                      scale: Tensor | None = None, block: int = 1, group: Any = None, weights: Tensor | None = None) -> Listed:
    """As `moe_dispatch`, but a row lies once at each rank that has experts of it, and the experts read it by its number. All ranks
    call it.

    args:      x, expert_ids, num_experts, max_tokens, scale, block, group, weights     as `moe_dispatch`, with numbers for rows
    returns:   rows     (ranks * max_tokens, hidden) of x's type: row r max_tokens + t is token t of rank r, if one of its experts
                        is here. On a GPU this is the memory that peers write to: valid until this rank calls the operator again
                        with as many tokens, choices and experts and rows as long
               scale    as rows, or None
               sources  int32, as `mimw.kernels.moe_dispatch.listed` says how many: the numbers of rows by expert, then by rank,
                        then by token; in what fills up a list, ranks * max_tokens. Behind the last list nothing is written
               ends     (num_experts / ranks) int32: where the list of each expert ends, filled up
               handle   for `moe_combine`, whose y has as many rows as `sources` numbers, in that order
    computed:  on sm_90 in one launch of `mimw.kernels.moe_dispatch.rows_kernel`, with symmetric memory of ranks * max_tokens
               rows, twice if they are few: results of calls that follow each other then lie in either half in turn; else as
               `moe_dispatch`
    gradients  none
    errors:    those of `moe_dispatch`
    """
    most = x.shape[0] if max_tokens is None else max_tokens
    rest = scale, num_experts, most, block, name_of(group)
    rows, sources, ends, places, scales, *of_all = (MOE_DISPATCH_ROWS(x, expert_ids, *rest) if weights is None else
                                                    MOE_DISPATCH_ROWS_WEIGHTED(x, expert_ids, weights, *rest))
    return Listed(rows, None if scale is None else scales, sources, ends, Handle(places, expert_ids, num_experts, *of_all))


def _lists(ids: Tensor, num_experts: int, most: int, block: int, ranks: int) -> tuple[Tensor, ...]:
    k = ids.shape[1]
    shapes = (library.listed(most, k, num_experts, ranks, block), ), (num_experts // ranks, ), (ranks, most, k)
    return tuple(ids.new_empty(shape, dtype=torch.int32) for shape in shapes)


def _run(x: Tensor, ids: Tensor, scale: Tensor | None, num_experts: int, most: int, block: int, group_name: str,
         weights: Tensor | None = None) -> tuple[Tensor, ...]:
    world = world_of(group_name)
    if not x.is_cuda:
        checked(CONTRACT, WEIGHTED, weights, x=x, expert_ids=ids, scale=scale, num_experts=num_experts, max_tokens=most,
                   block=block, ranks=world.size)
        columns = [None if one is None else one.shape[1] for one in (x, ids, scale)]
        return simulated("moe_dispatch_rows", world, (x, ids, scale, weights),
                         lambda *every: _at_all_ranks(*every, num_experts, most, block),
                         like=(num_experts, most, block, columns), ragged=True)
    looks = look(x), look(ids), None if scale is None else look(scale), None if weights is None else look(weights)
    plans, key = _PLANS.of(world), (*looks, num_experts, most, block)
    return (plans[key] or plans.made(key, world, x, ids, scale, num_experts, most, block, weights))(x, ids, scale, weights)


def _run_weighted(x: Tensor, ids: Tensor, weights: Tensor, scale: Tensor | None, *rest: Any) -> tuple[Tensor, ...]:
    return _run(x, ids, scale, *rest, weights)


def _plan(world: World, x: Tensor, ids: Tensor, scale: Tensor | None, num_experts: int, most: int, block: int,
          weights: Tensor | None = None) -> Callable:
    k, size = ids.shape[1], x.shape[1]
    checked(CONTRACT, WEIGHTED, weights, x=x, expert_ids=ids, scale=scale, num_experts=num_experts, max_tokens=most, block=block,
               ranks=world.size)
    agreed(world, "moe_dispatch_rows", looks_of(x, ids, scale, weights), f"{num_experts} experts, {most} tokens, block {block}")
    if not is_hopper(x):
        raise NotImplementedError("moe_dispatch_rows: it copies rows by Hopper's bulk copies, and this GPU is another one")
    if most * k == 0:
        return lambda *given: _nothing(*given, num_experts, most, block, world.size)
    multiprocessors, row, beside = programs(x), size * x.itemsize, 0 if scale is None else scale.shape[1] * scale.itemsize
    chosen = library.rows_chosen_for(most, row + beside, multiprocessors, world.size, k)
    name = f"moe_dispatch_rows of {most} x {k} of {num_experts}, {row} + {beside} bytes"
    kept = kept_rooms(world, name, library.rows_room_for(most, k, num_experts, row, multiprocessors, world.size, beside, chosen,
                                                         weights is not None))

    def launch_for(generation: int) -> tuple[RankLaunch, tuple[Tensor, Tensor]]:
        """A launch whose result lies there, and that result."""
        lists, of_all = _lists(ids, num_experts, most, block, world.size), empty_weights(weights, world.size, most)
        grid, args, meta = library.rows_arguments(words(x), ids.contiguous(), *lists, kept, world, multiprocessors, block,
                                                  None if scale is None else words(scale), chosen=chosen, generation=generation,
                                                  **with_weights(weights, of_all))
        launch = RankLaunch(world, x, library.rows_kernel, grid, args, meta, tuple(kept.values()))
        if generation == 0 and chosen.generations == 2:     # 1 is called first: a graph may then begin with this one
            launch.load(*(one for one in args if isinstance(one, Tensor) and not any(one is other for other in kept.values())))
        return launch, _received(kept, x, scale, slice(generation * world.size, (generation + 1) * world.size))

    launches = [launch_for(generation) for generation in range(chosen.generations)]
    turn = world.kept.setdefault((_PLANS, name), count(1))      # of all plans that share the memory

    def plan(x: Tensor, ids: Tensor, scale: Tensor | None, weights: Tensor | None = None) -> tuple[Tensor, ...]:
        launch, (rows, scales) = launches[next(turn) % len(launches)]
        lists, of_all = _lists(ids, num_experts, most, block, world.size), empty_weights(weights, world.size, most)
        x, ids = words(x), ids.contiguous()
        own, every = (ids, lists[-1]) if weights is None else (weights.contiguous(), *of_all)
        launch(x, x if scale is None else words(scale), ids, own, *lists, every)
        return rows.view(rows.shape), *lists, scales.view(scales.shape), *of_all

    return plan


_PLANS = RankPlans(_plan)


def _received(kept: dict[str, Tensor], x: Tensor, scale: Tensor | None, ranks: slice) -> tuple[Tensor, Tensor]:
    """The rows that have come, of these places, and their scales, as what they are."""
    rows = kept["received"][ranks].view(x.dtype).flatten(0, 1)
    return rows, x.new_empty(0) if scale is None else kept["received_scales"][ranks].view(scale.dtype).flatten(0, 1)


def _nothing(x: Tensor, ids: Tensor, scale: Tensor | None, weights: Tensor | None, num_experts: int, most: int, block: int,
             ranks: int) -> tuple[Tensor, ...]:
    scales = x.new_empty(0) if scale is None else scale.new_zeros(ranks * most, scale.shape[1])
    return (x.new_zeros(ranks * most, x.shape[1]), *(one.zero_() for one in _lists(ids, num_experts, most, block, ranks)), scales,
            *empty_weights(weights, ranks, most))


def _at_all_ranks(ranks: mimw.World, xs: list, ids: list, scales: list, weights: list, num_experts: int, most: int,
                  block: int) -> list[tuple[Tensor, ...]]:
    size, k = len(ranks), ids[0].shape[1]
    nothing = [_nothing(*given, num_experts, most, block, size) for given in zip(xs, ids, scales, weights)]
    if most * k == 0:
        return nothing
    row, beside = xs[0].shape[1] * xs[0].itemsize, 0 if scales[0] is None else scales[0].shape[1] * scales[0].itemsize
    weighted = weights[0] is not None
    needed = library.rows_room_for(most, k, num_experts, row, SIMULATED_PROGRAMS, size, beside, weighted=weighted)
    kept = {part: ranks.symmetric(shape, dtype, part) for part, (shape, dtype) in needed.items()}
    names = "sources", "ends", "places", "scales", *(("all_weights", ) if weighted else ())
    lists = {name: ranks.each(list(every), name) for name, every in zip(names, list(zip(*nothing))[1:]) if name != "scales"}
    given = dict(weights=ranks.each(held(weights), "weights"), all_weights=lists.pop("all_weights")) if weighted else {}
    of_scales = ranks.each(held(list(map(words, scales))), "scale") if beside else None
    grid, args, meta = library.rows_arguments(ranks.each(held(list(map(words, xs))), "x"), ranks.each(held(ids), "expert_ids"),
                                              *lists.values(), kept, ranks, SIMULATED_PROGRAMS, block, of_scales,
                                              tokens=ranks.each([len(x) for x in xs]), **given)
    mimw.simulate(library.rows_kernel, grid, *args, **meta)
    every = {part: tensors_of(kept[part]) for part in ("received", "received_scales") if part in kept}
    come = [_received({part: of[rank] for part, of in every.items()}, xs[rank], scales[rank], slice(size)) for rank in range(size)]
    return [(rows, *found[1:4], of_rows, *found[5:]) for (rows, of_rows), found in zip(come, nothing)]


MOE_DISPATCH_ROWS = Operator("moe_dispatch_rows(Tensor x, Tensor expert_ids, Tensor? scale, int num_experts, int max_tokens, "
                             "int block, str group_name) -> (Tensor, Tensor, Tensor, Tensor, Tensor)", _run, CONTRACT)
MOE_DISPATCH_ROWS_WEIGHTED = Operator("moe_dispatch_rows_weighted(Tensor x, Tensor expert_ids, Tensor weights, Tensor? scale, "
                                      "int num_experts, int max_tokens, int block, str group_name) -> "
                                      "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)", _run_weighted, WEIGHTED)


__all__ = ["MOE_DISPATCH_ROWS", "MOE_DISPATCH_ROWS_WEIGHTED", "Listed", "moe_dispatch_rows"]
