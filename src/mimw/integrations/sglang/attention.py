"""Hooks around the decoding of SGLang's FlashAttention (`--attention-backend fa3`), by `ops.attention_decode`.

Input: what FlashAttention's function for caches gets while SGLang decodes. Output: its result. For example:

    flash_attn_with_kvcache(original, q, k_cache, v_cache, page_table=table, cache_seqlens=lengths, ...)    inside forward_decode

SGLang has resolved tables and windows by then, so one function is all that is replaced. The hook around `forward_decode` says that
each row of q is one sequence's: a prompt of one token looks the same to the function, and the host knows no lengths there.
"""

from __future__ import annotations

from contextvars import ContextVar

from mimw import ops
from mimw.integrations import serving
from mimw.integrations.contracts import names_of
from mimw.kernels.attention_decode.configs import PAGES

from . import modes

_FLASH, _BACKEND = "sglang.kernels.ops.attention.flash_attention", "sglang.srt.layers.attention.flashattention_backend"
STANDS_ON = (*names_of(f"{_FLASH}:", "flash_attn_with_kvcache"), *names_of(f"{_BACKEND}:FlashAttentionBackend", "forward_decode"))
_decoding = ContextVar("decoding", default=False)


def forward_decode(original, *args, **kwargs):
    """FlashAttentionBackend.forward_decode."""
    token = _decoding.set(True)
    try:
        return original(*args, **kwargs)
    finally:
        _decoding.reset(token)


def flash_attn_with_kvcache(original, q, k_cache, v_cache, *args, cache_seqlens=None, page_table=None, cu_seqlens_q=None,
                            cu_seqlens_k_new=None, max_seqlen_q=None, softmax_scale=None, causal=False, window_size=(-1, -1),
                            softcap=0.0, scheduler_metadata=None, num_splits=0, return_softmax_lse=False, sinks=None, ver=3,
                            out=None, max_seqlen_k=None, **more):
    """flash_attn_with_kvcache, called by its backend with these names; any other argument is a reason to leave the call."""
    given = sorted(name for name, value in more.items() if value is not None)
    lengths = cache_seqlens.shape if hasattr(cache_seqlens, "shape") else None
    reason = None if not _decoding.get() else modes.reason(q, sm_90=True) or (
        f"it has {', '.join(given)}" if given or args else
        "the denominators are asked for" if return_softmax_lse else
        "rows see all keys" if not causal else
        "sequences have several queries, or none" if max_seqlen_q != 1 or not len(q) or q.dim() != 3 or lengths != q.shape[:1] else
        f"queries are {q.dtype} and the cache {k_cache.dtype}" if q.dtype != k_cache.dtype or q.element_size() != 2 else
        f"pages have {k_cache.shape[1]} keys; --page-size may be {', '.join(map(str, PAGES))}"
        if page_table is None or k_cache.shape[1] not in PAGES else None)
    if not _decoding.get() or not serving.taken("attention", reason):
        return original(q, k_cache, v_cache, *args, cache_seqlens=cache_seqlens, page_table=page_table, cu_seqlens_q=cu_seqlens_q,
                        cu_seqlens_k_new=cu_seqlens_k_new, max_seqlen_q=max_seqlen_q, softmax_scale=softmax_scale, causal=causal,
                        window_size=window_size, softcap=softcap, scheduler_metadata=scheduler_metadata, num_splits=num_splits,
                        return_softmax_lse=return_softmax_lse, sinks=sinks, ver=ver, out=out, max_seqlen_k=max_seqlen_k, **more)
    left = window_size[0]
    o = ops.attention_decode(q[:, None], k_cache, v_cache, cache_seqlens, page_table=page_table, scale=softmax_scale,
                             window=(None if left < 0 else left, None), softcap=softcap or None, sinks=sinks)[:, 0]
    return o if out is None else out.copy_(o.view(out.shape))


HOOKS = {"attention": {f"{_BACKEND}.FlashAttentionBackend.forward_decode": forward_decode,
                       f"{_FLASH}.flash_attn_with_kvcache": flash_attn_with_kvcache}}

__all__ = ["HOOKS", "STANDS_ON", "flash_attn_with_kvcache", "forward_decode"]
