"""`mimw.ops.distributed.moe`: a mixture of experts whose experts are spread over the GPUs of a group, each token staying where it
is.

Input: at each rank its tokens, the matrices of its experts, and its tokens' experts and weights. Output: a row for each token. For
example:

    w_gate_up, w_down                       (experts / ranks, 2 inner, hidden) and (experts / ranks, hidden, inner): this rank's
    y = moe(x, w_gate_up, w_down, expert_ids, weights)          as `mimw.ops.moe` of all experts' matrices on one GPU

It is made of operators: `moe_dispatch`, `moe_experts`, `moe_combine`.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from .moe_combine import moe_combine
from .moe_dispatch import moe_dispatch, world_of
from .moe_experts import block_of, moe_experts


def moe(x: Tensor, w_gate_up: Tensor, w_down: Tensor, expert_ids: Tensor, expert_weights: Tensor, *, max_tokens: int | None = None,
        group: Any = None) -> Tensor:
    """out[t] = sum over j of expert_weights[t, j] w_down[e] (silu(gate) up), where e = expert_ids[t, j] and gate and up are the
    halves of w_gate_up[e] x[t]; rank r has the experts r num_experts / ranks and on. All ranks call it.

    args:      x               (tokens, hidden): bf16, fp16 or fp32; another number of tokens at each rank is allowed
               w_gate_up       (experts / ranks, 2 inner, hidden) of x's type: those of this rank, gates first
               w_down          (experts / ranks, hidden, inner) of x's type
               expert_ids      (tokens, k), int32 or int64, numbers of all ranks' experts; others, as -1, are no choice
               expert_weights  (tokens, k): bf16, fp16 or fp32
               max_tokens      the most that any rank has, the same at all ranks; by default x's
               group           a process group, its name, or None for the default one
    returns:   (tokens, hidden) of x's type; the same bits every time, in the order of sums that `moe_combine` says
    computed:  for each choice that a rank may get, ranks * max_tokens * k in all, there is room of 2 hidden + inner
               elements, and as much to fill up the rows of each expert to blocks of 16 to 128; products are computed of the blocks
               that are there. Nothing waits for the device, so a call can be captured
    gradients  none
    errors:    RuntimeError where extents, types or devices do not fit; NotImplementedError for other types and GPUs
    """
    if w_down.dim() != 3 or tuple(w_gate_up.shape[:2]) != (w_down.shape[0], 2 * w_down.shape[2]):
        raise RuntimeError(f"moe: w_gate_up is {tuple(w_gate_up.shape)} and w_down {tuple(w_down.shape)}; they must be (experts of "
                           "this rank, 2 inner, hidden) and (experts of this rank, hidden, inner)")
    local, most = w_down.shape[0], x.shape[0] if max_tokens is None else max_tokens
    block = block_of(most * expert_ids.shape[-1], max(1, local))      # a rank's share of the choices of all
    experts = local * world_of(group).size
    rows, ends, _, handle = moe_dispatch(x, expert_ids, experts, max_tokens=max_tokens, block=block, group=group)
    return moe_combine(moe_experts(rows, ends, w_gate_up, w_down, block), handle, expert_weights, group)


__all__ = ["moe"]
