"""vLLM's SiluAndMul over `mimw.ops.swiglu`.

Input: vLLM 0.33. Output: its registry builds our subclass. For example:

    silu_and_mul.register()
    SiluAndMul()(x)                         by ops.swiglu, where custom_ops enables silu_and_mul
"""

from __future__ import annotations

from mimw.integrations import serving
from mimw.integrations.contracts import names_of

from . import out_of_tree

STANDS_ON = (*out_of_tree.STANDS_ON,
             *names_of("vllm.model_executor.layers.activation:SiluAndMul", "forward_cuda", "forward_native"))


def register() -> None:
    """Have vLLM build our activation for its own."""
    from vllm.model_executor.layers.activation import SiluAndMul

    class MimwSiluAndMul(SiluAndMul):
        """vLLM's SiluAndMul."""

        def forward_cuda(self, x):
            if not serving.taken("silu_and_mul", serving.halves_reason(x)):
                return super().forward_cuda(x)
            return serving.silu_and_mul(x)

    out_of_tree.replace(SiluAndMul, MimwSiluAndMul)


__all__ = ["STANDS_ON", "register"]
