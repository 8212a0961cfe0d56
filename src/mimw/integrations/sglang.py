"""SGLang's layers over `mimw.ops`: RMS norm, SwiGLU, rotary embedding, by hooks around their methods for CUDA.

Input: SGLang 0.5.23 on an NVIDIA GPU; the variable MIMW_SGLANG. Output: hooks in SGLang's registry. For example:

    MIMW_SGLANG=rms_norm python -m sglang.launch_server ...     after `pip install mimw-sglang`, whose entry point calls:
    mimw.integrations.sglang.register()                         ["rms_norm"]
"""

from __future__ import annotations

from importlib.metadata import version

from . import serving

OFFERED = ("rms_norm", "silu_and_mul", "rotary")
VERSION = "0.5.23"
_LAYERS = "sglang.srt.layers."
_DONE: set[str] = set()


class UnreadVersion(ImportError):
    """SGLang has another version than the one whose layers were read."""


def rms_norm(original, self, x, residual=None, post_residual_addition=None, quant_linear=None):
    """RMSNorm.forward_cuda: with a residual two new tensors, as SGLang's native function returns them."""
    weight = self.weight.data if self.has_weight else None
    reason = ("x has no elements" if x.numel() == 0 else
              "a quantisation is fused into the norm" if quant_linear is not None or self._quant_linear is not None else
              "x is rounded before the product with the weight" if self.cast_x_before_out_mul else
              "the residual or the result has a type of its own" if self.fp32_residual or self.override_orig_dtype else
              "results are to be the same in every batch" if _batch_invariant() else
              serving.norm_reason(x, weight, residual, self.variance_size_override))
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


def _batch_invariant() -> bool:
    from sglang.srt.layers import layernorm
    return layernorm.is_batch_invariant_mode_enabled()


_HOOKS = {"rms_norm": ("layernorm.RMSNorm.forward_cuda", rms_norm),
          "silu_and_mul": ("activation.SiluAndMul.forward_cuda", silu_and_mul),
          "rotary": ("rotary_embedding.base.RotaryEmbedding.forward_cuda", rotary)}


def register() -> list[str]:
    """Register the hooks that MIMW_SGLANG names (by default all); a second call in a process registers nothing more.

    returns:   the names of what is registered by now
    errors:    UnreadVersion for another SGLang than 0.5.23; mimw.integrations.serving.UnknownSwitch for a name not in OFFERED
    """
    names = [one for one in OFFERED if one in serving.chosen("MIMW_SGLANG", OFFERED)]
    if not names:
        return names
    if (found := version("sglang")) != VERSION:
        raise UnreadVersion(f"mimw's hooks are for SGLang {VERSION}, and this is SGLang {found}. Install that, "
                            "or set MIMW_SGLANG=none")
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType
    for name in names:
        if name not in _DONE:
            HookRegistry.register(_LAYERS + _HOOKS[name][0], _HOOKS[name][1], HookType.AROUND)
            _DONE.add(name)
    return names


__all__ = ["OFFERED", "UnreadVersion", "register", "rms_norm", "rotary", "silu_and_mul"]
