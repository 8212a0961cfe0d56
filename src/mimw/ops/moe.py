"""`mimw.ops.moe`: a mixture of experts as one call: rows sorted by expert, both products, SwiGLU between, the weighted sum.

Input: tokens, the experts' matrices, and for each token its experts and their weights. Output: a row for each token. For example:

    weights, ids = router(x).topk(2)
    y = moe(x, w_gate_up, w_down, ids, weights.softmax(-1))     w_gate_up (E, 2 inner, hidden), w_down (E, hidden, inner)
    torch.ops.mimw.moe(x, w_gate_up, w_down, ids, weights)      the operator itself; with scales it is mimw::moe_scaled
"""

from __future__ import annotations

from torch import Tensor

from .experts import MOE
from .experts_scaled import MOE_SCALED


def moe(x: Tensor, w_gate_up: Tensor, w_down: Tensor, expert_ids: Tensor, expert_weights: Tensor, *,
        w_gate_up_scale: Tensor | None = None, w_down_scale: Tensor | None = None, activation: str = "swiglu") -> Tensor:
    """out[t] = sum over j of expert_weights[t, j] w_down[e] (silu(gate) up), where e = expert_ids[t, j] and gate and up are the
    halves of w_gate_up[e] x[t].

    args:      x               (tokens, hidden): bf16, fp16 or fp32, any strides
               w_gate_up       (experts, 2 inner, hidden) of x's type, any strides: the rows of the gate, then those of up
               w_down          (experts, hidden, inner) of x's type, any strides
                               Or both fp8, e4m3 or e5m2, inner a multiple of 128, with scales:
               w_gate_up_scale, w_down_scale   fp32, what each 128 x 128 of them counts: (experts, 2 inner / 128, cdiv(hidden, 128))
                               and (experts, cdiv(hidden, 128), inner / 128). Tokens and inner rows are then quantised on the way
                               to the matrices' type, with a scale for each 128 numbers
               expert_ids      (tokens, k), int32 or int64, as torch.topk gives them: from 0 to experts - 1, which is not checked,
                               since that would wait for the device. An expert may have no token, or all; a token one expert twice
               expert_weights  (tokens, k): bf16, fp16 or fp32
               activation      "swiglu", the only one
    returns:   (tokens, hidden) of x's type, contiguous; the same bits every time
    computed:  on sm_90 by `mimw.kernels.moe` in four to six launches, where TMA can read the matrices (rows multiples of 16
               bytes) and experts are at most 1024. Nothing waits for the device, so a call can be captured. Gate and up are never
               written; between the products rows are of x's type, sums are fp32, and a token's experts are added up in the order
               of j. Else, and for fp32 while torch.get_float32_matmul_precision() is "highest", by `mimw.ops.grouped_matmul`,
               which then may wait for the sizes of groups
    gradients  none of fp8; the first ones of x, w_gate_up, w_down and expert_weights, by `grouped_matmul` and `swiglu`: the
               arguments alone are kept, so the first product is computed again. Those of the matrices wait for the sizes of groups
    errors:    RuntimeError where extents, types or devices do not fit; NotImplementedError for other types and activations
    """
    if w_gate_up_scale is not None or w_down_scale is not None:
        if w_gate_up_scale is None or w_down_scale is None:
            raise RuntimeError("moe: w_gate_up_scale and w_down_scale belong together; one of them is missing")
        return MOE_SCALED(x, w_gate_up, w_down, expert_ids, expert_weights, w_gate_up_scale, w_down_scale, activation)
    return MOE(x, w_gate_up, w_down, expert_ids, expert_weights, activation)
