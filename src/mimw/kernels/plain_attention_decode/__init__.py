"""Attention with a cache of keys and values that takes any strides, head dims and page sizes and runs on any GPU, in bf16, fp16
and fp32, with a window, soft cap and sinks; split-KV in two launches.

Input: q (batch, queries, heads, dim), caches (batch, length, kv_heads, dim) or (pages, page_size, kv_heads, dim), lengths
(batch). Output: o = softmax(scale q k^T) v, and the logarithms of the softmax's denominators. For example:

    arguments(q, k_cache, v_cache, lengths, o, lse, room)       [(kernel, grid, args, meta), ...], numpy or torch
"""

from __future__ import annotations

from math import sqrt

from ..attention.changes import check_changes
from ..checks import of_rank, one_of, strides, type_name
from .configs import meta as compile_time
from .configs import splits_for
from .kernel import plain_attention_decode as kernel
from .kernel import plain_combine

E4M3 = "float8_e4m3fn"

__all__ = ["arguments", "kernel", "plain_combine", "room_for", "splits_for"]


def room_for(q, value_dim: int, splits: int) -> int:
    """How many fp32 numbers of room so many splits need."""
    batch, queries, heads, _ = q.shape
    return splits * batch * queries * heads * (value_dim + 2) if splits > 1 else 0


def arguments(q, k_cache, v_cache, lengths, o, lse, room, page_table=None, scale: float | None = None, left: int | None = None,
              softcap: float | None = None, sinks=None, splits: int = 1, exact: bool = False, k_scale=None,
              v_scale=None) -> list[tuple]:
    """[(kernel, grid, args, meta), ...], one or two launches in turn, that compute o = softmax(scale q k^T) v and lse.

    args:      q         (batch, queries, heads, dim) of bf16, fp16 or fp32, any strides
               k_cache, v_cache   (batch or pages, length or page_size, kv_heads, dim or value_dim), any strides; kv_heads
                                  divides heads
               lengths   (batch) int32, contiguous: keys of each sequence, those of its new queries among them
               o         (batch, queries, heads, value_dim)
               lse       (batch, heads, queries) fp32, contiguous
               room      fp32, as many numbers as `room_for` says, or None for one split
               page_table   (batch, pages) int32, contiguous along the last; what lies behind a sequence's keys is not looked at
               scale     of the scores, any number; by default 1 / sqrt(dim)
               left, softcap, sinks   as `mimw.kernels.attention_decode.arguments` has them
               splits    how many parts the keys are cut into
               exact     fp32 products as fp32 has them; else as tf32
               k_scale, v_scale   of caches of e4m3: (kv_heads) or (1) fp32, contiguous, what the head's keys and values are
                         multiplied by; else None
    errors:    ValueError where shapes or types do not fit, with the numbers
    """
    of_rank(4, q=q, o=o)
    of_rank(1, lengths=lengths)
    one_of(("bfloat16", "float16", "float32"), q=q)
    one_of(("int32", ), lengths=lengths)
    (batch, queries, heads, dim), (sequences, page, kv_heads, k_dim), value_dim = q.shape, k_cache.shape, v_cache.shape[3]
    if k_dim != dim or tuple(v_cache.shape[:3]) != tuple(k_cache.shape[:3]) or heads % kv_heads:
        raise ValueError(f"q is {tuple(q.shape)}, k_cache {tuple(k_cache.shape)} and v_cache {tuple(v_cache.shape)}: the caches "
                         "must be alike but for the last extent, of q's head dim, and their heads must divide q's")
    if tuple(o.shape) != (batch, queries, heads, value_dim) or tuple(lse.shape) != (batch, heads, queries):
        raise ValueError(f"o is {tuple(o.shape)} and lse {tuple(lse.shape)}; they must be {(batch, queries, heads, value_dim)} and "
                         f"{(batch, heads, queries)}")
    if page_table is None and sequences != batch or page_table is not None and page_table.shape[0] != batch:
        raise ValueError(f"q has {batch} sequences, {'the caches' if page_table is None else 'page_table'} "
                         f"{sequences if page_table is None else page_table.shape[0]}; they must be as many")
    scaled = k_scale is not None and v_scale is not None
    for name, x in (("k_cache", k_cache), ("v_cache", v_cache), ("o", o)):
        if type_name(x) != (E4M3 if scaled and name != "o" else type_name(q)):
            raise ValueError(f"q is {q.dtype} and {name} {x.dtype}; all must be of one type, or both caches {E4M3} with scales")
    if scaled and (k_scale.shape[0] != v_scale.shape[0] or k_scale.shape[0] not in (1, kv_heads)):
        raise ValueError(f"there are {k_scale.shape[0]} scales of keys and {v_scale.shape[0]} of values; there must be 1 or "
                         f"{kv_heads} of both")
    check_changes(batch, heads, softcap, sinks, None)
    group = heads // kv_heads
    rows = queries * group
    meta = compile_time(rows, dim, value_dim, q.dtype.itemsize)
    capacity, table_row = (page, 0) if page_table is None else (page * page_table.shape[1], strides(page_table)[0])
    steps = [step for x in (q, k_cache, v_cache, o) for step in strides(x)]
    scale = 1 / sqrt(dim) if scale is None else float(scale)
    args = (q, k_cache, v_cache, page_table, lengths, o, lse, room, sinks, k_scale, v_scale,
            int(scaled and k_scale.shape[0] > 1), scale, softcap, left, queries, heads, group, page,
            capacity, table_row, *steps)
    launches = [(kernel, (splits, -(-rows // meta["BM"]) * kv_heads * batch), args,
                 {**meta, "SPLITS": splits, "EXACT": exact and q.dtype.itemsize == 4})]
    if splits > 1:
        parts = max(2, min(1 << (splits - 1).bit_length(), 4096 // meta["DV_TILE"]))
        launches.append((plain_combine, (batch * heads * queries, ), (o, lse, room, sinks, queries, heads, *steps[12:]),
                         dict(DV=value_dim, DV_TILE=meta["DV_TILE"], SPLITS=splits, PARTS=parts, num_warps=4)))
    return launches
