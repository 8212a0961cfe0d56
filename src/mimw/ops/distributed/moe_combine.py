"""`mimw.ops.distributed.moe_combine`: what the experts have made of dispatched tokens, weighted and added at the ranks of the
tokens.

Input: at each rank a row for each row that `moe_dispatch` gave, its handle, and the weights of this rank's tokens, unless those of
all went with the dispatch. Output: at each rank a row for each of its tokens. For example:

    rows, ends, _, handle = moe_dispatch(x, expert_ids, num_experts=256)
    out = moe_combine(experts(rows, ends), handle, weights)                             weights are sent to all ranks first
    out = moe_combine(experts(rows, ends), handle)                                      of handle.weights: they came already
    torch.ops.mimw.moe_combine(y, places, expert_ids, weights, 256, group_name)         the operator itself
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import Tensor

import mimw
from mimw.kernels import moe_combine as library

from ..launching import SIMULATED_PROGRAMS, is_hopper, programs
from ..operator import Operator
from ..plans import look
from .contract import RankContract
from .launching import RankLaunch, RankPlans, World, agreed, name_of, simulated, world_of
from .moe_dispatch import Handle, held, kept_rooms

CONTRACT = RankContract(
    "moe_combine", "y: float (rows, hidden)", "places: i32 (ranks, most, k)", "expert_ids: int (tokens, k)",
    "weights: float (tokens, k) or (ranks, most, k)", "tokens <= most -- there are no more tokens than moe_dispatch was given",
    "rows >= ranks * most * k -- y has a row for each that moe_dispatch gave", "num_experts % ranks == 0 -- experts must be a "
    "multiple of the ranks", "-> out: =y (tokens, hidden)")
TASKS = 6               # of a program that has a multiprocessor for itself beside products: more have too few registers


def moe_combine(y: Tensor, handle: Handle, weights: Tensor | None = None, group: Any = None, programs: int = 0) -> Tensor:
    """out[t] = the sum over j of weights[t, j] times the row of y that choice j of token t has become. All ranks call it.

    args:      y        (rows, hidden), at least as many rows as `moe_dispatch` gave: bf16, fp16 or fp32. What is no token's is not
                        read
               handle   of that call
               weights  (opt) (tokens, k) of this rank's tokens: bf16, fp16 or fp32, which are sent to all ranks before any row,
                        5 to 8 us. By default the handle's, which came with the tokens; the same choice at all ranks
               group    that of the dispatch
               programs multiprocessors that the launch has, the same at all ranks, 0 for all, as with `moe_dispatch`
    returns:   (tokens, hidden) of y's type. A rank adds up its experts' rows of a token in fp32, in the order of j; sums of other
               ranks are rounded to y's type on their way, and added in fp32, those of the own rank first, then those of the next
               one and so on. So the same numbers give the same bits every time. A token without a choice gets 0
    computed:  on sm_90 in one launch of `mimw.kernels.moe_combine`. Over the link goes one row for each token and rank that has
               experts of it. Captures, streams, and tensors of the CPU as with `moe_dispatch`
    gradients  none
    errors:    RuntimeError where extents, types or devices do not fit; NotImplementedError for other types and GPUs; ValueError
               without weights, here or in the handle
    """
    weights = handle.weights if weights is None else weights
    if weights is None:
        raise ValueError("moe_combine: no weights are given, and none came with the tokens; give them here, or to moe_dispatch")
    return MOE_COMBINE(y, handle.places, handle.expert_ids, weights, handle.num_experts, name_of(group), programs)


def _run(y: Tensor, places: Tensor, ids: Tensor, weights: Tensor, num_experts: int, group_name: str,
         count: int = 0, out: Tensor | None = None, tasks: int = TASKS) -> Tensor:
    """By so many multiprocessors, 0 for all, if fewer by so many tasks each; on GPUs the result may be given. Weights of two
    dimensions are this rank's, of three those of all ranks."""
    world = world_of(group_name)
    if not y.is_cuda:
        CONTRACT.check(y=y, places=places, expert_ids=ids, weights=weights, num_experts=num_experts, ranks=world.size)
        return simulated("moe_combine", world, (y, places, ids, weights), lambda *every: _at_all_ranks(*every, num_experts),
                         like=(num_experts, list(places.shape), list(y.shape), weights.ndim), ragged=True)
    plans, key = _PLANS.of(world), (look(y), look(places), look(ids), look(weights), num_experts, count, tasks)
    return (plans[key] or plans.made(key, world, y, places, ids, weights, *key[4:]))(y, places, ids, weights, out)


