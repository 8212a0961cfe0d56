"""vLLM's RotaryEmbedding over `mimw.ops.rope`.

Input: vLLM 0.33. Output: its registry builds our subclass. For example:

    rotary.register()
    RotaryEmbedding(...)(positions, query, key)     in place by ops.rope, where custom_ops enables rotary_embedding
"""

from __future__ import annotations

from mimw.integrations import serving
from mimw.integrations.contracts import names_of

from . import out_of_tree

_LAYERS = "vllm.model_executor.layers.rotary_embedding.base:"
STANDS_ON = (*out_of_tree.STANDS_ON, *names_of(f"{_LAYERS}RotaryEmbedding", "forward_cuda", "forward_native"),
             *names_of(f"{_LAYERS}RotaryEmbeddingBase", "_match_cos_sin_cache_dtype", "head_size", "is_neox_style"))


def register() -> None:
    """Have vLLM build our embedding for its own."""
    from vllm.model_executor.layers.rotary_embedding.base import RotaryEmbedding

    class MimwRotaryEmbedding(RotaryEmbedding):
        """vLLM's RotaryEmbedding, in place as its kernel; subclasses of vLLM's (YaRN, mrope) stay as they are."""

        def forward_cuda(self, positions, query, key=None):
            cache = self._match_cos_sin_cache_dtype(query)
            if not serving.taken("rotary", serving.rotary_reason(query, key, cache)):
                return super().forward_cuda(positions, query, key)
            serving.rotate_(positions, query, key, self.head_size, cache, self.is_neox_style)
            return query, key

    out_of_tree.replace(RotaryEmbedding, MimwRotaryEmbedding)


__all__ = ["STANDS_ON", "register"]
