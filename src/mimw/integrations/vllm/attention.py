"""vLLM's attention on pages over `mimw.ops.attention_decode` and `mimw.ops.attention_varlen`.

Input: vLLM 0.33. Output: its registry of backends has ours under the name CUSTOM, which a server asks for. For example:

    attention.register()
    vllm serve MODEL --attention-backend CUSTOM         layers of attention_backend.MimwAttentionBackend

vLLM refuses at the start, with the reasons that the backend gives, what it cannot compute: another GPU than sm_90, latent
attention, encoders, contexts spread over GPUs. Without the option nothing changes.
"""

from __future__ import annotations

from mimw.errors import MimwError
from mimw.integrations.contracts import names_of

BACKEND = "mimw.integrations.vllm.attention_backend.MimwAttentionBackend"
_ABSTRACT, _BACKENDS = "vllm.v1.attention.backend:", "vllm.v1.attention.backends."
_FLASH = f"{_BACKENDS}flash_attn:FlashAttention"
STANDS_ON = (*names_of(f"{_BACKENDS}registry:", "register_backend"),
             *names_of(f"{_BACKENDS}registry:AttentionBackendEnum", "CUSTOM", "is_overridden", "get_path"))
# Looked at when vLLM loads the backend: the module of FlashAttention reads vLLM's configuration when it is imported.
LATER = (
    *names_of(f"{_ABSTRACT}AttentionBackend", *(f"supports_{one}" for one in (
        "attn_type", "combination", "compute_capability", "head_size", "kv_cache_dtype", "mm_prefix", "non_causal", "rswa", "sink",
        "sliding_window", "batch_invariance", "per_head_quant_scales", "device_cpu_query_lens_mismatch", "pcp", "dcp"))),
    *names_of(f"{_FLASH}Backend", "get_name", "get_impl_cls", "get_builder_cls", "get_supported_kernel_block_sizes",
              "supports_combination", "forward_includes_kv_cache_update"),
    *names_of(f"{_FLASH}Impl", "__init__", "forward", "do_kv_cache_update", "scale", "sliding_window", "logits_soft_cap", "sinks",
              "alibi_slopes", "kv_cache_dtype", "head_size", "attn_type", "supports_quant_query_input", "supports_dcp",
              "can_return_lse_for_decode"),
    *names_of(f"{_FLASH}Metadata", "causal", "rswa_prefix_lens", "mm_prefix_query_range_tensor"),
    *names_of(f"{_FLASH}MetadataBuilder", "__init__", "build", "_cudagraph_support", "supports_update_block_table",
              "supports_draft_decode_metadata_update"),
    *names_of(f"{_ABSTRACT}AttentionMetadataBuilder", "_init_reorder_batch_threshold", "build_for_drafting",
              "build_for_cudagraph_capture", "reorder_batch_threshold"),
    *names_of(f"{_ABSTRACT}AttentionCGSupport", "UNIFORM_BATCH"), *names_of(f"{_ABSTRACT}AttentionType", "DECODER"),
    *names_of(f"{_ABSTRACT}CommonAttentionMetadata", "query_start_loc", "query_start_loc_cpu", "seq_lens",
              "seq_lens_cpu_upper_bound", "num_reqs", "num_actual_tokens", "max_seq_len", "block_table_tensor"),
    *names_of(f"{_ABSTRACT}AttentionLayer", "_k_scale", "_v_scale"),
    *names_of(f"{_BACKENDS}utils:", "split_decodes_and_prefills"),
    *names_of("vllm.v1.kv_cache_interface:", "is_quantized_kv_cache"),
    *names_of("vllm.platforms.interface:DeviceCapability", "to_int"))


class BackendTaken(MimwError, RuntimeError):
    """Another plugin has registered vLLM's only place for an attention of others."""


def register() -> None:
    """Put our backend into vLLM's registry, under CUSTOM.

    errors:    BackendTaken where another plugin has registered CUSTOM
    """
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend
    place = AttentionBackendEnum.CUSTOM
    if place.is_overridden() and place.get_path() != BACKEND:
        raise BackendTaken(f"vLLM's attention backend CUSTOM is {place.get_path()} already; leave that plugin out by VLLM_PLUGINS, "
                           "or name the operators of mimw in MIMW_VLLM without attention")
    register_backend(place, BACKEND)


__all__ = ["BACKEND", "BackendTaken", "LATER", "STANDS_ON", "register"]
