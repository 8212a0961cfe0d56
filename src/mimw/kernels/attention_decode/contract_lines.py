"""The lines of contracts of attention with a cache, for the kernel of Hopper and the plain one.

Input: how tensors must lie. Output: lines. For example:

    Contract(Q.format(types="bf16|fp16", memory=" rows"), *caches(" tma"), *CACHES)
"""

from __future__ import annotations

from ..attention.changes import HEADS, SINKS, SOFTCAP

Q = "q: {types} (batch, queries, heads, dim){memory}"
SCALED = ("fp8(k_cache) == (k_scale is not None) and (k_scale is None) == (v_scale is None) -- caches of e4m3 have both scales, "
          "others none")
CACHES = ("lengths: i32 (batch)", "lse: fp32 (batch, heads, queries)", "page_table?: i32 (batch, most_pages) rows", SINKS, SOFTCAP,
          HEADS, "page_table is not None or pages == batch -- without a page table there must be as many caches as sequences")


def caches(memory: str) -> tuple[str, ...]:
    """The lines of both caches and of o."""
    return (f"k_cache: =q|e4m3 (pages, page_size, kv_heads, dim){memory}",
            f"v_cache: =k_cache (pages, page_size, kv_heads, value_dim){memory}",
            f"o: =q (batch, queries, heads, value_dim){' rows' if memory else ''}", SCALED,
            "k_scale?: fp32 (kv_heads|1) contiguous", "v_scale?: fp32 (kv_heads|1) contiguous",
            "k_scale is None or len(k_scale) == len(v_scale) -- there must be as many scales of keys as of values")


__all__ = ["CACHES", "Q", "caches"]
