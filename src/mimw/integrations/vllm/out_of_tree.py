"""A layer of ours in the place of one of vLLM's, by vLLM's registry of layers from outside its tree.

Input: vLLM's class and our subclass of it. Output: vLLM builds ours where it would build its own. For example:

    replace(RMSNorm, MimwRMSNorm)           RMSNorm(4096) is a MimwRMSNorm from here on
"""

from __future__ import annotations

STANDS_ON = ("vllm.model_executor.custom_op:CustomOp.register_oot", "vllm.model_executor.custom_op:CustomOp.dispatch_forward")


def replace(base: type, layer: type) -> None:
    """Make vLLM build `layer` where it would build `base`; the name stays, so that custom_ops=["+rms_norm"] switches both."""
    base.register_oot(layer, name=base.__name__)
    layer.name = base.name


__all__ = ["STANDS_ON", "replace"]
