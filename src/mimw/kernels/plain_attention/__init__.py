"""Attention forward that takes any strides, head dims and lengths and runs on any GPU, in bf16, fp16 and fp32, with a window,
soft cap, sinks and ALiBi; of batches, or of sequences packed one behind the other.

Input: q, k and v as (batch, heads, length, dim). Output: o = softmax(scale q k^T) v, and the logarithms of the softmax's
denominators. For example:

    arguments(q, k, v, o, lse)      (grid, args, meta) of a launch or `mimw.simulate` of `kernel`, numpy or torch
    packed_arguments(q, k, v, o, lse, cu_q, cu_k, 500, 500)     the same of sequences of up to 500, q (total, heads, dim)
"""

from __future__ import annotations

from math import sqrt

from ..attention.changes import bounds, check_changes, slopes_step
from ..checks import of_rank, one_of, strides
from .configs import meta as compile_time
from .kernel import plain_attention as kernel

__all__ = ["arguments", "kernel", "packed_arguments"]

TYPES = ("bfloat16", "float16", "float32")


def arguments(q, k, v, o, lse, causal: bool = False, scale: float | None = None, exact: bool = False, *,
              window: tuple[int | None, int | None] = (None, None), softcap: float | None = None, sinks=None,
              slopes=None) -> tuple[tuple[int, int], tuple, dict]:
    """(grid, args, meta) that compute o = softmax(scale q k^T) v and lse.

    args:      q         (batch, heads, seq_q, dim) of bf16, fp16 or fp32, any strides
               k, v      (batch, kv_heads, seq_k, dim) and (..., value_dim); kv_heads divides heads, and head h reads kv head
                         h * kv_heads // heads; seq_k may be 0
               o         (batch, heads, seq_q, value_dim)
               lse       (batch, heads, seq_q) fp32, contiguous
               causal    query i sees keys up to i + seq_k - seq_q: the last query sees all, and the first may see none; these
                         become 0, with lse -inf
               scale     of the scores, any number; by default 1 / sqrt(dim)
               exact     fp32 products as fp32 has them; else as tf32
               window, softcap, sinks, slopes    as `mimw.kernels.attention.arguments` has them; a window may leave a query no key
    errors:    ValueError where shapes or types do not fit, with the numbers
    """
    of_rank(4, o=o)
    (batch, heads, seq_q, dim), (kv_batch, kv_heads, seq_k, k_dim), value_dim = q.shape, k.shape, v.shape[3]
    if (kv_batch, k_dim) != (batch, dim) or tuple(v.shape[:3]) != tuple(k.shape[:3]) or heads % kv_heads:
        raise ValueError(f"q is {tuple(q.shape)}, k {tuple(k.shape)} and v {tuple(v.shape)}: k and v must be alike but for the "
                         "last extent, of q's batch and head dim, and their heads must divide q's")
    if tuple(o.shape) != (batch, heads, seq_q, value_dim) or tuple(lse.shape) != (batch, heads, seq_q):
        raise ValueError(f"o is {tuple(o.shape)} and lse {tuple(lse.shape)}; they must be {(batch, heads, seq_q, value_dim)} and "
                         f"{(batch, heads, seq_q)}")
    if str(q.dtype).removeprefix("torch.") not in TYPES or any(x.dtype != q.dtype for x in (k, v, o)):
        raise ValueError(f"q, k, v and o are {q.dtype}, {k.dtype}, {v.dtype} and {o.dtype}: all must be of one type of "
                         f"{', '.join(TYPES)}")
    left, right = bounds(window)
    check_changes(batch, heads, softcap, sinks, slopes)
    meta = compile_time(seq_q, seq_k, dim, value_dim, q.dtype.itemsize)
    steps = [step for x in (q, k, v, o) for step in strides(x)]
    args = (q, k, v, o, lse, left, right, softcap, sinks, slopes, slopes_step(slopes),
            1 / sqrt(dim) if scale is None else float(scale), heads, heads // kv_heads, seq_q, seq_k, *steps, None, None, None)
    return (-(-seq_q // meta["BM"]), batch * heads), args, {**meta, "CAUSAL": causal, "EXACT": exact and q.dtype.itemsize == 4}


def packed_arguments(q, k, v, o, lse, cu_seqlens_q, cu_seqlens_k, max_seqlen_q: int, max_seqlen_k: int, causal: bool = False,
                     scale: float | None = None, exact: bool = False, *, window: tuple[int | None, int | None] = (None, None),
                     softcap: float | None = None, sinks=None, slopes=None) -> tuple[tuple[int, int], tuple, dict]:
    """(grid, args, meta) that compute the same of each of the packed sequences.

    args:      q, k, v, o   (total, heads, dim) as `mimw.kernels.attention_varlen.arguments` has them, any strides and head dims
               lse       (heads, total_q) fp32, contiguous
               cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k   as there
               all others as `arguments`; slopes (heads) or (sequences, heads)
    errors:    ValueError where shapes or types do not fit, with the numbers
    """
    of_rank(3, o=o)
    sequences, (total_q, heads, _) = cu_seqlens_q.shape[0] - 1, q.shape
    if tuple(lse.shape) != (heads, total_q) or cu_seqlens_k.shape[0] != sequences + 1:
        raise ValueError(f"lse is {tuple(lse.shape)}, cu_seqlens_q {tuple(cu_seqlens_q.shape)} and cu_seqlens_k "
                         f"{tuple(cu_seqlens_k.shape)}; lse must be {(heads, total_q)}, the others alike")
    check_changes(sequences, heads, softcap, sinks, slopes)
    one_of(("int32", ), cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k)
    four = [x[None].swapaxes(1, 2) for x in (q, k, v, o)]
    _, args, _ = arguments(*four, lse[None], causal, scale, exact, window=window, softcap=softcap, sinks=sinks)
    _, _, _, _, _, left, right, softcap, sinks, _, _, scale, _, group, _, _, *steps, _, _, _ = args
    steps[::4] = [0] * 4        # the kernel adds where a sequence begins
    meta = compile_time(max_seqlen_q, max_seqlen_k, q.shape[2], v.shape[2], q.dtype.itemsize)
    args = (q, k, v, o, lse, left, right, softcap, sinks, slopes, slopes_step(slopes), scale, heads, group, max_seqlen_q,
            max_seqlen_k, *steps, cu_seqlens_q, cu_seqlens_k, total_q)
    return (-(-max_seqlen_q // meta["BM"]), sequences * heads), args, {**meta, "CAUSAL": causal,
                                                                       "EXACT": exact and q.dtype.itemsize == 4}
