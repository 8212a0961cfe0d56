"""FlashMLA's entry for dense decoding, with its names, arguments and results, over `mimw.ops.mla_decode`.

Input: FlashMLA's arguments. Output: its results. For example, in place of `from flash_mla import ...`:

    from mimw.integrations.flash_mla import flash_mla_with_kvcache, get_mla_metadata
    metadata, num_splits = get_mla_metadata(cache_seqlens, s_q * h_q // h_kv, h_kv)
    out, lse = flash_mla_with_kvcache(q, k_cache, block_table, cache_seqlens, 512, metadata, num_splits, causal=True)

No metadata is needed: the kernel itself shares out the keys, from lengths that are on the device. Both results of
`get_mla_metadata` are None, and whatever is given in their place is not looked at.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mimw import ops


def get_mla_metadata(*args, **more) -> tuple[None, None]:
    """(None, None), for any arguments: what `flash_mla_with_kvcache` takes for FlashMLA's tile_scheduler_metadata and
    num_splits."""
    return None, None


def flash_mla_with_kvcache(q: Tensor, k_cache: Tensor, block_table: Tensor, cache_seqlens: Tensor, head_dim_v: int,
                           tile_scheduler_metadata=None, num_splits=None, softmax_scale: float | None = None, causal: bool = False,
                           is_fp8_kvcache: bool = False, indices: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """(out, lse) of queries on a paged latent cache.

    args:      q            (batch, s_q, h_q, 576), bf16 or fp16
               k_cache      (pages, page size, 1, 576) of q's type; with is_fp8_kvcache (pages, page size, 1, 656) of one-byte
                            numbers: 512 e4m3, four float32 scales, 64 bf16
               block_table  (batch, most pages) int32
               cache_seqlens    (batch) int32
               head_dim_v   512
               softmax_scale    by default 576 ** -0.5
               causal       query i sees keys up to i + length - s_q; else all
    returns:   out (batch, s_q, h_q, head_dim_v); lse (batch, h_q, s_q), fp32. A query that sees no key gets 0 and +inf
    errors:    NotImplementedError for `indices`: `mimw.ops.sparse_mla` takes lists of keys, of caches in q's type; RuntimeError as
               `mimw.ops.mla_decode`
    """
    if indices is not None:
        raise NotImplementedError("flash_mla_with_kvcache: indices are given, and lists of keys are not read from paged caches: "
                                  "gather the pages, and call mimw.ops.sparse_mla(q, kv, indices, lengths)")
    if is_fp8_kvcache != (k_cache.element_size() == 1):
        raise RuntimeError(f"flash_mla_with_kvcache: is_fp8_kvcache is {is_fp8_kvcache}, and k_cache is {k_cache.dtype}; it must "
                           "be True of numbers of one byte, and of these alone")
    cache = k_cache.view(torch.float8_e4m3fn) if is_fp8_kvcache else k_cache
    out, lse = ops.mla_decode(q, cache, cache_seqlens, page_table=block_table, value_dim=head_dim_v, scale=softmax_scale,
                              causal=causal)
    return out, lse.masked_fill(lse == float("-inf"), float("inf"))


__all__ = ["flash_mla_with_kvcache", "get_mla_metadata"]
