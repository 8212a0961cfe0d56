"""`mimw.ops.distributed.moe`: a mixture of experts whose experts are spread over the GPUs of a group, each token staying where it
is.

Input: at each rank its tokens, the matrices of its experts, and its tokens' experts and weights. Output: a row for each token. For
example:

    w_gate_up, w_down                       (experts / ranks, 2 inner, hidden) and (experts / ranks, hidden, inner): this rank's
    y = moe(x, w_gate_up, w_down, expert_ids, weights)          as `mimw.ops.moe` of all experts' matrices on one GPU

It is made of operators: `moe_dispatch`, two times `grouped_matmul` with `swiglu` between, `moe_combine`.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..grouped_matmul import grouped_matmul
from ..swiglu import swiglu
from .moe_combine import moe_combine
from .moe_dispatch import moe_dispatch, world_of


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
    computed:  for each choice that a rank may get, ranks * max_tokens * k in all, there is room of hidden + 4 inner + hidden
               elements; products are computed of the rows that are there. Nothing waits for the device, so a call can be captured
    gradients  none
    errors:    RuntimeError where extents, types or devices do not fit; NotImplementedError for other types and GPUs
    """
    if w_down.dim() != 3 or tuple(w_gate_up.shape[:2]) != (w_down.shape[0], 2 * w_down.shape[2]):
        raise RuntimeError(f"moe: w_gate_up is {tuple(w_gate_up.shape)} and w_down {tuple(w_down.shape)}; they must be (experts of "
                           "this rank, 2 inner, hidden) and (experts of this rank, hidden, inner)")
    experts = w_down.shape[0] * world_of(group).size
    rows, ends, _, handle = moe_dispatch(x, expert_ids, experts, max_tokens=max_tokens, group=group)
    gate, up = grouped_matmul(rows, w_gate_up.mT, ends).chunk(2, 1)
    return moe_combine(grouped_matmul(swiglu(gate, up), w_down.mT, ends), handle, expert_weights, group)


__all__ = ["moe"]
