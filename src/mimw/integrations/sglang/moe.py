"""A hook around SGLang's Triton experts, by `ops.moe`: of bf16 and fp16, and of fp8 with a scale for each 128 x 128.

Input: what `fused_experts` gets. Output: its result, in place where SGLang's is. For example:

    fused_experts(original, x, w1, w2, topk_output, config)         by ops.moe, or original(...) and a reason in the log
"""

from __future__ import annotations

from mimw.integrations import experts, serving
from mimw.integrations.contracts import names_of

from . import modes

_TRITON = "sglang.srt.layers.moe.moe_runner.triton_utils.fused_moe"
STANDS_ON = (
    *names_of(f"{_TRITON}:", "fused_experts"),
    *names_of("sglang.srt.layers.moe.moe_runner.base:MoeRunnerConfig", "num_experts", "num_local_experts", "activation", "is_gated",
              "apply_router_weight_on_input", "inplace", "no_combine", "routed_scaling_factor", "gemm1_alpha", "gemm1_clamp_limit",
              "swiglu_limit"))


def fused_experts(original, hidden_states, w1, w2, topk_output, moe_runner_config, b1=None, b2=None, use_fp8_w8a8=False,
                  use_int8_w8a8=False, use_int8_w8a16=False, use_int4_w4a16=False, per_channel_quant=False, w1_scale=None,
                  w2_scale=None, w1_zp=None, w2_zp=None, a1_scale=None, a2_scale=None, block_shape=None, a1_q=None,
                  fuse_swiglu_interleaved=False):
    """fused_experts of SGLang's Triton runner."""
    config = moe_runner_config
    limits = config.gemm1_alpha, config.gemm1_clamp_limit, config.swiglu_limit
    reason = modes.reason(hidden_states, sm_90=True) or (
        f"the activation is {config.activation}, limits {limits}, gated {config.is_gated}; ops.moe has silu(gate) up"
        if config.activation != "silu" or not config.is_gated or limits != (None, None, None) else
        "experts are spread over GPUs" if config.num_experts is None or config.num_experts != config.num_local_experts else
        "experts have biases" if b1 is not None or b2 is not None else
        "weights count before the first product" if config.apply_router_weight_on_input else
        "the caller sums up" if config.no_combine else
        "matrices are of integers, or scales are for channels" if use_int8_w8a8 or use_int8_w8a16 or use_int4_w4a16
        or per_channel_quant or w1_zp is not None or w2_zp is not None else
        "tokens are quantised already" if a1_q is not None or a1_scale is not None or a2_scale is not None else
        "rows of the gate and of up alternate" if fuse_swiglu_interleaved else
        f"a scale is for {block_shape} of a matrix" if use_fp8_w8a8 and list(block_shape or ()) != [experts.BLOCK] * 2 else
        experts.reason(hidden_states, w1, w2, w1_scale, w2_scale))
    if not serving.taken("moe", reason):
        return original(hidden_states, w1, w2, topk_output, moe_runner_config, b1, b2, use_fp8_w8a8, use_int8_w8a8, use_int8_w8a16,
                        use_int4_w4a16, per_channel_quant, w1_scale, w2_scale, w1_zp, w2_zp, a1_scale, a2_scale, block_shape, a1_q,
                        fuse_swiglu_interleaved)
    weights, ids, _ = topk_output
    if config.routed_scaling_factor is not None:
        weights = weights * config.routed_scaling_factor
    found = experts.routed(hidden_states, w1, w2, ids, weights, w1_scale, w2_scale)
    return hidden_states.copy_(found) if config.inplace else found


HOOKS = {"moe": {f"{_TRITON}.fused_experts": fused_experts}}

__all__ = ["HOOKS", "STANDS_ON", "fused_experts"]
