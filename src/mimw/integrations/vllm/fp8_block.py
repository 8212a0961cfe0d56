"""vLLM's products of fp8 matrices with scales for each 128 numbers, over `mimw.ops.scaled_mm`.

Input: vLLM 0.33. Output: our kernel stands first in its list of kernels for such layers. For example:

    fp8_block.register()
    LinearBase.forward(x)                   by ops.scaled_mm, on sm_90, where scales are of 1 x 128 and 128 x 128
"""

from __future__ import annotations

from mimw.integrations import serving
from mimw.integrations.contracts import names_of

_LIST = "vllm.model_executor.kernels.linear"
_KERNEL = f"{_LIST}.scaled_mm.BlockScaledMMLinearKernel:Fp8BlockScaledMMLinearKernel"
STANDS_ON = (*names_of(_KERNEL, "can_implement", "apply_block_scaled_mm", "apply_input_quant"),
             *names_of(f"{_LIST}.base:MMLinearKernel", "is_supported", "config"),
             *names_of(f"{_LIST}.scaled_mm.ScaledMMLinearKernel:FP8ScaledMMLinearLayerConfig", "activation_quant_key",
                       "weight_quant_key", "out_dtype"),
             *names_of(f"{_LIST}:", "register_linear_kernel", "_POSSIBLE_FP8_BLOCK_KERNELS"),
             *names_of("vllm.platforms.interface:PlatformEnum", "CUDA"),
             *names_of("vllm.platforms.interface:Platform", "is_cuda", "get_device_capability"))


def register() -> None:
    """Put our kernel in front of vLLM's."""
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


__all__ = ["STANDS_ON", "register"]
