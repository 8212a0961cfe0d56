"""`mimw.ops.distributed.moe_experts`: what this rank's experts make of rows that lie where they have come, read by their numbers.

Input: what `moe_dispatch_rows` gives, and the matrices of this rank's experts. Output: a row for each number. For example:

    rows, _, sources, experts, ends, handle = moe_dispatch_rows(x, expert_ids, 256, block=BLOCK)
    y = moe_experts(rows, sources, experts, ends, w_gate_up, w_down)
    out = moe_combine(y, handle, weights)
    torch.ops.mimw.moe_experts(rows, sources, experts, ends, w_gate_up, w_down)         the operator itself
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mimw.kernels.moe import Configuration, product
from mimw.kernels.moe.gathered import BM as BLOCK
from mimw.kernels.moe.gathered import gathered_product

from ..grouped_matmul import GROUPED
from ..launching import Launch, is_exact, is_hopper, programs
from ..operator import Operator
from ..plans import Plans, look
from ..products import rows_for_tma
from ..swiglu import SWIGLU

TYPES = (torch.bfloat16, torch.float16, torch.float32)


def moe_experts(rows: Tensor, sources: Tensor, experts: Tensor, ends: Tensor, w_gate_up: Tensor, w_down: Tensor) -> Tensor:
    """y[i] = w_down[e] (silu(gate) up), where e is the expert in whose list place i is, and gate and up are the halves of
    w_gate_up[e] rows[sources[i]].

    args:      rows, sources, experts, ends    of `moe_dispatch_rows` with blocks of BLOCK; bf16, fp16 or fp32
               w_gate_up       (experts of this rank, 2 inner, hidden) of rows' type, gates first
               w_down          (experts of this rank, hidden, inner) of rows' type
    returns:   (as many as `sources` numbers, or up to a block more; hidden) of rows' type. What is behind the last list, or is the
               filling of one, is of no use
    computed:  on sm_90 in two launches, `mimw.kernels.moe.gathered` and `mimw.kernels.moe`, where TMA can read the matrices; rows
               by expert, gate and up are never written. Else, and for fp32 while torch.get_float32_matmul_precision() is "highest",
               by `grouped_matmul` of gathered rows. Nothing waits for the device
    gradients  none
    errors:    RuntimeError where extents, types or devices do not fit; NotImplementedError for other types
    """
    return MOE_EXPERTS(rows, sources, experts, ends, w_gate_up, w_down)


def _checked(rows: Tensor, sources: Tensor, experts: Tensor, ends: Tensor, w_gate_up: Tensor, w_down: Tensor) -> None:
    given = dict(rows=(rows, 2), sources=(sources, 1), experts=(experts, 1), ends=(ends, 1), w_gate_up=(w_gate_up, 3),
                 w_down=(w_down, 3))
    for name, (tensor, rank) in given.items():
        if tensor.dim() != rank or tensor.device != rows.device:
            raise RuntimeError(f"moe_experts: {name} is {tuple(tensor.shape)} on {tensor.device}; it must have {rank} dimensions, "
                               f"and all must be on one device, {rows.device} of rows")
        if tensor.dtype != (torch.int32 if rank == 1 else rows.dtype) or rows.dtype not in TYPES:
            raise NotImplementedError(f"moe_experts: {name} is {tensor.dtype}; lists are torch.int32, and rows and matrices of one "
                                      f"type: {', '.join(map(str, TYPES))}")
    count, hidden, inner = w_down.shape
    torch._check(rows.shape[1] == hidden and tuple(w_gate_up.shape) == (count, 2 * inner, hidden) and ends.shape[0] == count
                 and experts.shape[0] == -(-sources.shape[0] // BLOCK),
                 lambda: f"moe_experts: rows are {tuple(rows.shape)}, {sources.shape[0]} numbers of {experts.shape[0]} blocks and "
                         f"{ends.shape[0]} lists, w_gate_up {tuple(w_gate_up.shape)} and w_down {tuple(w_down.shape)}; they must "
                         f"be (rows, hidden), in blocks of {BLOCK}, a list for each expert, (experts, 2 inner, hidden) and "
                         "(experts, hidden, inner)")


def _fake(rows: Tensor, sources: Tensor, experts: Tensor, ends: Tensor, w_gate_up: Tensor, w_down: Tensor) -> Tensor:
    _checked(rows, sources, experts, ends, w_gate_up, w_down)
    return rows.new_empty(experts.shape[0] * BLOCK, rows.shape[1])


def _run(rows: Tensor, sources: Tensor, experts: Tensor, ends: Tensor, w_gate_up: Tensor, w_down: Tensor) -> Tensor:
    given, exact = (rows, sources, experts, ends, w_gate_up, w_down), is_exact(rows)
    key = *map(look, given), exact
    return (_PLANS[key] or _PLANS.made(key, *given, exact))(*given)


def _plan(rows: Tensor, sources: Tensor, experts: Tensor, ends: Tensor, w_gate_up: Tensor, w_down: Tensor, exact: bool) -> Callable:
    given = rows, sources, experts, ends, w_gate_up, w_down
    _checked(*given)
    (_, hidden, inner), size = w_down.shape, rows.itemsize
    if 0 in (rows.numel(), sources.numel(), inner):
        return lambda rows, sources, experts, *_: rows.new_zeros(experts.shape[0] * BLOCK, hidden)
    aligned = rows_for_tma(w_gate_up) and rows_for_tma(w_down) and hidden * size % 16 == inner * size % 16 == 0
    if exact or not is_hopper(rows) or not aligned or not all(one.is_contiguous() for one in given[:4]):
        return composed
    places, multiprocessors = experts.shape[0] * BLOCK, programs(rows)
    held, y = rows.new_empty(places, inner), rows.new_empty(places, hidden)
    first = gathered_product(rows, w_gate_up, held, sources, experts, ends[-1:], multiprocessors)
    second = product(held, w_down, y, sources, experts, ends[-1:], 1, hidden, sources.shape[0], multiprocessors, Configuration(),
                     False, False)
    launches = [Launch(rows, *one) for one in (first, second)]
    del held, y

    def plan(rows: Tensor, sources: Tensor, experts: Tensor, ends: Tensor, w_gate_up: Tensor, w_down: Tensor) -> Tensor:
        held, y, total = rows.new_empty(places, inner), rows.new_empty(places, hidden), ends[-1:]
        launches[0](rows, w_gate_up, held, sources, experts, total)
        launches[1](held, w_down, y, sources, experts, total)
        return y

    return plan


_PLANS = Plans(_plan)


def composed(rows: Tensor, sources: Tensor, experts: Tensor, ends: Tensor, w_gate_up: Tensor, w_down: Tensor) -> Tensor:
    """The same by operators of the parts."""
    gate, up = GROUPED(rows.index_select(0, sources.clamp(0, len(rows) - 1)), w_gate_up.mT, ends, None).chunk(2, 1)
    y = GROUPED(SWIGLU(gate, up), w_down.mT, ends, None)
    return torch.nn.functional.pad(y, (0, 0, 0, experts.shape[0] * BLOCK - len(y)))


MOE_EXPERTS = Operator("moe_experts(Tensor rows, Tensor sources, Tensor experts, Tensor ends, Tensor w_gate_up, Tensor w_down) "
                       "-> Tensor", _run, _fake)


__all__ = ["BLOCK", "MOE_EXPERTS", "moe_experts"]
