"""`mimw.ops.distributed.ring_attention`: attention of a sequence that is cut over the ranks of a group (context parallel).

Input: this rank's part of queries, keys and values. Output: its part of o = softmax(scale q k^T) v over the keys of all ranks:

    mine = positions(rank, size, length, parts=2)                   which rows of the whole sequence this rank holds
    o = ring_attention(q, k, v, causal=True)                        q, k, v: those rows
    o, lse = ring_attention(q, k, v, causal=True, return_lse=True)

Keys and values come to every rank while it already computes (mimw/kernels/ring_attention). Gradients: ring_attention_backward.py.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import mimw
from mimw.kernels import ring_attention as hopper
from mimw.kernels.attention.changes import HEADS
from mimw.kernels.ring_attention import Workspace, positions

from ..contract import Contract, Extents
from ..launching import is_hopper, programs, zeros
from ..operator import LOWER, Operator
from ..plans import Plans, look
from .launching import RankLaunch, RankPlans, World, agreed, name_of, simulated, world_of
from .ring_attention_backward import RING_ATTENTION_BACKWARD
from .ring_attention_memory import groups, kept_workspace, own_rows

SIMULATED_PROGRAMS = 2


def ring_attention(q: Tensor, k: Tensor, v: Tensor, causal: bool = False, balanced: bool = True, scale: float | None = None,
                   return_lse: bool = False, *, room: int | None = None, group: Any = None) -> Tensor | tuple[Tensor, Tensor]:
    """softmax(scale q k^T) v with fp32 scores and sums, of this rank's queries on the keys of all ranks.

    args:      q           (batch, heads, length, dim) of bf16 or fp16, dim 64 or 128: the rows of the sequence that this rank
                           holds, as many at every rank
               k, v        (batch, kv_heads, length, dim) of q's type; kv_heads divides heads, and head h reads kv head
                           h * kv_heads // heads
               causal      a query sees the keys up to its own position in the whole sequence
               balanced    which rows of a causal sequence these are: of 2 N equal chunks rank r has number r, then number
                           2 N - 1 - r, so that all ranks have the same work; length is a multiple of 256. If not, of N chunks
                           number r: the last rank has most to do, and all wait for it; length is a multiple of 128. `positions`
                           says which rows. Without a mask it does not matter which they are
               scale       of the scores, more than 0, by default 1 / sqrt(dim)
               return_lse  also the natural logarithms of the softmax's denominators
               room        bytes that keys and values of all ranks may take at a rank, by default all that there are: 2 * batch *
                           kv_heads * length * N * dim numbers. With less, some kv heads are computed at a time, one at least
               group       a process group, its name, or a `mimw.distributed.World`; by default the default group
    returns:   o, like q, contiguous; with lse, fp32 (batch, heads, length)
    orders     all ranks call it in one order, with the same shapes and options, and on one stream each; the first call of a shape
               outside of CUDA graphs
    memory     symmetric: what `room` says, and for gradients as much again; kept for later calls
    gradients  of q, k and v, from those of o and lse; no second derivative. Sums over a rank's queries are fp32, go to the rank
               that has the key rounded to q's type, and are there added in fp32 in the order of ranks. dQ's last bits differ from
               run to run, as `mimw.ops.attention`'s
    errors:    RuntimeError where shapes, types or devices do not fit each other; NotImplementedError for other types, or a GPU that
               is not sm_90; RanksDisagree where shapes, types or options differ by rank, on GPUs found at the first call for
               each; those of `mimw.distributed.World.symmetric`
    """
    if room is not None and room < 1:
        raise RuntimeError(f"ring_attention: room is {room} bytes; it must be more than 0, or None")
    o, lse = RING_ATTENTION(q, k, v, causal, balanced, scale, room, name_of(group))
    return (o, lse) if return_lse else o


def _only_hopper(of: Extents, given: dict) -> None:
    """An error on other GPUs."""
    if given["q"].is_cuda and not is_hopper(given["q"]):
        raise NotImplementedError("ring_attention: its kernels are for sm_90")
    of.parts = parts_of(of.causal, of.balanced)
    aligned = hopper.ALIGNED * of.parts
    CONTRACT.demand(of.length % aligned == 0, lambda: f"a rank has {of.length} rows, in {of.parts} parts, which must be multiples "
                    f"of {hopper.ALIGNED}: pad the whole sequence to a multiple of {aligned} times the number of ranks")


CONTRACT = Contract(
    "ring_attention", "q: bf16|fp16 (batch, heads, length, dim)", "k: =q (batch, kv_heads, length, dim)",
    "v: =q (batch, kv_heads, length, dim)", "min(batch, heads, kv_heads, length, dim) > 0 -- there is nothing to compute", HEADS,
    f"dim in {hopper.HEAD_DIMS} -- the head dim may be {' or '.join(map(str, hopper.HEAD_DIMS))}",
    "-> o: =q (batch, heads, length, dim)", "-> lse: fp32 (batch, heads, length)", also=_only_hopper,
    flops="4 * batch * heads * length * length * dim")


def parts_of(causal: bool, balanced: bool) -> int:
    """Chunks of a rank."""
    return 2 if causal and balanced else 1


def _results(q: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(q, memory_format=torch.contiguous_format), q.new_empty(q.shape[:3], dtype=torch.float32)


def _checked(q: Tensor, k: Tensor, v: Tensor, causal: bool, balanced: bool) -> bool:
    """True, or an error."""
    CONTRACT.check(q=q, k=k, v=v, causal=causal, balanced=balanced)
    return True


_SEEN = Plans(_checked)     # tensors that fit each other


def _run(q: Tensor, k: Tensor, v: Tensor, causal: bool, balanced: bool, scale: float | None, room: int | None,
         group_name: str) -> tuple[Tensor, Tensor]:
    key = look(q), look(k), look(v), causal, balanced
    if key not in _SEEN:
        _SEEN.made(key, q, k, v, causal, balanced)
    world = world_of(group_name)
    if not q.is_cuda:
        options = causal, balanced, scale, room
        return simulated("ring_attention", world, (q, k, v), lambda ranks, *xs: _at_all_ranks(ranks, *xs, *options), like=options)
    q, k, v = map(own_rows, (q, k, v))
    o, lse = _results(q)
    plans = _PLANS.of(world)
    for batches, heads, of_keys in groups(q, k, world.size, room):
        mine = q[batches, heads], k[batches, of_keys], v[batches, of_keys]
        key = *map(look, mine), causal, balanced, scale
        plan = plans[key] or plans.made(key, world, *mine, causal, balanced, scale)
        plan(*mine, o[batches, heads], lse[batches, heads])
    return o, lse


def _plan(world: World, q: Tensor, k: Tensor, v: Tensor, causal: bool, balanced: bool, scale: float | None):
    """What computes (o, lse) of (q, k, v, o, lse) by one launch."""
    agreed(world, "ring_attention", q, k, f"causal={causal}, balanced={balanced}, scale={scale}")
    work = kept_workspace(world, k)
    counter, (o, lse) = zeros(q), _results(q)
    whole = hopper.halves(work, *k.shape)
    grid, args, meta = hopper.arguments(q, k, v, o, lse, counter, work, world.rank, programs(q), causal, balanced, scale)
    launch = RankLaunch(world, q, hopper.kernel, grid, args, meta, kept=(work.flags, work.state))

    def plan(q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor) -> None:
        launch(q, k, v, o, *whole, k, v, *whole, lse, zeros(q))

    return plan


_PLANS = RankPlans(_plan)


def _at_all_ranks(ranks: mimw.World, qs: list[Tensor], ks: list[Tensor], vs: list[Tensor], causal: bool, balanced: bool,
                  scale: float | None, room: int | None) -> list[tuple[Tensor, Tensor]]:
    """(o, lse) of every rank, simulated."""
    results = [_results(q) for q in qs]
    work = Workspace.of(ranks, *ks[0].shape, str(ks[0].dtype).removeprefix("torch."))
    for batches, heads, of_keys in groups(qs[0], ks[0], len(ranks), room):
        launches = [hopper.arguments(q[batches, heads], k[batches, of_keys], v[batches, of_keys], o[batches, heads],
                                     lse[batches, heads], torch.zeros(1, dtype=torch.int32), work.at(rank), rank,
                                     SIMULATED_PROGRAMS, causal, balanced, scale, putters=1)
                    for rank, (q, k, v, (o, lse)) in enumerate(zip(qs, ks, vs, results))]
        grid, args, meta = hopper.simulated(launches, ranks)
        mimw.simulate(hopper.kernel, grid, *args, **meta)
    return results


def _save(ctx, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs[:3], *output)
    ctx.options = inputs[3:]
    ctx.set_materialize_grads(False)


def _gradients(ctx, do: Tensor | None, dlse: Tensor | None) -> tuple:
    q, k, v, o, lse = ctx.saved_tensors
    do = torch.zeros_like(o) if do is None else do      # all ranks come, whichever of them have a gradient
    return *RING_ATTENTION_BACKWARD(do, q, k, v, o, lse, dlse, *ctx.options), *[None] * len(ctx.options)


RING_ATTENTION = Operator(
    "ring_attention(Tensor q, Tensor k, Tensor v, bool causal, bool balanced, float? scale, int? room, str group_name) -> "
    "(Tensor, Tensor)", _run, CONTRACT, _save, _gradients, autocast=LOWER)


__all__ = ["RING_ATTENTION", "positions", "ring_attention"]
