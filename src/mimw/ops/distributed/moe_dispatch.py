"""`mimw.ops.distributed.moe_dispatch`: tokens to the GPUs of their experts, where they lie by expert.

Input: at each rank its tokens' rows and experts. Output: at each rank the rows for its experts, and the way back. For example:

    rows, ends, scale, handle = moe_dispatch(x, expert_ids, num_experts=256)
    y = grouped_matmul(rows, w_of_this_rank, ends)          any function of rows, expert by expert
    out = moe_combine(y, handle, weights)
    torch.ops.mimw.moe_dispatch(x, expert_ids, None, 256, 4096, 65536, 1, group_name)       the operator, room for 65536 rows
    torch.ops.mimw.moe_dispatch_weighted(x, expert_ids, weights, None, 256, ...)            with weights, and all ranks' behind
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

import mimw
from mimw.kernels import moe_dispatch as library

from ..launching import SIMULATED_PROGRAMS, is_hopper, programs
from ..operator import Operator
from ..plans import look
from .contract import RankContract
from .launching import RankLaunch, RankPlans, World, agreed, name_of, simulated, tensors_of, workspace, world_of

MOST_EXPERTS = 4096     # of all ranks


class Handle(NamedTuple):
    """The way back of dispatched tokens, for `moe_combine`.

        places       (ranks, max_tokens, k) int32: the row here of choice j of token t of each rank, -1 for choices of other ranks'
                     experts
        expert_ids   this rank's tokens' experts
        num_experts  of all ranks
        weights      (ranks, max_tokens, k) fp32: those of all ranks' choices, if they were given, else None
    """

    places: Tensor
    expert_ids: Tensor
    num_experts: int
    weights: Tensor | None = None


class Dispatched(NamedTuple):
    """What a rank gets; `moe_dispatch` says more."""

    rows: Tensor
    ends: Tensor
    scale: Tensor | None
    handle: Handle


def moe_dispatch(x: Tensor, expert_ids: Tensor, num_experts: int, *, max_tokens: int | None = None, scale: Tensor | None = None,
                 block: int = 1, group: Any = None, programs: int = 0, weights: Tensor | None = None) -> Dispatched:
    """Each token's row to the ranks of its experts: rank r has the experts r num_experts / ranks and on. All ranks call it.

    args:      x            (tokens, hidden) of any type of whole bytes, any strides; a row is a multiple of 16 bytes. The tokens
                            may be another number at each rank, also none
               expert_ids   (tokens, k), int32 or int64, as torch.topk gives them. What is no expert's number, as -1, is no choice;
                            a token may have an expert twice, and gets two rows
               num_experts  of all ranks, a multiple of the ranks, at most 4096
               max_tokens   the most that any rank has, the same at all ranks and for each call: it says how large the results are.
                            By default x's, which then is the same number at all ranks
               scale        (opt) (tokens, columns), what goes with each row, as the scales of fp8 rows; a multiple of 16 bytes
               block        the rows of each expert are filled up to a multiple of so many, as tiles of products want them
               group        a process group, its name, or None for the default one
               programs     multiprocessors that the launch has, the same at all ranks, 0 for all: others may have products beside
                            it. All of its programs have to find room at one time
               weights      (opt) (tokens, k), bf16, fp16 or fp32: of this rank's choices, sent to all ranks beside them
    returns:   rows    (ranks * max_tokens * k, hidden) of x's type: the rows for this rank's experts, by expert, then by rank, then
                       by token. There is room for every choice of every rank, and for what fills up, in whole blocks; the latter,
                       and what is behind the last row, is not written
               ends    (num_experts / ranks) int32: the row behind each expert's last block, as `grouped_matmul` takes them
               scale   as rows, or None
               handle  for `moe_combine`; with weights it has those of all ranks, 0 where a rank has no token
    computed:  on sm_90 in one launch of `mimw.kernels.moe_dispatch`: a row goes once to each rank that has experts of it, and is
               copied there. Nothing waits for the device, so a call can be captured; the first one of its kind makes symmetric
               memory of (ranks - 1) max_tokens rows, twice if they are few, outside of a capture. Calls of a group follow each
               other on one stream. Tensors of the CPU are simulated
    gradients  none
    errors:    RuntimeError where extents, types or devices do not fit; NotImplementedError for other types and GPUs; those of
               `mimw.distributed.World.symmetric`
    """
    most = x.shape[0] if max_tokens is None else max_tokens
    room = library.listed(most, expert_ids.shape[-1], num_experts, world_of(group).size, max(1, block))
    rest = scale, num_experts, most, room, block, name_of(group), programs
    rows, ends, places, scales, *of_all = (MOE_DISPATCH(x, expert_ids, *rest) if weights is None else
                                           MOE_DISPATCH_WEIGHTED(x, expert_ids, weights, *rest))
    return Dispatched(rows, ends, None if scale is None else scales, Handle(places, expert_ids, num_experts, *of_all))


TENSORS = (         # lines of contracts
    "x: any (tokens, columns)", "expert_ids: int (tokens, k)", "scale?: any (tokens, scales)", "block >= 1 -- blocks have one row "
    "at least", "tokens <= max_tokens -- there are more tokens than max_tokens",
    f"1 <= num_experts <= {MOST_EXPERTS} and num_experts % ranks == 0 -- experts must be a multiple of the ranks, and "
    f"{MOST_EXPERTS} at "
    "most", "columns > 0 and columns * x.itemsize % 16 == 0 -- a row must be a multiple of 16 bytes: pad the columns",
    "scale is None or scales > 0 and scales * scale.itemsize % 16 == 0 -- the scales of a row must be a multiple of 16 bytes: pad "
    "them")
WEIGHTS = "weights: float (tokens, k)"
OF_ALL = "-> all_weights: fp32 (ranks, max_tokens, k)"
RESULTS = ("-> rows: =x (room, columns)", "-> ends: i32 (num_experts // ranks)", "-> places: i32 (ranks, max_tokens, k)",
           "-> scales: =scale|=x (room, scales) if scale")
CONTRACT = RankContract("moe_dispatch", *TENSORS, *RESULTS)
WEIGHTED = RankContract("moe_dispatch", *TENSORS, WEIGHTS, *RESULTS, OF_ALL)


def empty(x: Tensor, ids: Tensor, scale: Tensor | None, num_experts: int, most: int, room: int,
          ranks: int, weights: Tensor | None = None) -> tuple[Tensor, ...]:
    """What a dispatch fills: rows, ends, places and scales; with weights those of all ranks."""
    k = ids.shape[1]
    scales = x.new_empty(0) if scale is None else scale.new_empty(room, scale.shape[1])
    return (x.new_empty(room, x.shape[1]), ids.new_empty(num_experts // ranks, dtype=torch.int32),
            ids.new_empty(ranks, most, k, dtype=torch.int32), scales, *empty_weights(weights, ranks, most))


def empty_weights(weights: Tensor | None, ranks: int, most: int) -> tuple[Tensor, ...]:
    """Room for those of all ranks, if there are any."""
    return () if weights is None else (weights.new_empty(ranks, most, weights.shape[1], dtype=torch.float32), )


def words(rows: Tensor) -> Tensor:
    """Rows as int32 words, contiguous, from an address on that bulk copies take."""
    rows = rows.contiguous()
    return (rows if rows.data_ptr() % 16 == 0 else rows.clone()).view(torch.int32)


def kept_rooms(world: World, name: str, room: dict) -> dict[str, Tensor]:
    """The symmetric memory of launches of one kind, which `name` tells from others."""
    return {part: workspace(world, f"{name}: {part}", shape, getattr(torch, dtype)) for part, (shape, dtype) in room.items()}


def _run(x: Tensor, ids: Tensor, scale: Tensor | None, num_experts: int, most: int, room: int, block: int, group_name: str,
         count: int = 0, found: tuple[Tensor, ...] | None = None, weights: Tensor | None = None) -> tuple[Tensor, ...]:
    """`count` programs, 0 for as many as there are multiprocessors; on GPUs results may be given, as `empty` makes them."""
    world = world_of(group_name)
    if not x.is_cuda:
        checked(CONTRACT, WEIGHTED, weights, x=x, expert_ids=ids, scale=scale, num_experts=num_experts, max_tokens=most,
                   room=room, block=block, ranks=world.size)
        columns = [None if one is None else one.shape[1] for one in (x, ids, scale)]
        return simulated("moe_dispatch", world, (x, ids, scale, weights),
                         lambda *every: _at_all_ranks(*every, num_experts, most, room, block),
                         like=(num_experts, most, room, block, columns), ragged=True)
    looks = look(x), look(ids), None if scale is None else look(scale), None if weights is None else look(weights)
    plans, key = _PLANS.of(world), (*looks, num_experts, most, room, block, count)
    return (plans[key] or plans.made(key, world, x, ids, scale, *key[4:], weights))(x, ids, scale, found, weights)


def _run_weighted(x: Tensor, ids: Tensor, weights: Tensor, scale: Tensor | None, *rest: Any) -> tuple[Tensor, ...]:
    """`rest` is as `_run` takes it, without results."""
    return _run(x, ids, scale, *rest, weights=weights)


def checked(without: RankContract, weighted: RankContract, weights: Tensor | None, **given: Any) -> None:
    """Check by the contract that a call without or with weights has."""
    without.check(**given) if weights is None else weighted.check(weights=weights, **given)


def looks_of(x: Tensor, ids: Tensor, scale: Tensor | None, weights: Tensor | None = None) -> str:
    """What has to be the same at all ranks of rows, experts, scales and weights: all but how many there are."""
    told = ["None" if one is None else f"{str(one.dtype).removeprefix('torch.')} by {one.shape[1]}" for one in (x, ids, scale)]
    return ", ".join(told) + ("" if weights is None else ", with weights")


def with_weights(weights: Tensor | None, found: tuple[Tensor, ...]) -> dict:
    """The arguments of a launch that weights are; `found` ends with those of all ranks."""
    return {} if weights is None else dict(weights=weights.contiguous(), all_weights=found[-1])


def _plan(world: World, x: Tensor, ids: Tensor, scale: Tensor | None, num_experts: int, most: int, room: int,
          block: int, given: int, weights: Tensor | None = None) -> Callable:
    k = ids.shape[1]
    checked(CONTRACT, WEIGHTED, weights, x=x, expert_ids=ids, scale=scale, num_experts=num_experts, max_tokens=most, room=room,
               block=block, ranks=world.size)
    agreed(world, "moe_dispatch", looks_of(x, ids, scale, weights),
           f"{num_experts} experts, {most} tokens, room {room}, block {block}" + (f", {given} programs" if given else ""))
    if not is_hopper(x):
        raise NotImplementedError("moe_dispatch: it copies rows by Hopper's bulk copies, and this GPU is another one")

    def made(x: Tensor, ids: Tensor, scale: Tensor | None, found: tuple[Tensor, ...] | None,
             weights: Tensor | None) -> tuple[Tensor, ...]:
        return found or empty(x, ids, scale, num_experts, most, room, world.size, weights)

    if most * k == 0:
        return lambda *given: _nothing(made(*given))
    count, row, beside = given or programs(x), x.shape[1] * x.itemsize, 0 if scale is None else scale.shape[1] * scale.itemsize
    of = f"moe_dispatch of {most} x {k} of {num_experts}, {row} + {beside} bytes" + (f" by {given}" if given else "")
    chosen = (beside_products if given else library.chosen_for)(most, k, row + beside, count, world.size)
    kept = kept_rooms(world, of, library.room_for(most, k, num_experts, row, count, world.size, beside, chosen,
                                                  weights is not None))
    rows, ends, places, scales, *_ = found = made(x, ids, scale, None, weights)
    with_scales = {} if scale is None else dict(x_scales=words(scale), row_scales=words(scales))
    grid, args, meta = library.arguments(words(x), ids.contiguous(), words(rows), ends, places, kept, world, count, block=block,
                                         chosen=chosen, **with_scales, **with_weights(weights, found))
    launch = RankLaunch(world, x, library.kernel, grid, args, meta, tuple(kept.values()))

    def plan(x: Tensor, ids: Tensor, scale: Tensor | None, found: tuple[Tensor, ...] | None = None,
             weights: Tensor | None = None) -> tuple[Tensor, ...]:
        found = rows, ends, places, scales, *of_all = made(x, ids, scale, found, weights)
        x, ids, rows = words(x), ids.contiguous(), words(rows)
        beside = (x, rows) if scale is None else (words(scale), words(scales))
        own, every = (ids, places) if weights is None else (weights.contiguous(), *of_all)
        launch(x, beside[0], ids, own, rows, beside[1], ends, places, every)
        return found

    return plan


_PLANS = RankPlans(_plan)


def _nothing(found: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    found[1].zero_()
    return found


def beside_products(most: int, k: int, row_bytes: int, programs: int, ranks: int) -> library.Configuration:
    """The configuration of a launch of few programs, each of which has many rows: rings as deep as there is room, and peers told
    seldom, as a program that tells waits for all that it has on its way."""
    usual = library.chosen_for(most, k, row_bytes, programs, ranks)
    tables = 4 * library.rounds_of(most, programs) * (1 + ranks * (1 << (k - 1).bit_length()))
    slots = min(24, (library.SHARED - tables) // max(16, 1 << (row_bytes - 1).bit_length()))
    if slots < 12:
        return usual
    out = slots // 3
    return replace(usual, out=out, home=slots - out, unread=(slots - out) // 2, group=out // 2, whole=0, told=True)


def held(tensors: list[Tensor]) -> list[Tensor]:
    """The tensors, with one row where there is none: of no bytes there is no address."""
    return [one if one.numel() else one.new_zeros(1, *one.shape[1:]) for one in tensors]


def _at_all_ranks(ranks: mimw.World, xs: list, ids: list, scales: list, weights: list, num_experts: int, most: int, room: int,
                  block: int) -> list[tuple[Tensor, ...]]:
    size, scaled = len(ranks), scales[0] is not None
    outs = [empty(x, one, scale, num_experts, most, room, size, weight) for x, one, scale, weight in zip(xs, ids, scales, weights)]
    for rows, ends, _, scale, *_ in outs:
        rows.view(torch.uint8).zero_(), ends.zero_(), scale.view(torch.uint8).zero_()
    k, row = ids[0].shape[1], xs[0].shape[1] * xs[0].itemsize
    if most * k == 0:
        return outs
    beside = scales[0].shape[1] * scales[0].itemsize if scaled else 0
    needed = library.room_for(most, k, num_experts, row, SIMULATED_PROGRAMS, size, beside, weighted=weights[0] is not None)
    kept = {part: ranks.symmetric(shape, dtype, part) for part, (shape, dtype) in needed.items()}

    def each(tensors, name):
        return ranks.each(held(list(tensors)), name)

    rows, ends, places, row_scales, *of_all = (ranks.each(list(part)) for part in zip(*outs))
    tokens, with_scales = ranks.each([len(x) for x in xs]), {}
    if scaled:
        with_scales = dict(x_scales=each(map(words, scales), "scale"), row_scales=each(map(words, row_scales), "row_scale"))
    weighted = dict(weights=each(weights, "weights"), all_weights=of_all[0]) if of_all else {}
    grid, args, meta = library.arguments(each(map(words, xs), "x"), each(ids, "expert_ids"), each(map(words, rows), "rows"), ends,
                                         places, kept, ranks, SIMULATED_PROGRAMS, tokens=tokens, block=block, **with_scales,
                                         **weighted)
    mimw.simulate(library.kernel, grid, *args, **meta)
    return outs


MOE_DISPATCH = Operator("moe_dispatch(Tensor x, Tensor expert_ids, Tensor? scale, int num_experts, int max_tokens, int room, "
                        "int block, str group_name, int programs=0) -> (Tensor, Tensor, Tensor, Tensor)", _run, CONTRACT)
MOE_DISPATCH_WEIGHTED = Operator("moe_dispatch_weighted(Tensor x, Tensor expert_ids, Tensor weights, Tensor? scale, "
                                 "int num_experts, int max_tokens, int room, int block, str group_name, int programs=0) -> "
                                 "(Tensor, Tensor, Tensor, Tensor, Tensor)", _run_weighted, WEIGHTED)


__all__ = ["MOE_DISPATCH", "MOE_DISPATCH_WEIGHTED", "Dispatched", "Handle", "OF_ALL", "TENSORS", "WEIGHTS", "beside_products",
           "checked", "empty", "empty_weights", "held", "kept_rooms", "looks_of", "moe_dispatch", "tensors_of", "with_weights",
           "words"]
