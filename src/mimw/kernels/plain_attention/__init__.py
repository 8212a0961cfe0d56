"""Attention forward that takes any strides, head dims and lengths and runs on any GPU, in bf16, fp16 and fp32, with a window,
soft cap, sinks and ALiBi; of batches, or of sequences packed one behind the other.

Input: q, k and v as (batch, heads, length, dim). Output: o = softmax(scale q k^T) v, and the logarithms of the softmax's
denominators. For example:

    arguments(q, k, v, o, lse)      (grid, args, meta) of a launch or `mimw.simulate` of `kernel`, numpy or torch
    packed_arguments(q, k, v, o, lse, cu_q, cu_k, 500, 500)     the same of sequences of up to 500, q (total, heads, dim)
"""

from __future__ import annotations

from ..attention.changes import CHANGES, HEADS, bounds, constants_of, scale_of, slopes_step
from ..contract import Contract
from ..contract.memory import strides
from .configs import meta as compile_time
from .kernel import plain_attention as kernel
from .nouns import Packed, Problem, Rules, Steps, StepsOfAll

__all__ = ["CONTRACT", "PACKED", "arguments", "kernel", "packed_arguments"]

CONTRACT = Contract(
    "q: float (batch, heads, seq_q, dim)", "k: =q (batch, kv_heads, seq_k, dim)", "v: =q (batch, kv_heads, seq_k, value_dim)",
    "o: =q (batch, heads, seq_q, value_dim)", "lse: fp32 (batch, heads, seq_q) contiguous", *CHANGES, HEADS, empty="seq_k")
PACKED = Contract("q: float (total_q, heads, dim)", "k: =q (total_k, kv_heads, dim)", "v: =q (total_k, kv_heads, value_dim)",
                  "o: =q (total_q, heads, value_dim)", "lse: fp32 (heads, total_q) contiguous", "cu_seqlens_q: i32 (batch + 1)",
                  "cu_seqlens_k: i32 (batch + 1)", *CHANGES, HEADS, empty="total_k")


def arguments(q, k, v, o, lse, causal: bool = False, scale: float | None = None, exact: bool = False, *,
              window: tuple[int | None, int | None] = (None, None), softcap: float | None = None, sinks=None, slopes=None,
              mod=None) -> tuple[tuple[int, int], tuple, dict]:
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
               window, softcap, sinks, slopes, mod    as `mimw.kernels.attention.arguments` has them; a window may leave a query no
                         key
    errors:    ValueError where shapes or types do not fit, with the numbers
    """
    of = CONTRACT.check(q=q, k=k, v=v, o=o, lse=lse, sinks=sinks, slopes=slopes, softcap=softcap)
    meta = compile_time(of.seq_q, of.seq_k, of.dim, of.value_dim, q.dtype.itemsize, causal, exact)
    rules = Rules(*bounds(window), softcap, sinks, slopes, slopes_step(slopes), getattr(mod, "tables", None))
    problem = Problem(float(scale_of(scale, of.dim)), of.heads, of.heads // of.kv_heads, of.seq_q, of.seq_k)
    steps = StepsOfAll(*(Steps(*strides(x)) for x in (q, k, v, o)))
    grid = -(-of.seq_q // meta["FORM"].BM.value), of.batch * of.heads
    return grid, (q, k, v, o, lse, rules, problem, steps, None, None), {**meta, **constants_of(mod)}


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
    of = PACKED.check(q=q, k=k, v=v, o=o, lse=lse, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, sinks=sinks, slopes=slopes,
                      softcap=softcap)
    meta = compile_time(max_seqlen_q, max_seqlen_k, of.dim, of.value_dim, q.dtype.itemsize, causal, exact)
    rules = Rules(*bounds(window), softcap, sinks, slopes, slopes_step(slopes))
    problem = Problem(float(scale_of(scale, of.dim)), of.heads, of.heads // of.kv_heads, max_seqlen_q, max_seqlen_k)
    # The stride of batches is 0: the kernel adds where a sequence begins.
    steps = StepsOfAll(*(Steps(0, head, row, column) for row, head, column in map(strides, (q, k, v, o))))
    grid = -(-max_seqlen_q // meta["FORM"].BM.value), of.batch * of.heads
    return grid, (q, k, v, o, lse, rules, problem, steps, Packed(cu_seqlens_q, cu_seqlens_k), of.total_q), meta
