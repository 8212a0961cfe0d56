"""`mimw::ring_attention_backward`: the gradients of `mimw.ops.distributed.ring_attention`.

Input: the gradients of o and, where it was used, of lse; q, k, v; o and lse of the call, all of this rank's rows. Output: the
gradients of this rank's q, k and v:

    torch.ops.mimw.ring_attention_backward(do, q, k, v, o, lse, None, True, True, None, None, group_name)       (dq, dk, dv)

All ranks call it; `backward()` through the operator comes here.
"""

from __future__ import annotations

import torch
from torch import Tensor

import mimw
from mimw.kernels import attention_backward, ring_attention
from mimw.kernels import ring_attention_backward as hopper
from mimw.kernels.ring_attention_backward import Workspace

from ..contract import Contract
from ..launching import Launch, programs
from ..operator import Operator
from ..plans import look
from .launching import RankLaunch, RankPlans, World, agreed, simulated, workspace, world_of
from .ring_attention_memory import groups, kept_workspace, own_rows

SIMULATED_PROGRAMS = 2
CONTRACT = Contract("ring_attention_backward", "do: any (batch, heads, length, dim)", "q: bf16|fp16 (batch, heads, length, dim)",
                    "k: =q (batch, kv_heads, length, dim)", "v: =q (batch, kv_heads, length, dim)",
                    "-> dq: =q (batch, heads, length, dim)", "-> dk: =q (batch, kv_heads, length, dim)",
                    "-> dv: =q (batch, kv_heads, length, dim)", flops="10 * batch * heads * length * length * dim")


def _empty(*given: Tensor) -> tuple[Tensor, ...]:
    return tuple(torch.empty_like(x, memory_format=torch.contiguous_format) for x in given)


def _run(do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, dlse: Tensor | None, causal: bool, balanced: bool,
         scale: float | None, room: int | None, group_name: str) -> tuple[Tensor, Tensor, Tensor]:
    world = world_of(group_name)
    if not q.is_cuda:
        dlse = torch.zeros_like(lse) if dlse is None else dlse       # one rank may use lse and another not
        return simulated("ring_attention_backward", world, (do, q, k, v, o, lse, dlse),
                         lambda ranks, *xs: _at_all_ranks(ranks, *xs, causal, balanced, scale, room),
                         like=(causal, balanced, scale, room))
    do, q, k, v, o = map(own_rows, (do, q, k, v, o))
    lse, dlse = lse.contiguous(), None if dlse is None else dlse.contiguous()
    dq, dk, dv = _empty(q, k, v)
    plans = _PLANS.of(world)
    for batches, heads, of_keys in groups(q, k, world.size, room):
        queries = [None if x is None else x[batches, heads] for x in (do, q, o, lse, dlse, dq)]
        keys = [x[batches, of_keys] for x in (k, v, dk, dv)]
        key = *map(look, (*queries[:3], *keys[:2])), dlse is None, causal, balanced, scale
        plan = plans[key] or plans.made(key, world, *queries, *keys, causal, balanced, scale)
        plan(*queries, *keys)
    return dq, dk, dv


def _plan(world: World, do: Tensor, q: Tensor, o: Tensor, lse: Tensor, dlse: Tensor | None, dq: Tensor, k: Tensor, v: Tensor,
          dk: Tensor, dv: Tensor, causal: bool, balanced: bool, scale: float | None):
    """What computes (dq, dk, dv) by four launches, of such tensors as these."""
    agreed(world, "ring_attention_backward", q, k, f"causal={causal}, balanced={balanced}, scale={scale}")
    gathered = kept_workspace(world, k)
    parts = workspace(world, "ring_attention shares", gathered.whole.numel() * k.itemsize, torch.uint8).view(k.dtype)
    work = Workspace(gathered, parts)
    of_parts = ring_attention.Workspace(parts, None, None, None, world.size)
    whole, shares = (ring_attention.halves(one, *k.shape) for one in (gathered, of_parts))
    shapes = attention_backward.workspace(q, None, causal)
    rows, sums = (q.new_empty(shape, dtype=torch.float32) for shape in shapes)
    (before, *first), main, (after, *last), (collect, *bring) = hopper.launches(
        q, k, v, o, lse, do, dq, dk, dv, rows, sums, work, world.rank, programs(q), causal, balanced, scale, dlse=dlse)
    before, after = Launch(q, before, *first), Launch(q, after, *last)
    main = RankLaunch(world, q, *main, kept=(gathered.flags, gathered.state))
    collect = RankLaunch(world, q, collect, *bring)

    def plan(do: Tensor, q: Tensor, o: Tensor, lse: Tensor, dlse: Tensor | None, dq: Tensor, k: Tensor, v: Tensor, dk: Tensor,
             dv: Tensor) -> None:
        rows, sums = (q.new_empty(shape, dtype=torch.float32) for shape in shapes)
        before(*(x for x in (o, do, lse, dlse, rows, sums) if x is not None))
        main(q, k, v, *whole, do, rows[0], rows[1], sums, *shares, k, v, *whole)
        after(sums, dq)
        collect(*shares, dk, dv)

    return plan


_PLANS = RankPlans(_plan)


def _at_all_ranks(ranks: mimw.World, dos: list[Tensor], qs: list[Tensor], ks: list[Tensor], vs: list[Tensor], os: list[Tensor],
                  lses: list[Tensor], dlses: list[Tensor], causal: bool, balanced: bool, scale: float | None,
                  room: int | None) -> list[tuple[Tensor, Tensor, Tensor]]:
    """(dq, dk, dv) of every rank, simulated."""
    results = [_empty(*some) for some in zip(qs, ks, vs)]
    work = Workspace.of(ranks, *ks[0].shape, str(ks[0].dtype).removeprefix("torch."))
    for batches, heads, of_keys in groups(qs[0], ks[0], len(ranks), room):
        launches = []
        for rank, (do, q, k, v, o, lse, dlse, (dq, dk, dv)) in enumerate(zip(dos, qs, ks, vs, os, lses, dlses, results)):
            do, q, o, lse, dlse, dq = (x[batches, heads] for x in (do, q, o, lse, dlse, dq))
            k, v, dk, dv = (x[batches, of_keys] for x in (k, v, dk, dv))
            rows, sums = (q.new_empty(shape, dtype=torch.float32) for shape in attention_backward.workspace(q, None, causal))
            launches.append(hopper.launches(q, k, v, o, lse, do, dq, dk, dv, rows, sums, work.at(rank), rank,
                                            SIMULATED_PROGRAMS, causal, balanced, scale, dlse=dlse, putters=1))
        for (kernel, *one), *others in zip(*launches):
            grid, args, meta = ring_attention.simulated([one, *(other[1:] for other in others)], ranks)
            mimw.simulate(kernel, grid, *args, **meta)
    return results


RING_ATTENTION_BACKWARD = Operator(
    "ring_attention_backward(Tensor do, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, Tensor? dlse, bool causal, "
    "bool balanced, float? scale, int? room, str group_name) -> (Tensor, Tensor, Tensor)", _run, CONTRACT)


__all__ = ["RING_ATTENTION_BACKWARD"]
