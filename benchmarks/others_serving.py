"""Launches of further kernels of vLLM and flash-linear-attention, by name, beside those of others_launches.py.

Input: nothing. Output: further entries of `KERNELS`. For example:

    KERNELS["vllm-unified-attention"].launch()          (grid, arguments and options by name)
"""

from __future__ import annotations

import torch

from .others_launches import Launch, kernel, random, tiles, whole


@kernel("vllm-unified-attention", "vllm", "0.33.0", "vllm/v1/attention/ops/triton_unified_attention.py",
        "kernel_unified_attention", needs=("vllm.v1.attention.ops.triton_attention_helpers", ))
def _unified(batch: int = 4, heads: int = 32, kv_heads: int = 8, length: int = 4096, dim: int = 128, page: int = 64) -> Launch:
    """Prefill from a cache in pages, causal, by the wrapper's own choices for it."""
    each, block = heads // kv_heads, 128
    q, o = random(batch * length, heads, dim), random(batch * length, heads, dim)
    keys, values = (random(batch * length // page, page, kv_heads, dim) for _ in range(2))
    pages = whole(list(range(batch * length // page))).view(batch, -1)
    strides = {f"stride_{name}_cache_{axis}": step for name, cache in (("k", keys), ("v", values))
               for axis, step in enumerate(cache.stride())}
    none = dict.fromkeys(("sink_ptr", "alibi_slopes_ptr", "qq_bias_ptr", "q_scale", "k_scale", "v_scale", "per_seq_causal_ptr",
                          "mm_prefix_range_ptr", "segm_output_ptr", "segm_max_ptr", "segm_expsum_ptr", "k_scale_cache_ptr",
                          "v_scale_cache_ptr", "stride_ks_blk", "stride_ks_slot", "stride_ks_head", "stride_vs_blk",
                          "stride_vs_slot", "stride_vs_head"))
    flags = dict.fromkeys(("USE_ALIBI_SLOPES", "USE_ALIBI_SQRT", "USE_QQ_BIAS", "USE_SOFTCAP", "USE_SINKS", "USE_PER_SEQ_CAUSAL",
                           "USE_MM_PREFIX", "USE_R_SWA", "USE_FP8", "IS_3D", "USE_TD", "USE_TD_QO", "Q_IS_FP8",
                           "MM_PREFIX_CLAMP_SW"), False)
    lengths = whole([length] * batch)
    return (batch * length // (block // each) + batch, kv_heads), none | flags | strides | dict(
        output_ptr=o, query_ptr=q, key_cache_ptr=keys, value_cache_ptr=values, block_tables_ptr=pages, seq_lens_ptr=lengths,
        scale=dim ** -0.5, out_scale=1.0, softcap=0.0, num_query_heads=heads, num_queries_per_kv=each,
        block_table_stride=pages.stride(0), query_stride_0=q.stride(0), query_stride_1=dim, output_stride_0=o.stride(0),
        output_stride_1=dim, qq_bias_stride_0=0, BLOCK_SIZE=page, TILE_SIZE=page, HEAD_SIZE=dim, HEAD_SIZE_PADDED=dim,
        SLIDING_WINDOW=0, USE_CAUSAL=True, MAX_MM_RANGES=0, rswa_prefix_lens_ptr=lengths, R_SWA_WINDOW=0,
        query_start_len_ptr=whole([length * at for at in range(batch + 1)]), BLOCK_Q=block // each, num_seqs=batch, BLOCK_M=block,
        NUM_SEGMENTS_PER_SEQ=1, KV_QUANT_MODE=0, FP8_MIN=-448.0, FP8_MAX=448.0, CHUNK_LOOKBACK=-1, CHUNK_SIZE=-1, num_warps=8,
        num_stages=2)


@kernel("fla-chunk-intra", "fla-core", "0.6.0", "fla/ops/kda/chunk_intra.py", "chunk_kda_fwd_kernel_inter_solve_fused",
        needs=("fla.ops.utils.op", ))
def _chunk_intra(batch: int = 2, length: int = 4096, heads: int = 16, dim: int = 128, chunk: int = 64, part: int = 16) -> Launch:
    q, k, g = (random(batch, length, heads, dim) for _ in range(3))
    wide = {name: random(batch, length, heads, last, dtype=torch.float32) for name, last in (("Akkd", part), ("beta", 1))}
    return (tiles(length, chunk), batch * heads), dict(
        q=q, k=k, g=g, beta=wide["beta"], Aqk=random(batch, length, heads, chunk), Akkd=wide["Akkd"],
        Akk=random(batch, length, heads, chunk), scale=dim ** -0.5, cu_seqlens=None, chunk_indices=None, T=length, H=heads,
        HV=heads, K=dim, BT=chunk, BC=part, NC=chunk // part, BK=64, IS_VARLEN=False, USE_SAFE_GATE=True, num_warps=4)
