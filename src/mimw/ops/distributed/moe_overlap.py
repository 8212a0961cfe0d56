"""The operator behind `moe` of several micro-batches: tokens travel while the experts compute those of another micro-batch.

Input: what `moe` takes, and how many micro-batches. Output: a row for each token. For example:

    y = moe(x, w_gate_up, w_down, expert_ids, weights, micro_batches=2)
    chosen_for(ranks=2)                         Overlap(programs=16, products=0, drawn=True): who has which multiprocessors
    torch.ops.mimw.moe_overlapped(x, w_gate_up, w_down, expert_ids, weights, None, None, 4096, 2, 128, group_name)

Of three micro-batches, `experts` on the caller's stream, the rest on a stream of higher priority:

    caller      quantise         experts 0       experts 1       experts 2
    carrier              in 0    in 1            in 2, out 0     out 1          out 2

`in` is a dispatch, `out` a combine. The first one in and the last one out have the GPU alone, and all of its multiprocessors; those
beside experts have few of them, a program on each, which takes all of its registers or most of its shared memory: many small ones
would go to all multiprocessors, one each, and products, whose programs want a whole one, would find none.

Why nothing waits for ever. All launches that wait for peers are on one stream at each rank, in one order, and wait for the peers'
launch of their own number alone. Products wait for no peer: once started they end. Number n waits at its rank for launches before
it on that stream and for products of micro-batches that have come by those; so, by induction, these end, all programs of n find
room at every rank, since nothing that holds it needs n to end, and n ends everywhere. Where products have taken all multiprocessors
first, n is late, and peers' programs of n wait so long; that costs time and no more.
Launches of one kind that share words, staging and sums follow each other, as they are on that one stream; those that have another
number of programs have memory of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mimw.kernels.measured import by_chip
from mimw.kernels.moe_dispatch import listed

from ..contract import Contract
from ..launching import programs
from ..operator import Operator
from .launching import World, world_of
from .moe_combine import MOE_COMBINE, TASKS
from .moe_dispatch import MOE_DISPATCH, empty
from .moe_experts import MOE_EXPERTS
from .moe_experts_scaled import MOE_EXPERTS_SCALED, MOE_QUANTISED

CARRIER = "the stream that carries micro-batches"


@dataclass(frozen=True)
class Overlap:
    """How a GPU is shared out while experts compute: `programs` multiprocessors carry tokens. `products` run on as many, 0 for all
    that there are, of which those that carry join when they are free: with scales their tiles are then `drawn`, so that who joins
    late has fewer, and -1 for the others alone. A program of what goes out has so many `tasks`, an even number. `out_first`: what
    goes out is launched before what comes in."""

    programs: int = 16
    products: int = 0
    drawn: bool = True
    tasks: int = TASKS
    out_first: bool = False

    def carrying(self, multiprocessors: int) -> int:
        """Of so many; at least one, at most a half."""
        return max(1, min(self.programs, multiprocessors // 2))

    def computing(self, multiprocessors: int, scaled: bool = True) -> int:
        """Programs of the products; those whose tiles are shared out evenly wait for no multiprocessor that others have."""
        if self.products < 0 or not (self.drawn and scaled):
            return multiprocessors - self.carrying(multiprocessors)
        return min(self.products or multiprocessors, multiprocessors)


@by_chip(Path(__file__).parent / "moe_overlap.json")
def _chosen(rows: list[dict]) -> dict[int, Overlap]:
    """By ranks."""
    return {row["ranks"]: Overlap(**row["configuration"]) for row in rows}


def chosen_for(ranks: int) -> Overlap:
    """The configuration for so many ranks: of the file's row of the most ranks that are not more, or of its first one."""
    table = _chosen()
    return table[max((one for one in table if one <= ranks), default=min(table))]


