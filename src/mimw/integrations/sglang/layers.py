"""Hooks around SGLang's RMSNorm, SiluAndMul and RotaryEmbedding, by `ops.rms_norm`, `ops.swiglu` and `ops.rope`.

Input: what the methods for CUDA get, with the method itself in front. Output: what they return. For example:

    rms_norm(original, layer, x)            by ops.rms_norm, or original(layer, x, ...) and a reason in the log
"""

from __future__ import annotations

from mimw.integrations import serving
from mimw.integrations.contracts import names_of

from . import modes

_LAYERS = "sglang.srt.layers."
STANDS_ON = (
    *names_of(f"{_LAYERS}layernorm:RMSNorm", "forward_cuda", "weight", "has_weight", "_quant_linear", "cast_x_before_out_mul",
              "fp32_residual", "override_orig_dtype", "variance_size_override", "variance_epsilon"),
    *names_of(f"{_LAYERS}activation:SiluAndMul", "forward_cuda"),
    *names_of(f"{_LAYERS}rotary_embedding.base:RotaryEmbedding", "forward_cuda", "cos_sin_cache", "head_size", "is_neox_style"))


def rms_norm(original, self, x, residual=None, post_residual_addition=None, quant_linear=None):
    """RMSNorm.forward_cuda: with a residual two new tensors, as SGLang's native function returns them."""
    weight = self.weight.data if self.has_weight else None
    reason = ("x has no elements" if x.numel() == 0 else
              "a quantisation is fused into the norm" if quant_linear is not None or self._quant_linear is not None else
              "x is rounded before the product with the weight" if self.cast_x_before_out_mul else
              "the residual or the result has a type of its own" if self.fp32_residual or self.override_orig_dtype else
              modes.reason(x) or serving.norm_reason(x, weight, residual, self.variance_size_override))
    if not serving.taken("rms_norm", reason):
        return original(self, x, residual, post_residual_addition, quant_linear)
    if residual is not None and post_residual_addition is not None:
        residual = residual + post_residual_addition
    return serving.norm(x, weight, self.variance_epsilon, residual)


def silu_and_mul(original, self, x):
    """SiluAndMul.forward_cuda."""
    return serving.silu_and_mul(x) if serving.taken("silu_and_mul", serving.halves_reason(x)) else original(self, x)


def rotary(original, self, positions, query, key, offsets=None, fused_set_kv_buffer_arg=None):
    """RotaryEmbedding.forward_cuda, in place as SGLang's kernel."""
    cache = self.cos_sin_cache
    reason = ("keys are stored into the cache by the same launch" if fused_set_kv_buffer_arg is not None else
              "positions have offsets" if offsets is not None else serving.rotary_reason(query, key, cache))
    if not serving.taken("rotary", reason):
        return original(self, positions, query, key, offsets, fused_set_kv_buffer_arg)
    serving.rotate_(positions, query, key, self.head_size, cache, self.is_neox_style)
    return query, key


HOOKS = {"rms_norm": {f"{_LAYERS}layernorm.RMSNorm.forward_cuda": rms_norm},
         "silu_and_mul": {f"{_LAYERS}activation.SiluAndMul.forward_cuda": silu_and_mul},
         "rotary": {f"{_LAYERS}rotary_embedding.base.RotaryEmbedding.forward_cuda": rotary}}

__all__ = ["HOOKS", "STANDS_ON", "rms_norm", "rotary", "silu_and_mul"]
