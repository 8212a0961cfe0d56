"""vLLM's layers over `mimw.ops`: RMS norm, SwiGLU, rotary embedding, fp8 products with scales of blocks.

Input: vLLM 0.33 on an NVIDIA GPU; the variable MIMW_VLLM. Output: vLLM's registries name subclasses that call mimw. For example:

    MIMW_VLLM=rms_norm,rotary vllm serve MODEL          after `pip install mimw-vllm`, whose entry point calls:
    mimw.integrations.vllm.register()                   ["rms_norm", "rotary"]
"""

from __future__ import annotations

from importlib.metadata import version

from . import serving

OFFERED = ("rms_norm", "silu_and_mul", "rotary", "fp8_block")
VERSION = "0.33."


class UnreadVersion(ImportError):
    """vLLM has another version than the one whose registries were read."""


def register() -> list[str]:
    """Register the layers that MIMW_VLLM names (by default all); a second call in a process registers nothing more.

    returns:   the names of what is registered by now
    errors:    UnreadVersion for another vLLM than 0.33; mimw.integrations.serving.UnknownSwitch for a name not in OFFERED
    """
    names = [one for one in OFFERED if one in serving.chosen("MIMW_VLLM", OFFERED)]
    if names and not (found := version("vllm")).startswith(VERSION):
        raise UnreadVersion(f"mimw's layers are for vLLM {VERSION}*, and this is vLLM {found}. Install that, or set MIMW_VLLM=none")
    for name in names:
        if name not in _DONE:
            _REGISTER[name]()
            _DONE.add(name)
    return names


def _out_of_tree(base: type, layer: type) -> None:
    """Make vLLM build `layer` where it would build `base`; the name stays, so that custom_ops=["+rms_norm"] switches both."""
    base.register_oot(layer, name=base.__name__)
    layer.name = base.name


def _rms_norm() -> None:
    from vllm import envs
    from vllm.model_executor.layers.layernorm import RMSNorm

    class MimwRMSNorm(RMSNorm):
        """vLLM's RMSNorm; with a residual it returns two new tensors, as vLLM's native function does."""

        def forward_cuda(self, x, residual=None):
            passed = self.pass_weight if residual is None else self.pass_weight_add
            weight = self.weight.data if passed else None
            reason = ("results are to be the same in every batch" if envs.VLLM_BATCH_INVARIANT else
                      serving.norm_reason(x, weight, residual, self.variance_size_override))
            if not serving.taken("rms_norm", reason):
                return super().forward_cuda(x, residual)
            return serving.norm(x, weight, self.variance_epsilon, residual)

    _out_of_tree(RMSNorm, MimwRMSNorm)


def _silu_and_mul() -> None:
    from vllm.model_executor.layers.activation import SiluAndMul

    class MimwSiluAndMul(SiluAndMul):
        """vLLM's SiluAndMul."""

        def forward_cuda(self, x):
            if not serving.taken("silu_and_mul", serving.halves_reason(x)):
                return super().forward_cuda(x)
            return serving.silu_and_mul(x)

    _out_of_tree(SiluAndMul, MimwSiluAndMul)


def _rotary() -> None:
    from vllm.model_executor.layers.rotary_embedding.base import RotaryEmbedding

    class MimwRotaryEmbedding(RotaryEmbedding):
        """vLLM's RotaryEmbedding, in place as its kernel; subclasses of vLLM's (YaRN, mrope) stay as they are."""

        def forward_cuda(self, positions, query, key=None):
            cache = self._match_cos_sin_cache_dtype(query)
            if not serving.taken("rotary", serving.rotary_reason(query, key, cache)):
                return super().forward_cuda(positions, query, key)
            serving.rotate_(positions, query, key, self.head_size, cache, self.is_neox_style)
            return query, key

    _out_of_tree(RotaryEmbedding, MimwRotaryEmbedding)


def _fp8_block() -> None:
    from vllm.model_executor.kernels import linear
    from vllm.model_executor.kernels.linear.scaled_mm.BlockScaledMMLinearKernel import Fp8BlockScaledMMLinearKernel
    from vllm.platforms import PlatformEnum, current_platform

    class MimwFp8BlockScaledMMKernel(Fp8BlockScaledMMLinearKernel):
        """Products of fp8 matrices with scales of 1 x 128 and 128 x 128 on sm_90."""

        @classmethod
        def is_supported(cls, compute_capability=None):
            if not current_platform.is_cuda():
                return False, "it is for NVIDIA GPUs"
            if compute_capability is None:
                found = current_platform.get_device_capability()
                compute_capability = None if found is None else found.to_int()
            return (True, None) if compute_capability == 90 else (False, "one launch computes it on sm_90 only")

        @classmethod
        def can_implement(cls, config):
            takes, reason = super().can_implement(config)
            groups = (tuple(key.scale.group_shape) for key in (config.activation_quant_key, config.weight_quant_key))
            if takes and tuple(groups) != ((1, 128), (128, 128)):
                return False, "scales must be of 1 x 128 and 128 x 128 elements"
            return takes, reason

        def apply_block_scaled_mm(self, A, B, As, Bs):
            return serving.block_scaled_mm(A, B, As, Bs, self.config.out_dtype)

    linear.register_linear_kernel(MimwFp8BlockScaledMMKernel, PlatformEnum.CUDA, "fp8_block")
    # vLLM takes the first kernel of the list that fits, and its function can only append.
    kernels = linear._POSSIBLE_FP8_BLOCK_KERNELS[PlatformEnum.CUDA]
    kernels.insert(0, kernels.pop())


_DONE: set[str] = set()
_REGISTER = {"rms_norm": _rms_norm, "silu_and_mul": _silu_and_mul, "rotary": _rotary, "fp8_block": _fp8_block}

__all__ = ["OFFERED", "UnreadVersion", "register"]