def overlapped(x: Tensor, w_gate_up: Tensor, w_down: Tensor, ids: Tensor, weights: Tensor, gate_up_scale: Tensor | None,
               down_scale: Tensor | None, most: int, micro_batches: int, block: int, group_name: str,
               chosen: Overlap | None = None) -> Tensor:
    """`moe_overlapped` by that configuration; by the library's without one."""
    world, step = world_of(group_name), max(1, -(-most // micro_batches))
    parts = [slice(number * step, (number + 1) * step) for number in range(micro_batches)]
    if not x.is_cuda:
        return _by_parts(x, w_gate_up, w_down, ids, weights, gate_up_scale, down_scale, parts, step, block, group_name)
    chosen, scaled = chosen or chosen_for(world.size), gate_up_scale is not None
    few, computing = chosen.carrying(programs(x)), chosen.computing(programs(x), scaled)
    experts, main, side = w_down.shape[0] * world.size, torch.cuda.current_stream(), carrier(world)
    rows, scale = MOE_QUANTISED.run(x, _name(w_down)) if scaled else (x.contiguous(), None)
    ids, weights, out = ids.contiguous(), weights.contiguous(), x.new_empty(x.shape)
    of = [(rows[part], ids[part], None if scale is None else scale[part]) for part in parts]
    # All is allocated for the caller's stream, and given back when that has joined the other: nobody reuses what another reads.
    room = listed(step, ids.shape[1], experts, world.size, block)
    there = [empty(*one, experts, step, room, world.size) for one in of]
    made: list[Any] = [None] * micro_batches
    came, done = list(made), list(made)

    def bring(number: int, count: int) -> None:
        with torch.cuda.stream(side):
            MOE_DISPATCH.run(*of[number], experts, step, room, block, group_name, count, there[number])
        came[number] = side.record_event()

    def take(number: int, count: int) -> None:
        side.wait_event(done[number])
        with torch.cuda.stream(side):
            MOE_COMBINE.run(made[number], there[number][2], of[number][1], weights[parts[number]], experts, group_name, count,
                            out[parts[number]], chosen.tasks)

    def compute(number: int) -> None:
        main.wait_event(came[number])
        arrived, ends, _, scales = there[number]
        if scaled:
            made[number] = MOE_EXPERTS_SCALED.run(arrived, ends, w_gate_up, w_down, scales, gate_up_scale, down_scale, block,
                                                  _name(x), computing, chosen.drawn)
        else:
            made[number] = MOE_EXPERTS.run(arrived, ends, w_gate_up, w_down, None, block, computing)
        done[number] = main.record_event()

    def carry(number: int) -> None:
        """Beside the experts of micro-batch `number`, and before them, so that programs that carry have room."""
        if number and chosen.out_first:
            take(number - 1, few)
        if number + 1 < micro_batches:
            bring(number + 1, few)
        if number and not chosen.out_first:
            take(number - 1, few)

    side.wait_stream(main)
    bring(0, 0)
    for number in range(micro_batches):
        carry(number)
        compute(number)
    take(micro_batches - 1, 0)
    main.wait_stream(side)
    return out


def carrier(world: World) -> torch.cuda.Stream:
    """The stream of a world's launches that wait for peers while products run; another than the current one."""
    current = torch.cuda.current_stream()
    found = world.kept.get(CARRIER)
    while found is None or found == current:        # torch has 32 streams of a kind, and gives them out in turn
        found = world.kept[CARRIER] = torch.cuda.Stream(priority=-1)
    return found


def _name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _by_parts(x: Tensor, w_gate_up: Tensor, w_down: Tensor, ids: Tensor, weights: Tensor, gate_up_scale: Tensor | None,
              down_scale: Tensor | None, parts: list[slice], step: int, block: int, group_name: str) -> Tensor:
    """One micro-batch after the other, of operators that are simulated."""
    rows, scale = (x, None) if gate_up_scale is None else MOE_QUANTISED(x, _name(w_down))
    size, outs = world_of(group_name).size, []
    experts = w_down.shape[0] * size
    for part in parts:
        given = rows[part], ids[part], None if scale is None else scale[part]
        arrived, ends, places, scales = MOE_DISPATCH(*given, experts, step, listed(step, ids.shape[1], experts, size, block), block,
                                                     group_name)
        if scale is None:
            y = MOE_EXPERTS(arrived, ends, w_gate_up, w_down, None, block)
        else:
            y = MOE_EXPERTS_SCALED(arrived, ends, w_gate_up, w_down, scales, gate_up_scale, down_scale, block, _name(x))
        outs.append(MOE_COMBINE(y, places, ids[part], weights[part], experts, group_name))
    return torch.cat(outs)


MOE_OVERLAPPED = Operator(
    "moe_overlapped(Tensor x, Tensor w_gate_up, Tensor w_down, Tensor expert_ids, Tensor expert_weights, Tensor? w_gate_up_scale, "
    "Tensor? w_down_scale, int max_tokens, int micro_batches, int block, str group_name) -> Tensor", overlapped,
    Contract("moe_overlapped", "x: any (tokens, hidden)", "-> out: =x (tokens, hidden)"))


__all__ = ["MOE_OVERLAPPED", "Overlap", "chosen_for", "overlapped"]
