"""vLLM's routed experts over `mimw.ops.moe`: of bf16 and fp16, and of fp8 with a scale for each 128 x 128.

Input: vLLM 0.33. Output: layers for which vLLM has chosen its Triton experts, as it does on sm_90, get ours. For example:

    moe.register()
    UnquantizedFusedMoEMethod(config).experts_cls       MimwExperts, or vLLM's TritonExperts and a reason in the log
    Fp8Config(...).get_quant_method(layer, prefix)      the same of fp8: vLLM's registry of quantisations gets our subclass

Ours is a subclass of TritonExperts, so weights lie as vLLM's load them, and a call that it does not take is computed by vLLM.
"""

from __future__ import annotations

from typing import Any

from mimw.integrations import experts, serving
from mimw.integrations.contracts import names_of

from . import out_of_tree

_MOE, _FP8 = "vllm.model_executor.layers.fused_moe.", "vllm.model_executor.layers.quantization.fp8:"
STANDS_ON = (
    *out_of_tree.STANDS_ON, *names_of(f"{_MOE}experts.triton_moe:TritonExperts", "apply", "expects_unquantized_inputs"),
    *names_of(f"{_MOE}experts.lora_experts_mixin:LoRAExpertsMixin", "_lora_context"),
    *names_of(f"{_MOE}modular_kernel:FusedMoEExperts", "w1_scale", "w2_scale", "w1_bias", "w2_bias", "quant_dtype",
              "activation_config", "_uses_post_gemm2_hook"),
    *names_of(f"{_MOE}activation:MoEActivation", "SILU"), *names_of(f"{_MOE}activation:ApplyMoEActivationConfig", "clamp_limit"),
    *names_of(f"{_MOE}config:FusedMoEConfig", "num_local_experts", "hidden_dim", "intermediate_size_per_partition", "in_dtype",
              "activation", "has_bias", "is_lora_enabled", "swiglu_limit", "moe_parallel_config", "is_act_and_mul"),
    *names_of(f"{_MOE}config:FusedMoEParallelConfig", "use_ep", "enable_eplb"),
    *names_of(f"{_MOE}unquantized_fused_moe_method:UnquantizedFusedMoEMethod", "__init__", "experts_cls", "_init_moe_kernel",
              "forward_cuda"),
    *names_of(f"{_MOE}fused_moe_method_base:FusedMoEMethodBase", "moe"), *names_of(f"{_FP8}Fp8Config", "get_quant_method"),
    *names_of(f"{_FP8}Fp8MoEMethod", "experts_cls", "moe_block_shape", "_init_moe_kernel"),
    *names_of("vllm.model_executor.layers.quantization:", "register_quantization_config"),
    *names_of("vllm.envs:", "VLLM_BATCH_INVARIANT"),
    *names_of("vllm.platforms.interface:Platform", "is_cuda", "get_device_capability"))


def layer_reason(config: Any, silu: object, block: list[int] | None = None, scaled: bool = False) -> str | None:
    """The reason why vLLM computes all calls of a layer with this FusedMoEConfig, or None; `silu` is vLLM's word for the
    activation, `block` the extents of what a scale of fp8 is for."""
    if config.moe_parallel_config.use_ep or config.moe_parallel_config.enable_eplb:
        return "experts are spread over GPUs"
    if config.is_lora_enabled:
        return "LoRA adds to the products"
    if config.has_bias:
        return "experts have biases"
    if config.activation != silu or not config.is_act_and_mul or config.swiglu_limit is not None:
        return f"the activation is {config.activation}, limit {config.swiglu_limit}; ops.moe has silu(gate) up"
    if config.in_dtype not in experts.TYPES:
        return f"tokens are {config.in_dtype}; experts take bf16 and fp16"
    if scaled and list(block or ()) != [experts.BLOCK] * 2:
        return f"a scale is for {block} of a matrix, not for {experts.BLOCK} x {experts.BLOCK}"
    return experts.sizes_reason(config.num_local_experts, config.hidden_dim, config.intermediate_size_per_partition, scaled)


def register() -> None:
    """Have vLLM build our experts for its Triton ones."""
    from vllm import envs
    from vllm.model_executor.layers.fused_moe.activation import MoEActivation
    from vllm.model_executor.layers.fused_moe.experts.triton_moe import TritonExperts
    from vllm.model_executor.layers.fused_moe.unquantized_fused_moe_method import UnquantizedFusedMoEMethod
    from vllm.model_executor.layers.quantization import register_quantization_config
    from vllm.model_executor.layers.quantization.fp8 import Fp8Config, Fp8MoEMethod
    from vllm.platforms import current_platform

    class MimwExperts(TritonExperts):
        """vLLM's TritonExperts; tokens come unquantised, since ops.moe quantises them on the way."""

        @property
        def expects_unquantized_inputs(self):
            return self.quant_dtype is not None

        def apply(self, output, hidden_states, w1, w2, topk_weights, topk_ids, activation, global_num_experts, expert_map,
                  a1q_scale, a2_scale, workspace13, workspace2, expert_tokens_meta, apply_router_weight_on_input):
            reason = (f"the activation is {activation}" if activation != MoEActivation.SILU else
                      "gates are limited" if self.activation_config.clamp_limit is not None else
                      "experts are mapped" if expert_map is not None else
                      "weights count before the first product" if apply_router_weight_on_input else
                      "experts have biases" if self.w1_bias is not None or self.w2_bias is not None else
                      "LoRA adds to the products" if self._lora_context is not None else
                      "another layer sums up" if self._uses_post_gemm2_hook(hidden_states.shape[0]) else
                      experts.reason(hidden_states, w1, w2, self.w1_scale, self.w2_scale))
            if not serving.taken("moe", reason):
                return super().apply(output, hidden_states, w1, w2, topk_weights, topk_ids, activation, global_num_experts,
                                     expert_map, a1q_scale, a2_scale, workspace13, workspace2, expert_tokens_meta,
                                     apply_router_weight_on_input)
            output.copy_(experts.routed(hidden_states, w1, w2, topk_ids, topk_weights, self.w1_scale, self.w2_scale))

    def ours(chosen: type | None, config: Any, **fp8: Any) -> type | None:
        capability = current_platform.get_device_capability() if current_platform.is_cuda() else None
        reason = (f"vLLM has chosen {getattr(chosen, '__name__', None)}" if chosen is not TritonExperts else
                  "the GPU is no sm_90" if capability is None or capability.to_int() != 90 else
                  "results are to be the same in every batch" if envs.VLLM_BATCH_INVARIANT else
                  layer_reason(config, MoEActivation.SILU, **fp8))
        return MimwExperts if serving.taken("moe", reason) else chosen

    class MimwUnquantizedFusedMoEMethod(UnquantizedFusedMoEMethod):
        """vLLM's method for experts of bf16 and fp16."""

        def __init__(self, moe):
            super().__init__(moe)
            self.experts_cls = ours(self.experts_cls, moe)

    class MimwFp8Config(Fp8Config):
        """vLLM's quantisation fp8."""

        def get_quant_method(self, layer, prefix):
            method = super().get_quant_method(layer, prefix)
            if isinstance(method, Fp8MoEMethod):
                method.experts_cls = ours(method.experts_cls, method.moe, block=method.moe_block_shape, scaled=True)
            return method

    out_of_tree.replace(UnquantizedFusedMoEMethod, MimwUnquantizedFusedMoEMethod)
    register_quantization_config("fp8")(MimwFp8Config)


__all__ = ["STANDS_ON", "layer_reason", "register"]
