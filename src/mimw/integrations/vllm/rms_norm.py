"""vLLM's RMSNorm over `mimw.ops.rms_norm`.

Input: vLLM 0.33. Output: its registry builds our subclass. For example:

    rms_norm.register()
    RMSNorm(4096)(x, residual)              by ops.rms_norm, where custom_ops enables rms_norm
"""

from __future__ import annotations

from mimw.integrations import serving
from mimw.integrations.contracts import names_of

from . import out_of_tree

STANDS_ON = (*out_of_tree.STANDS_ON, *names_of("vllm.envs:", "VLLM_BATCH_INVARIANT"),
             *names_of("vllm.model_executor.layers.layernorm:RMSNorm", "forward_cuda", "forward_native", "weight", "pass_weight",
                       "pass_weight_add", "variance_epsilon", "variance_size_override"))


def register() -> None:
    """Have vLLM build our norm for its own."""
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

    out_of_tree.replace(RMSNorm, MimwRMSNorm)


__all__ = ["STANDS_ON", "register"]