def _plan(world: World, y: Tensor, places: Tensor, ids: Tensor, weights: Tensor, num_experts: int, given: int,
          tasks: int) -> Callable:
    of = CONTRACT.check(y=y, places=places, expert_ids=ids, weights=weights, num_experts=num_experts, ranks=world.size)
    most, k, hidden, came = of.most, of.k, of.hidden, weights.ndim == 3
    how = (f" by {given} of {tasks}" if given else "") + (", weights of all" if came else "")
    agreed(world, "moe_combine", y, places, f"{num_experts} experts{how}")
    if not is_hopper(y):
        raise NotImplementedError("moe_combine: it is measured on Hopper, and this GPU is another one")
    shape = ids.shape[0], hidden
    if most * k * hidden == 0:
        return lambda y, places, ids, weights, out=None: y.new_zeros(shape) if out is None else out.zero_()
    count, dtype = given or programs(y), str(y.dtype).removeprefix("torch.")
    chosen = library.configuration(hidden, most, count, world.size, came)
    if given:
        chosen = replace(chosen, ctas=tasks, warps=max(4, chosen.warps), together=True, roles=2)
    room = library.room_for(most, k, hidden, count, world.size, dtype, chosen, came)
    kept = kept_rooms(world, f"moe_combine of {most} x {k} of {num_experts}, {hidden} columns{how}", room)
    sent = (one.contiguous() for one in (y, places, ids, weights))
    grid, args, meta = library.arguments(*sent, y.new_empty(shape), kept, world, num_experts, count, chosen=chosen)
    launch = RankLaunch(world, y, library.kernel, grid, args, meta, tuple(kept.values()))

    def plan(y: Tensor, places: Tensor, ids: Tensor, weights: Tensor, out: Tensor | None = None) -> Tensor:
        out = y.new_empty(shape) if out is None else out
        weights = weights.contiguous()
        launch(y.contiguous(), places.contiguous(), ids.contiguous(), weights, out, *[weights] * came)
        return out

    return plan


_PLANS = RankPlans(_plan)


def _at_all_ranks(ranks: mimw.World, ys: list, places: list, ids: list, weights: list, num_experts: int) -> list[Tensor]:
    (size, most, k), hidden = places[0].shape, ys[0].shape[1]
    outs = [y.new_zeros(len(one), hidden) for y, one in zip(ys, ids)]
    if most * k * hidden == 0:
        return outs
    came, dtype = weights[0].ndim == 3, str(ys[0].dtype).removeprefix("torch.")
    chosen = replace(library.configuration(hidden, most, SIMULATED_PROGRAMS, size, came), ctas=2)
    room = library.room_for(most, k, hidden, SIMULATED_PROGRAMS, size, dtype, chosen, came)
    kept = {part: ranks.symmetric(shape, dtype, part) for part, (shape, dtype) in room.items()}
    given = dict(y=held(ys), places=places, expert_ids=held(ids), weights=held(weights), out=held(outs))
    each = (ranks.each(tensors, name) for name, tensors in given.items())
    grid, args, meta = library.arguments(*each, kept, ranks, num_experts, SIMULATED_PROGRAMS,
                                                 tokens=ranks.each([len(one) for one in ids]), chosen=chosen)
    mimw.simulate(library.kernel, grid, *args, **meta)
    return outs


MOE_COMBINE = Operator("moe_combine(Tensor y, Tensor places, Tensor expert_ids, Tensor weights, int num_experts, str group_name, "
                       "int programs=0) -> Tensor", _run, CONTRACT)


__all__ = ["MOE_COMBINE", "moe_combine"]
