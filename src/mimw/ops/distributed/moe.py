"""`mimw.ops.distributed.moe`: a mixture of experts whose experts are spread over the GPUs of a group, each token staying where it
is.

Input: at each rank its tokens, the matrices of its experts, and its tokens' experts and weights. Output: a row for each token. For
example:

    w_gate_up, w_down                       (experts / ranks, 2 inner, hidden) and (experts / ranks, hidden, inner): this rank's
    y = moe(x, w_gate_up, w_down, expert_ids, weights)          as `mimw.ops.moe` of all experts' matrices on one GPU
    y = moe(x, w_gate_up, w_down, expert_ids, weights, w_gate_up_scale=gate_up_scale, w_down_scale=down_scale, micro_batches=2)

It is made of operators: `moe_dispatch`, `moe_experts`, `moe_combine`; moe_overlap.py puts those of several micro-batches on two
streams.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..contract import Contract
from ..experts_scaled import SCALES, TENSORS
from ..plans import Plans, look
from .launching import name_of, world_of
from .moe_combine import moe_combine
from .moe_dispatch import moe_dispatch
from .moe_experts import block_of, moe_experts
from .moe_experts_scaled import MOE_QUANTISED
from .moe_overlap import MOE_OVERLAPPED


def moe(x: Tensor, w_gate_up: Tensor, w_down: Tensor, expert_ids: Tensor, expert_weights: Tensor, *,
        w_gate_up_scale: Tensor | None = None, w_down_scale: Tensor | None = None, max_tokens: int | None = None,
        micro_batches: int = 1, group: Any = None) -> Tensor:
    """out[t] = sum over j of expert_weights[t, j] w_down[e] (silu(gate) up), where e = expert_ids[t, j] and gate and up are the
    halves of w_gate_up[e] x[t]; rank r has the experts r num_experts / ranks and on. All ranks call it.

    args:      x               (tokens, hidden): bf16, fp16 or fp32; another number of tokens at each rank is allowed
               w_gate_up       (experts / ranks, 2 inner, hidden) of x's type: those of this rank, gates first
               w_down          (experts / ranks, hidden, inner) of x's type
                               Or both fp8, e4m3 or e5m2, inner a multiple of 128, with scales:
               w_gate_up_scale, w_down_scale   fp32, what each 128 x 128 of them counts: (experts / ranks, 2 inner / 128,
                               cdiv(hidden, 128)) and (experts / ranks, cdiv(hidden, 128), inner / 128). Tokens are then quantised
                               to the matrices' type, with a scale for each 128 numbers, before they go to other ranks: half the
                               bytes. So are inner rows. What comes back is of x's type
               expert_ids      (tokens, k), int32 or int64, numbers of all ranks' experts; others, as -1, are no choice
               expert_weights  (tokens, k): bf16, fp16 or fp32
               max_tokens      the most that any rank has, the same at all ranks; by default x's
               micro_batches   in how many parts tokens are taken, the first max_tokens / micro_batches of each rank's and so on,
                               the same number at all ranks. While the experts compute one part, the next one comes and the one
                               before goes back, by a stream of its own (`moe_overlap`). Each part reads all matrices, and fills
                               up blocks of its own: it pays where an expert has several blocks of rows in a part
               group           a process group, its name, or None for the default one
    returns:   (tokens, hidden) of x's type; the same bits every time, in the order of sums that `moe_combine` says, on sm_90 also
               with another number of micro-batches
    computed:  for each choice that a rank may get, ranks * max_tokens * k in all, there is room of 2 hidden + inner
               elements, and as much to fill up the rows of each expert to blocks of 16 to 128; products are computed of the blocks
               that are there. Nothing waits for the device, so a call can be captured
    gradients  none
    errors:    RuntimeError where extents, types or devices do not fit; NotImplementedError for other types and GPUs
    """
    scales = w_gate_up_scale, w_down_scale
    if (w_gate_up_scale is None) != (w_down_scale is None):
        raise RuntimeError("moe: w_gate_up_scale and w_down_scale belong together; one of them is missing")
    matrices = w_gate_up, w_down, *(one for one in scales if one is not None)
    key = *map(look, matrices),
    if key not in _SEEN:
        _SEEN.made(key, *matrices)
    if micro_batches < 1:
        raise RuntimeError(f"moe: {micro_batches} micro-batches; there is at least one")
    local, most = w_down.shape[0], x.shape[0] if max_tokens is None else max_tokens
    block = block_of(most * expert_ids.shape[-1], max(1, local))      # a rank's share of the choices of all
    if micro_batches > 1:
        return MOE_OVERLAPPED(x, w_gate_up, w_down, expert_ids, expert_weights, *scales, most, micro_batches, block, name_of(group))
    sent, scale = (x, None) if w_down_scale is None else MOE_QUANTISED(x, str(w_down.dtype).removeprefix("torch."))
    experts = local * world_of(group).size
    rows, ends, scale, handle = moe_dispatch(sent, expert_ids, experts, max_tokens=max_tokens, scale=scale, block=block,
                                             weights=expert_weights, group=group)
    of = {} if scale is None else dict(scale=scale, w_gate_up_scale=w_gate_up_scale, w_down_scale=w_down_scale, dtype=x.dtype)
    return moe_combine(moe_experts(rows, ends, w_gate_up, w_down, block, **of), handle, group=group)


def _checked(w_gate_up: Tensor, w_down: Tensor, *scales: Tensor) -> bool:
    """True, or an error, before anything travels."""
    contract = SCALED if scales else MATRICES
    contract.check(w_gate_up=w_gate_up, w_down=w_down, **dict(zip(("w_gate_up_scale", "w_down_scale"), scales)))
    return True


MATRICES = Contract("moe", "w_down: any (experts, hidden, inner)", "w_gate_up: any (experts, 2 * inner, hidden)")
SCALED = Contract("moe", *TENSORS, *SCALES)
_SEEN = Plans(_checked)     # matrices that fit each other


__all__ = ["moe"]
