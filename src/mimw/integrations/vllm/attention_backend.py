"""The backend that vLLM loads for `--attention-backend CUSTOM`: vLLM's FlashAttention, whose rows ours compute.

Input: queries, vLLM's cache of keys and values, and its metadata of a step. Output: the result, written in place. For example:

    MimwAttentionImpl(32, 128, 0.088, 8, None, None, "auto").forward(layer, q, k, v, kv_cache, metadata, out)

Keys and values get into the cache as with FlashAttention, by vLLM's own kernel, so layouts, prefix caching and transfers of the
cache stay as they are. All rows are computed from the cache (`mimw.integrations.paged`).
"""

from __future__ import annotations

from vllm.v1.attention.backend import AttentionCGSupport, AttentionType
from vllm.v1.attention.backends.flash_attn import FlashAttentionBackend, FlashAttentionImpl, FlashAttentionMetadataBuilder
from vllm.v1.attention.backends.utils import split_decodes_and_prefills
from vllm.v1.kv_cache_interface import is_quantized_kv_cache

from mimw.integrations import paged, serving
from mimw.kernels.attention_decode.configs import PAGES

from .attention import LATER
from .installed import check

check(LATER)        # vLLM gives an ImportError from here as the reason why it does not take the backend


class MimwAttentionMetadataBuilder(FlashAttentionMetadataBuilder):
    """FlashAttention's metadata, and `mimw_rows`: which rows decode, and where the keys of the others lie."""

    _cudagraph_support = AttentionCGSupport.UNIFORM_BATCH       # the host splits a step into launches, unless all rows decode
    supports_update_block_table = False                         # `mimw_rows` holds places of the table

    def __init__(self, kv_cache_spec, layer_names, vllm_config, device):
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        self.supports_draft_decode_metadata_update = False
        self._init_reorder_batch_threshold(1, supports_spec_as_decode=True)

    def build(self, common_prefix_len, common_attn_metadata, fast_build=False):
        metadata = super().build(common_prefix_len, common_attn_metadata, fast_build)
        metadata.mimw_rows = rows_of_step(common_attn_metadata, self.reorder_batch_threshold)
        return metadata


def rows_of_step(common, threshold: int) -> paged.Rows:
    """The rows of a step of vLLM, from its CommonAttentionMetadata; up to `threshold` queries of a sequence decode."""
    decodes, _, tokens, _ = split_decodes_and_prefills(common, threshold, require_uniform=True)
    if decodes and tokens % decodes:
        decodes = tokens = 0        # some have no query: no equal parts
    most = common.seq_lens_cpu_upper_bound
    most = [common.max_seq_len] * common.num_reqs if most is None else most[:common.num_reqs].tolist()
    return paged.rows_of(common.query_start_loc, common.query_start_loc_cpu.tolist(), common.seq_lens, most,
                         common.block_table_tensor, decodes, tokens // max(decodes, 1))


class MimwAttentionImpl(FlashAttentionImpl):
    """FlashAttention's layer; calls that ours do not take are FlashAttention's."""

    supports_dcp = False
    can_return_lse_for_decode = False

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._reason = ("positions count by slopes (ALiBi)" if self.alibi_slopes is not None else
                        f"it is attention of {self.attn_type}" if self.attn_type != AttentionType.DECODER else None)
        if serving.taken("attention", self._reason):
            self.supports_quant_query_input = False

    def forward(self, layer, query, key, value, kv_cache, attn_metadata, output, output_scale=None, output_block_scale=None):
        rows = getattr(attn_metadata, "mimw_rows", None)
        reason = None if attn_metadata is None else self._reason or (
            "its results are quantised" if output_scale is not None or output_block_scale is not None else
            "its metadata are another builder's" if rows is None else
            "rows see later keys" if attn_metadata.causal is not True or attn_metadata.mm_prefix_query_range_tensor is not None else
            "its window has a prefix" if attn_metadata.rswa_prefix_lens is not None else None)
        if attn_metadata is None or not serving.taken("attention", reason):
            return super().forward(layer, query, key, value, kv_cache, attn_metadata, output, output_scale, output_block_scale)
        scales = {}
        keys, values = kv_cache.transpose(1, 2).split(self.head_size, dim=-1)
        if is_quantized_kv_cache(self.kv_cache_dtype):
            keys, values = keys.view(paged.E4M3), values.view(paged.E4M3)
            scales = dict(k_scale=layer._k_scale, v_scale=layer._v_scale)
        left = self.sliding_window[0]
        paged.attend(query, keys, values, rows, output, scale=self.scale, left=None if left < 0 else left,
                     softcap=self.logits_soft_cap or None, sinks=self.sinks, **scales)
        return output


class MimwAttentionBackend(FlashAttentionBackend):
    """Answers to vLLM's questions before it takes the backend; each `supports_` that says no is a reason in vLLM's message."""

    supported_kv_cache_dtypes = ["auto", "float16", "bfloat16", "fp8", "fp8_e4m3"]

    @staticmethod
    def get_name():
        return "CUSTOM"

    @staticmethod
    def get_impl_cls():
        return MimwAttentionImpl

    @staticmethod
    def get_builder_cls():
        return MimwAttentionMetadataBuilder

    @classmethod
    def get_supported_kernel_block_sizes(cls, kv_cache_spec=None):
        return list(PAGES)

    @classmethod
    def supports_head_size(cls, head_size):
        return head_size % 8 == 0 and head_size <= 256

    @classmethod
    def supports_kv_cache_dtype(cls, kv_cache_dtype):
        return kv_cache_dtype is None or kv_cache_dtype in cls.supported_kv_cache_dtypes

    @classmethod
    def supports_attn_type(cls, attn_type):
        return attn_type == AttentionType.DECODER

    @classmethod
    def supports_compute_capability(cls, capability):
        return capability.to_int() == 90

    @classmethod
    def supports_combination(cls, head_size, dtype, kv_cache_dtype, block_size, use_mla, has_sink, use_sparse, use_mm_prefix,
                             device_capability):
        if kv_cache_dtype in ("float16", "bfloat16") and kv_cache_dtype != str(dtype).removeprefix("torch."):
            return f"the cache is {kv_cache_dtype} and queries are {dtype}; both must have one type, or the cache fp8"
        return super().supports_combination(head_size, dtype, kv_cache_dtype, block_size, use_mla, has_sink, use_sparse,
                                            use_mm_prefix, device_capability)

    @classmethod
    def _never(cls):
        return False

    supports_mm_prefix = supports_non_causal = supports_rswa = supports_batch_invariance = _never
    supports_per_head_quant_scales = supports_device_cpu_query_lens_mismatch = _never


__all__ = ["MimwAttentionBackend", "MimwAttentionImpl", "MimwAttentionMetadataBuilder", "rows_of_step"]
